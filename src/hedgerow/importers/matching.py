"""Match items of a source with those of the target project, and translate their ids. Pure.

A flag matches by key, a group type by name, a feature by its flag. Other items match by the id
that an earlier run recorded, or else a cohort by name and definition, a survey by name, an
experiment by name and flag.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from hedgerow.experiments.variants import VARIANTS_PARAMETER
from hedgerow.flags.as_code.references import COHORT, FLAG, GROUP_TYPE, rewrite_references
from hedgerow.importers.documents import parse_id
from hedgerow.importers.model import ImportItem, ResourceKind, SourceId
from hedgerow.lib import jsonio

Item = Mapping[str, Any]

# Stands for the id of an item that is not created yet. No stored item has it.
PENDING_ID = -1
# Marks a static cohort of the same name whose members no earlier run imported.
MEMBERS_FIELD = "members"
# Values that count as equal.
EMPTY_VALUES: tuple[Any, ...] = (None, {}, [], "")


class ImportAction(StrEnum):
    CREATE = "create"
    SAME = "same"
    DIFFERS = "differs"


@dataclass(slots=True)
class TargetState:
    """The items of the target project, as its API returns them."""

    group_types: dict[str, int] = field(default_factory=dict)
    items: dict[ResourceKind, list[Item]] = field(default_factory=dict)


@dataclass(slots=True)
class IdMap:
    """Target ids by kind and source id. `claimed` are the target ids that are already matched."""

    group_types: dict[int, int] = field(default_factory=dict)
    ids: dict[ResourceKind, dict[SourceId, Any]] = field(
        default_factory=lambda: {kind: {} for kind in ResourceKind}
    )
    claimed: dict[ResourceKind, set[Any]] = field(
        default_factory=lambda: {kind: set() for kind in ResourceKind}
    )

    def add(self, item: ImportItem, id: Any) -> None:
        self.ids[item.kind][item.source_id] = id
        self.claimed[item.kind].add(id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportDecision:
    """`id` and `differences` describe the matching item; `body` is the request body for our API."""

    item: ImportItem
    action: ImportAction
    body: Mapping[str, Any]
    id: Any = None
    differences: Sequence[str] = ()


def decide_import(
    item: ImportItem, target: TargetState, id_map: IdMap, known: Mapping[SourceId, Any]
) -> ImportDecision:
    """Match an item. `known` maps source ids to the target ids that an earlier run recorded."""
    body = translate_body(item, id_map)
    found = _find_match(item, body, target, id_map, known)
    if found is None:
        return ImportDecision(item=item, action=ImportAction.CREATE, body=body)
    differences = [
        name for name in body if not _are_equal(name, body[name], _read_stored_field(found, name))
    ]
    if _may_end_by_limit(item.kind, body):
        differences = [name for name in differences if name != "end_date"]
    is_static_cohort = item.kind is ResourceKind.COHORT and body["is_static"]
    if is_static_cohort and found["id"] != known.get(item.source_id) and found.get("count"):
        differences.append(MEMBERS_FIELD)
    action = ImportAction.DIFFERS if differences else ImportAction.SAME
    return ImportDecision(
        item=item, action=action, body=body, id=found["id"], differences=differences
    )


def _may_end_by_limit(kind: ResourceKind, body: Mapping[str, Any]) -> bool:
    """A survey that runs at the source may have reached its response limit here."""
    has_limit = kind is ResourceKind.SURVEY and body["responses_limit"] is not None
    return has_limit and body["end_date"] is None


def translate_body(item: ImportItem, id_map: IdMap) -> dict[str, Any]:
    """Return the body with the ids of the target project."""
    body = dict(item.body)
    for name in ("filters", "targeting_flag_filters"):
        if body.get(name) is not None and item.kind is not ResourceKind.COHORT:
            body[name] = rewrite_references(body[name], build_id_rewriter(id_map))
    if item.kind is ResourceKind.COHORT and "filters" in body:
        body["filters"] = {
            "properties": _translate_definition(body["filters"]["properties"], id_map)
        }
    if item.kind is ResourceKind.EXPERIMENT:
        body |= {name: _translate_metrics(body[name], id_map) for name in _METRIC_FIELDS}
    for name in ("feature_flag_id", "linked_flag_id"):
        if body.get(name) is not None:
            body[name] = id_map.ids[ResourceKind.FLAG].get(body[name], PENDING_ID)
    return body


def build_id_rewriter(id_map: IdMap) -> Any:
    def rewrite(kind: str, value: Any, _location: str) -> Any:
        id = parse_id(value)
        if kind == GROUP_TYPE:
            return id_map.group_types.get(id, PENDING_ID)
        if kind == COHORT:
            return id_map.ids[ResourceKind.COHORT].get(id, PENDING_ID)
        assert kind == FLAG
        return str(id_map.ids[ResourceKind.FLAG].get(id, PENDING_ID))

    return rewrite


def _translate_metrics(value: Any, id_map: IdMap) -> Any:
    """Return metrics with the cohorts and group types of the target project."""
    if isinstance(value, list):
        return [_translate_metrics(each, id_map) for each in value]
    if not isinstance(value, Mapping):
        return value
    translated = {name: _translate_metrics(each, id_map) for name, each in value.items()}
    if translated.get("type") == "cohort" and isinstance(translated.get("value"), int | str):
        translated["value"] = id_map.ids[ResourceKind.COHORT].get(
            parse_id(translated["value"]), PENDING_ID
        )
    for name in ("group_type_index", "aggregation_group_type_index", "math_group_type_index"):
        if isinstance(translated.get(name), int):
            translated[name] = id_map.group_types.get(translated[name], PENDING_ID)
    return translated


_METRIC_FIELDS = ("parameters", "metrics", "metrics_secondary", "exposure_criteria")


def _translate_definition(node: Any, id_map: IdMap) -> Any:
    if not isinstance(node, Mapping):
        return node
    translated = dict(node)
    if isinstance(translated.get("values"), list):
        translated["values"] = [
            _translate_definition(each, id_map) for each in translated["values"]
        ]
    if translated.get("type") == "cohort":
        translated["value"] = id_map.ids[ResourceKind.COHORT].get(translated["value"], PENDING_ID)
    return translated


def _find_match(
    item: ImportItem,
    body: Mapping[str, Any],
    target: TargetState,
    id_map: IdMap,
    known: Mapping[SourceId, Any],
) -> Item | None:
    candidates = target.items.get(item.kind, [])
    if item.source_id in known:
        for candidate in candidates:
            if candidate["id"] == known[item.source_id]:
                return candidate
    claimed = id_map.claimed[item.kind]
    free = [each for each in candidates if each["id"] not in claimed]
    return next((each for each in free if _is_same_item(item.kind, body, each)), None)


def _is_same_item(kind: ResourceKind, body: Mapping[str, Any], item: Item) -> bool:
    match kind:
        case ResourceKind.FLAG:
            return bool(item["key"] == body["key"])
        case ResourceKind.FEATURE:
            return bool(item["feature_flag"]["id"] == body["feature_flag_id"])
        case ResourceKind.COHORT:
            names = ("name", "is_static", "filters")
            return all(_are_equal(name, body[name], item[name]) for name in names if name in body)
        case ResourceKind.EXPERIMENT:
            return all(item[name] == body[name] for name in ("name", "feature_flag_key"))
        case _:
            return bool(item["name"] == body["name"])


def _read_stored_field(item: Item, name: str) -> Any:
    if name == "feature_flag_id":
        return item["feature_flag"]["id"]
    if name == "parameters":
        return {field: value for field, value in item[name].items() if field != VARIANTS_PARAMETER}
    if name == "targeting_flag_filters":
        return (item["targeting_flag"] or {}).get("filters")
    return item.get(name)


def _are_equal(name: str, one: Any, other: Any) -> bool:
    if name in ("filters", "targeting_flag_filters"):
        one, other = _normalize_filters(one), _normalize_filters(other)
    elif name in ("start_date", "end_date"):
        one, other = _normalize_time(one), _normalize_time(other)
    elif name == "questions":
        one, other = _remove_question_ids(one), _remove_question_ids(other)
    elif isinstance(one, str) and isinstance(other, str):  # our API trims texts
        one, other = one.strip(), other.strip()
    if one in EMPTY_VALUES and other in EMPTY_VALUES:
        return True
    return jsonio.is_equal(one, other)


def _normalize_filters(filters: Any) -> Any:
    """Return filters without empty parts and with decoded payloads."""
    if not isinstance(filters, Mapping):
        return filters
    kept = {name: part for name, part in filters.items() if part not in (None, {}, [])}
    if isinstance(kept.get("payloads"), Mapping):
        kept["payloads"] = {key: _parse_payload(text) for key, text in kept["payloads"].items()}
    return kept


def _normalize_time(value: Any) -> Any:
    try:
        return datetime.fromisoformat(value).astimezone(UTC).isoformat()
    except (TypeError, ValueError):
        return value


def _remove_question_ids(questions: Any) -> Any:
    """Return questions without ids: our API adds ids to questions that have none."""
    return [{name: each[name] for name in each if name != "id"} for each in questions or ()]


def _parse_payload(payload: Any) -> Any:
    if not isinstance(payload, str):
        return payload
    try:
        return jsonio.parse(payload.encode())
    except jsonio.JsonError:
        return payload
