"""What is there already of the things to copy, and what each becomes in the numbers of here. Pure.

Flags are known by key, group types by name, features by their flag. Others are known by the number
that an earlier run gave them, or else a cohort by its name and all that it asks, a survey by its
name, an experiment by its name and its flag.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from hedgerow.experiments.variants import KEPT
from hedgerow.flags.references import COHORT, FLAG, GROUP_TYPE, rewritten
from hedgerow.importers.model import Kind, SourceId, Wanted
from hedgerow.importers.shapes import number
from hedgerow.lib import jsonio

Item = Mapping[str, Any]

# In the place of what has no number yet: no stored thing has such a one.
UNMADE = -1
# Where a static cohort of the same name has some that no earlier run gave it.
MEMBERS = "members"
# Documents that say nothing say the same.
NOTHING: tuple[Any, ...] = (None, {}, [])


class Action(StrEnum):
    CREATE = "create"
    SAME = "same"
    DIFFERS = "differs"


@dataclass(slots=True)
class There:
    """What this installation has, as its API tells."""

    group_types: dict[str, int] = field(default_factory=dict)
    items: dict[Kind, list[Item]] = field(default_factory=dict)


@dataclass(slots=True)
class Numbers:
    """By kind, the numbers of here for those of the source. `claimed` is taken by one of them."""

    group_types: dict[int, int] = field(default_factory=dict)
    of: dict[Kind, dict[SourceId, Any]] = field(default_factory=lambda: {kind: {} for kind in Kind})
    claimed: dict[Kind, set[Any]] = field(default_factory=lambda: {kind: set() for kind in Kind})

    def learn(self, wanted: Wanted, id: Any) -> None:
        self.of[wanted.kind][wanted.source_id] = id
        self.claimed[wanted.kind].add(id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`id` and `differences` are those of what is there; `body` is what our API takes."""

    wanted: Wanted
    action: Action
    body: Mapping[str, Any]
    id: Any = None
    differences: Sequence[str] = ()


def decided(
    wanted: Wanted, there: There, numbers: Numbers, known: Mapping[SourceId, Any]
) -> Decision:
    """`known` are the numbers that an earlier run gave to things of this kind."""
    body = translated(wanted, numbers)
    found = _found(wanted, body, there, numbers, known)
    if found is None:
        return Decision(wanted=wanted, action=Action.CREATE, body=body)
    differences = [name for name in body if not _same(name, body[name], _stored(found, name))]
    if _ended_by_its_limit(wanted.kind, body):
        differences = [name for name in differences if name != "end_date"]
    is_list = wanted.kind is Kind.COHORT and body["is_static"]
    if is_list and found["id"] != known.get(wanted.source_id) and found.get("count"):
        differences.append(MEMBERS)
    action = Action.DIFFERS if differences else Action.SAME
    return Decision(
        wanted=wanted, action=action, body=body, id=found["id"], differences=differences
    )


def _ended_by_its_limit(kind: Kind, body: Mapping[str, Any]) -> bool:
    """A survey that runs there may have had its answers here."""
    has_limit = kind is Kind.SURVEY and body["responses_limit"] is not None
    return has_limit and body["end_date"] is None


def translated(wanted: Wanted, numbers: Numbers) -> dict[str, Any]:
    """The body with the numbers of here."""
    body = dict(wanted.body)
    for name in ("filters", "targeting_flag_filters"):
        if body.get(name) is not None and wanted.kind is not Kind.COHORT:
            body[name] = rewritten(body[name], numbers_rewriter(numbers))
    if wanted.kind is Kind.COHORT and "filters" in body:
        body["filters"] = {"properties": _definition(body["filters"]["properties"], numbers)}
    if wanted.kind is Kind.EXPERIMENT:
        body |= {name: _translated_deep(body[name], numbers) for name in _MEASURED}
    for name in ("feature_flag_id", "linked_flag_id"):
        if body.get(name) is not None:
            body[name] = numbers.of[Kind.FLAG].get(body[name], UNMADE)
    return body


def numbers_rewriter(numbers: Numbers) -> Any:
    def rewrite(kind: str, value: Any, _place: str) -> Any:
        id = number(value)
        if kind == GROUP_TYPE:
            return numbers.group_types.get(id, UNMADE)
        if kind == COHORT:
            return numbers.of[Kind.COHORT].get(id, UNMADE)
        assert kind == FLAG
        return str(numbers.of[Kind.FLAG].get(id, UNMADE))

    return rewrite


def _translated_deep(value: Any, numbers: Numbers) -> Any:
    """What an experiment measures, with the cohorts and group types of here wherever named."""
    if isinstance(value, list):
        return [_translated_deep(each, numbers) for each in value]
    if not isinstance(value, Mapping):
        return value
    made = {name: _translated_deep(each, numbers) for name, each in value.items()}
    if made.get("type") == "cohort" and isinstance(made.get("value"), int | str):
        made["value"] = numbers.of[Kind.COHORT].get(number(made["value"]), UNMADE)
    for name in ("group_type_index", "aggregation_group_type_index", "math_group_type_index"):
        if isinstance(made.get(name), int):
            made[name] = numbers.group_types.get(made[name], UNMADE)
    return made


_MEASURED = ("parameters", "metrics", "metrics_secondary", "exposure_criteria")


def _definition(node: Any, numbers: Numbers) -> Any:
    if not isinstance(node, Mapping):
        return node
    made = dict(node)
    if isinstance(made.get("values"), list):
        made["values"] = [_definition(each, numbers) for each in made["values"]]
    if made.get("type") == "cohort":
        made["value"] = numbers.of[Kind.COHORT].get(made["value"], UNMADE)
    return made


def _found(
    wanted: Wanted,
    body: Mapping[str, Any],
    there: There,
    numbers: Numbers,
    known: Mapping[SourceId, Any],
) -> Item | None:
    items = there.items.get(wanted.kind, [])
    if wanted.source_id in known:
        for item in items:
            if item["id"] == known[wanted.source_id]:
                return item
    free = [item for item in items if item["id"] not in numbers.claimed[wanted.kind]]
    return next((item for item in free if _is_it(wanted.kind, body, item)), None)


def _is_it(kind: Kind, body: Mapping[str, Any], item: Item) -> bool:
    match kind:
        case Kind.FLAG:
            return bool(item["key"] == body["key"])
        case Kind.FEATURE:
            return bool(item["feature_flag"]["id"] == body["feature_flag_id"])
        case Kind.COHORT:
            names = ("name", "is_static", "filters")
            return all(_same(name, body[name], item[name]) for name in names if name in body)
        case Kind.EXPERIMENT:
            return all(item[name] == body[name] for name in ("name", "feature_flag_key"))
        case _:
            return bool(item["name"] == body["name"])


def _stored(item: Item, name: str) -> Any:
    if name == "feature_flag_id":
        return item["feature_flag"]["id"]
    if name == "parameters":
        return {field: value for field, value in item[name].items() if field != KEPT}
    if name == "targeting_flag_filters":
        return (item["targeting_flag"] or {}).get("filters")
    return item.get(name)


def _same(name: str, one: Any, other: Any) -> bool:
    if name in ("filters", "targeting_flag_filters"):
        one, other = _comparable(one), _comparable(other)
    elif name in ("start_date", "end_date"):
        one, other = _moment(one), _moment(other)
    elif name == "questions":
        one, other = _without_ids(one), _without_ids(other)
    if one in NOTHING and other in NOTHING:
        return True
    return jsonio.same(one, other)


def _comparable(filters: Any) -> Any:
    """What says the same reads the same: payloads by what they hold, and nothing that is empty."""
    if not isinstance(filters, Mapping):
        return filters
    kept = {name: part for name, part in filters.items() if part not in (None, {}, [])}
    if isinstance(kept.get("payloads"), Mapping):
        kept["payloads"] = {key: _read(text) for key, text in kept["payloads"].items()}
    return kept


def _moment(said: Any) -> Any:
    try:
        return datetime.fromisoformat(said).astimezone(UTC).isoformat()
    except (TypeError, ValueError):
        return said


def _without_ids(questions: Any) -> Any:
    """A question that came without an id was given one."""
    return [{name: each[name] for name in each if name != "id"} for each in questions or ()]


def _read(payload: Any) -> Any:
    if not isinstance(payload, str):
        return payload
    try:
        return jsonio.parse(payload.encode())
    except jsonio.JsonError:
        return payload
