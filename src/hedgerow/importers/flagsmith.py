"""Convert the flags of a Flagsmith export. Pure.

It reads two documents: a list of features, and an environment document, which also has segments.
A value becomes the payload. A multivariate flag gets one variant per value, and `control` for the
default value.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.importers.documents import Item, get_list, get_object, get_objects
from hedgerow.importers.flag_drafts import (
    FlagDraft,
    FlagDrafts,
    Unsupported,
    build_condition,
    build_filter,
    build_is_set_filter,
    build_pattern,
    encode_payload,
    parse_percentage,
)
from hedgerow.importers.model import ConversionResult
from hedgerow.importers.unknown_fields import note_unknown_fields
from hedgerow.lib.shape import Shape

CONTROL = "control"
# The most condition sets that one segment may expand to.
MAX_CONDITION_SETS = 20
SEMVER = ":semver"
OPERATORS = {
    "EQUAL": "exact",
    "NOT_EQUAL": "is_not",
    "GREATER_THAN": "gt",
    "GREATER_THAN_INCLUSIVE": "gte",
    "LESS_THAN": "lt",
    "LESS_THAN_INCLUSIVE": "lte",
    "IS_SET": "is_set",
    "IS_NOT_SET": "is_not_set",
}
SEMVER_OPERATORS = {
    "exact": "semver_eq",
    "is_not": "semver_neq",
    "gt": "semver_gt",
    "gte": "semver_gte",
    "lt": "semver_lt",
    "lte": "semver_lte",
}
OPPOSITE_OPERATORS = {
    "exact": "is_not",
    "is_not": "exact",
    "regex": "not_regex",
    "not_regex": "regex",
    "semver_eq": "semver_neq",
    "semver_neq": "semver_eq",
    "is_set": "is_not_set",
    "is_not_set": "is_set",
}
# Operators that match a person without the property here, but not in Flagsmith.
MATCH_IF_ABSENT = frozenset(("is_not", "not_regex", "semver_neq"))

# The fields of Flagsmith's exports. Those in `unused` have no equivalent that matters.
_FEATURE = Shape(
    *("name", "enabled", "value", "is_server_key_only"),
    multivariate=Shape("value", "percentage_allocation", unused=("id", "uuid")),
    unused=(
        *("id", "uuid", "type", "description", "default_enabled", "initial_value", "is_archived"),
        *("tags", "owners", "created_date", "project"),
    ),
)
_STATE = Shape(
    *("feature_state_value", "enabled", "name"),
    feature=Shape("name", "id", "type", unused=("description", "is_archived")),
    multivariate_feature_state_values=Shape(
        "percentage_allocation",
        multivariate_feature_option=Shape("value", unused=("id",)),
        unused=("id", "mv_fs_value_uuid"),
    ),
    feature_segment=Shape("priority"),
    unused=("django_id", "featurestate_uuid", "id"),
)
_RULE = Shape("type", conditions=Shape("operator", "value", "property_", "property"))
_RULE.fields["rules"] = _RULE
_SEGMENT = Shape("name", rules=_RULE, feature_states=_STATE, unused=("id",))

# Filters that must all match, and the rollout percentage.
ConditionSet = tuple[list[dict[str, Any]], float]


def convert_flagsmith(document: Any) -> ConversionResult:
    drafts = FlagDrafts()
    if isinstance(document, list):
        for number, item in enumerate(document, 1):
            _add_draft(drafts, number, item, _convert_feature)
    elif isinstance(document, Mapping) and isinstance(document.get("feature_states"), list):
        overrides = _EnvironmentConverter(document)
        for number, item in enumerate(document["feature_states"], 1):
            _add_draft(drafts, number, item, overrides.convert)
    else:
        raise Invalid(
            "This is not a Flagsmith export. Expected a list of features or an environment "
            "document."
        )
    return drafts.build_result()


def _add_draft(drafts: FlagDrafts, number: int, item: Any, make: Any) -> None:
    if not isinstance(item, Mapping):
        drafts.skip(f"number {number}", "It is not a JSON object.")
        return
    name = str(item.get("name") or get_object(item, "feature").get("name") or "")
    drafts.add(number, name, lambda: make(number, name, item))


def _convert_feature(number: int, name: str, item: Item) -> FlagDraft:
    draft = FlagDraft(number=number, name=name, active=bool(item.get("enabled")))
    note_unknown_fields(item, _FEATURE, "", draft.notes.append)
    options = [
        (each.get("value"), each.get("percentage_allocation"))
        for each in get_objects(item, "multivariate")
    ]
    _set_values(draft, item.get("value"), options)
    draft.groups.append(build_condition([]))
    if item.get("is_server_key_only"):
        draft.notes.append("It was for servers only: set evaluation_runtime here.")
    return draft


def _set_values(draft: FlagDraft, value: Any, options: Sequence[tuple[Any, Any]]) -> None:
    others = [(each, parse_percentage(share)) for each, share in options]
    others = [(each, share) for each, share in others if share > 0]
    if not others:
        if value not in (None, ""):
            draft.payloads["true"] = encode_payload(value)
        return
    left = 100 - sum(share for _, share in others)
    if left < -1e-6:
        raise Unsupported("The percentages of its values add up to more than 100.")
    keys = [CONTROL]
    for each, _ in others:
        keys.append(_make_variant_key(each, keys))
    values = [(value, round(max(left, 0), 6)), *others]
    draft.variants = [
        {"key": key, "rollout_percentage": share}
        for key, (_, share) in zip(keys, values, strict=True)
    ]
    draft.payloads = {
        key: encode_payload(each) for key, (each, _) in zip(keys, values, strict=True)
    }


def _make_variant_key(value: Any, taken: Sequence[str]) -> str:
    text = str(value)
    if re.fullmatch(r"[a-zA-Z0-9_.-]{1,40}", text) and text not in taken:
        return text
    return f"option-{len(taken)}"


class _EnvironmentConverter:
    """Converts an environment document: its flags with the overrides of segments."""

    def __init__(self, document: Item) -> None:
        self._segments = get_objects(get_object(document, "project"), "segments")
        self._overridden_names = {
            get_object(state, "feature").get("name")
            for each in get_objects(document, "identity_overrides")
            for state in get_objects(each, "identity_features")
        }

    def convert(self, number: int, name: str, state: Item) -> FlagDraft:
        draft = FlagDraft(number=number, name=name)
        note_unknown_fields(state, _STATE, "", draft.notes.append)
        options = [
            (
                get_object(each, "multivariate_feature_option").get("value"),
                each.get("percentage_allocation"),
            )
            for each in get_objects(state, "multivariate_feature_state_values")
        ]
        value = state.get("feature_state_value")
        _set_values(draft, value, options)
        is_enabled = bool(state.get("enabled"))
        for segment, override in self._list_overrides(name):
            self._add_override(draft, segment, override, value, is_enabled=is_enabled)
        if is_enabled:
            draft.groups.append(build_condition([]))
        elif not draft.groups:
            draft.active = False
            draft.groups.append(build_condition([]))
        if name in self._overridden_names:
            draft.notes.append("Overrides for single identities are not imported.")
        return draft

    def _list_overrides(self, name: str) -> list[tuple[Item, Item]]:
        """Return the segments that override a flag, highest priority first."""
        found = [
            (segment, state)
            for segment in self._segments
            for state in get_objects(segment, "feature_states")
            if get_object(state, "feature").get("name") == name
        ]
        return sorted(found, key=lambda pair: _read_priority(pair[1]))

    def _add_override(
        self, draft: FlagDraft, segment: Item, override: Item, value: Any, *, is_enabled: bool
    ) -> None:
        name = segment.get("name")
        note_unknown_fields(segment, _SEGMENT, f"segment {name}", draft.notes.append)
        if not override.get("enabled"):
            if is_enabled:
                raise Unsupported(
                    f"Segment {name} turns it off, and a condition here cannot turn a flag off."
                )
            return
        if override.get("multivariate_feature_state_values"):
            raise Unsupported(f"Segment {name} has percentages that differ.")
        if override.get("feature_state_value") != value:
            raise Unsupported(f"Segment {name} gets a different value.")
        try:
            sets = _combine_all([_convert_rule(each) for each in get_list(segment, "rules")])
        except Unsupported as error:
            raise Unsupported(f"Segment {name}: {error}") from None
        draft.groups += [build_condition(properties, rollout) for properties, rollout in sets]


def _read_priority(state: Item) -> float:
    priority = get_object(state, "feature_segment").get("priority")
    return priority if isinstance(priority, int | float) else 0


def _combine_all(needed: Sequence[Sequence[ConditionSet]]) -> list[ConditionSet]:
    """Combine alternatives: one set of each part must match."""
    if prod(len(each) for each in needed) > MAX_CONDITION_SETS:
        raise Unsupported(f"it needs more than {MAX_CONDITION_SETS} condition sets.")
    return [_join_sets(chosen) for chosen in product(*needed)]


def _join_sets(sets: Sequence[ConditionSet]) -> ConditionSet:
    shares = [rollout for _, rollout in sets if rollout != 100]
    if len(shares) > 1:
        raise Unsupported("it has several percentage splits.")
    return [each for properties, _ in sets for each in properties], shares[0] if shares else 100


def _convert_rule(rule: Any) -> list[ConditionSet]:
    if not isinstance(rule, Mapping):
        raise Unsupported("a rule is not a JSON object.")
    kind = str(rule.get("type"))
    leaves = [_convert_condition(each) for each in get_list(rule, "conditions")]
    if kind == "NONE":
        if rule.get("rules"):
            raise Unsupported("it has rules inside a NONE rule.")
        return _combine_all([_negate(each) for each in leaves])
    inner = [_convert_rule(each) for each in get_list(rule, "rules")]
    together = [*([_require_presence(each)] for each in leaves), *inner]
    if kind == "ANY":
        return [each for sets in together for each in sets]
    return _combine_all(together)


def _require_presence(leaf: ConditionSet) -> ConditionSet:
    properties, rollout = leaf
    present = [
        build_is_set_filter(each["key"])
        for each in properties
        if each["operator"] in MATCH_IF_ABSENT
    ]
    return [*properties, *present], rollout


def _negate(leaf: ConditionSet) -> list[ConditionSet]:
    """Return the condition sets that match when a condition does not."""
    properties, _ = leaf
    if not properties or properties[0]["operator"] not in OPPOSITE_OPERATORS:
        raise Unsupported("one of its conditions has no opposite operator here.")
    [only] = properties
    sets: list[ConditionSet] = [([{**only, "operator": OPPOSITE_OPERATORS[only["operator"]]}], 100)]
    if only["operator"] in MATCH_IF_ABSENT:
        sets.append(([build_filter(only["key"], "is_not_set", "is_not_set")], 100))
    return sets


def _convert_condition(condition: Any) -> ConditionSet:
    if not isinstance(condition, Mapping):
        raise Unsupported("a condition is not a JSON object.")
    operator, value = str(condition.get("operator")), condition.get("value")
    key = str(condition.get("property_") or condition.get("property") or "")
    if operator == "PERCENTAGE_SPLIT":
        return [], parse_percentage(value)
    if operator == "IN":
        texts = value if isinstance(value, list) else str(value).split(",")
        return [build_filter(key, "exact", [str(each) for each in texts])], 100
    if operator in ("CONTAINS", "NOT_CONTAINS"):
        name = "regex" if operator == "CONTAINS" else "not_regex"
        return [build_filter(key, name, build_pattern([str(value)]))], 100
    if operator == "REGEX":
        return [build_filter(key, "regex", f"^(?:{value})")], 100
    if operator not in OPERATORS:
        raise Unsupported(f"the operator {operator} has no equivalent here.")
    name, text = OPERATORS[operator], str(value)
    if text.endswith(SEMVER) and name in SEMVER_OPERATORS:
        return [build_filter(key, SEMVER_OPERATORS[name], text.removesuffix(SEMVER))], 100
    return [build_filter(key, name, value)], 100
