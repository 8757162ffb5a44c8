"""An explanation of what somebody gets from a flag, as values: every question with its answer."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Any, Literal

from hedgerow.filters.values import MISSING
from hedgerow.flags.model import Outcome


class Source(StrEnum):
    """Where a value was found."""

    GIVEN = "given"
    STORED = "stored"
    MISSING = "missing"
    EVALUATED = "evaluated"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterTold:
    """`kind` is person, group, cohort or flag; `about` is the group type of a group, else the same.
    `key` is a property, a cohort's name or a flag's key. `found` is MISSING where there is nothing;
    `holds` is None where it cannot be told. A `negated` one holds where it would not. `inside` is
    what a cohort asks: it is None for a list of persons, and where it `is_told_before`."""

    kind: str
    about: str
    key: str
    operator: str
    wanted: Any
    found: Any
    source: Source
    holds: bool | None
    negated: bool = False
    inside: "PartsTold | None" = None
    is_told_before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsTold:
    """Filters, and groups of them, inside a cohort: all of them are asked for, or any. A group
    without parts holds or not by itself."""

    wants: Literal["all", "any"]
    parts: Sequence["FilterTold | PartsTold"]
    holds: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutTold:
    """Places and shares are per cent. Without an identifier there is no place."""

    percentage: float
    counted_by: str
    identifier: str | None
    place: float | None
    is_in: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantRange:
    key: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantsTold:
    """Who is in gets `drawn`, the variant of their place, or the one that the condition forces."""

    ranges: Sequence[VariantRange]
    place: float | None
    drawn: str | None
    forced: str | None


class Verdict(StrEnum):
    MATCHES = "matches"
    NO_MATCH = "does not match"
    OUT = "matches, but is out of the rollout"
    NO_GROUP = "not asked: no group of its type was given"
    NO_DEVICE = "out of the rollout: no device id was given"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionTold:
    """`is_reached` is false where something before has decided."""

    index: int
    group_type: str | None
    filters: Sequence[FilterTold]
    rollout: RolloutTold
    variants: VariantsTold | None
    verdict: Verdict
    is_reached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionTold:
    """What comes before all conditions: enrolment, super condition, holdout."""

    kind: str
    filters: Sequence[FilterTold]
    rollout: RolloutTold | None
    decides: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyTold:
    """`value` is what the other flag gives, None if `problem` says why there is none."""

    key: str
    value: bool | str | None
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    outcome: Outcome
    exceptions: Sequence[ExceptionTold] = ()
    conditions: Sequence[ConditionTold] = ()
    dependencies: Sequence[DependencyTold] = ()


def plain(explanation: Explanation) -> dict[str, Any]:
    """The explanation as JSON has it; what is missing is null."""
    outcome = explanation.outcome
    return {
        "key": outcome.flag.key,
        "value": outcome.value,
        "variant": outcome.variant,
        "payload": outcome.payload,
        "reason": outcome.reason.value,
        "description": outcome.reason.description(outcome.condition_index),
        "condition_index": outcome.condition_index,
        "error": outcome.error,
        "conditions": _plain_parts(explanation.conditions),
        "exceptions": _plain_parts(explanation.exceptions),
        "dependencies": _plain_parts(explanation.dependencies),
    }


def _plain_parts(value: Any) -> Any:
    """What is told, with objects for what is ours. Values that were found stay as they are."""
    if value is MISSING:
        return None
    if isinstance(value, Sequence) and value and is_dataclass(value[0]):
        return [_plain_parts(each) for each in value]
    if not is_dataclass(value):
        return value
    return {field.name: _plain_parts(getattr(value, field.name)) for field in fields(value)}
