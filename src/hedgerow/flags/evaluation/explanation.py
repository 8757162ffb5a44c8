"""The explanation of a flag's outcome: every filter, rollout and override with its result.

The field names and the enum values are part of the API.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Any, Literal

from hedgerow.filters.values import MISSING
from hedgerow.flags.model import FlagOutcome


class Source(StrEnum):
    """Where a value comes from."""

    GIVEN = "given"
    STORED = "stored"
    MISSING = "missing"
    EVALUATED = "evaluated"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterExplanation:
    """`kind` is person, group, cohort, flag or behavioral. `about` is the group type of a group
    filter, otherwise the kind. `key` is a property, a cohort name, a flag key or an event. `wanted`
    is the value of the filter, `found` the actual value or MISSING; both are texts for behavior.
    `holds` is the result, None if it cannot be evaluated; a `negated` filter inverts it. `inside`
    explains the definition of a cohort. It is None for a static cohort and, with `is_told_before`,
    for a cohort that is already explained."""

    kind: str
    about: str
    key: str
    operator: str
    wanted: Any
    found: Any
    source: Source
    holds: bool | None
    negated: bool = False
    inside: "FilterGroupExplanation | None" = None
    is_told_before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterGroupExplanation:
    """A group in the definition of a cohort: all or any of its parts must hold. Without parts,
    `holds` is the result of the empty group."""

    wants: Literal["all", "any"]
    parts: Sequence["FilterExplanation | FilterGroupExplanation"]
    holds: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutExplanation:
    """Positions and shares are percentages. Without an identifier there is no position."""

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
class VariantExplanation:
    """`drawn` is the variant at the position of the identifier, `forced` the one that the condition
    sets."""

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
class ConditionExplanation:
    """`is_reached` is false if an earlier condition or override has decided."""

    index: int
    group_type: str | None
    filters: Sequence[FilterExplanation]
    rollout: RolloutExplanation
    variants: VariantExplanation | None
    verdict: Verdict
    is_reached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideExplanation:
    """Evaluated before all conditions: enrollment, super condition, holdout."""

    kind: str
    filters: Sequence[FilterExplanation]
    rollout: RolloutExplanation | None
    decides: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyExplanation:
    """`value` is the value of the other flag, None if `problem` says why there is none."""

    key: str
    value: bool | str | None
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    outcome: FlagOutcome
    exceptions: Sequence[OverrideExplanation] = ()
    conditions: Sequence[ConditionExplanation] = ()
    dependencies: Sequence[DependencyExplanation] = ()


def to_json(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as JSON values. A missing value is null."""
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
        "conditions": _to_json(explanation.conditions),
        "exceptions": _to_json(explanation.exceptions),
        "dependencies": _to_json(explanation.dependencies),
    }


def _to_json(value: Any) -> Any:
    """Convert our dataclasses to objects. Property values stay unchanged."""
    if value is MISSING:
        return None
    if isinstance(value, Sequence) and value and is_dataclass(value[0]):
        return [_to_json(each) for each in value]
    if not is_dataclass(value):
        return value
    return {field.name: _to_json(getattr(value, field.name)) for field in fields(value)}
