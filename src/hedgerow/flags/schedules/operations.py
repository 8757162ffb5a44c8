"""What a scheduled change does to a flag: an operation and its value become fields. Pure."""

from collections.abc import Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.flags.edits import FlagFields
from hedgerow.flags.model import Flag
from hedgerow.flags.payloads import redact_filters
from hedgerow.flags.schedules.model import Operation
from hedgerow.flags.validate import condition_sets
from hedgerow.lib.text import truncate

# The fields of a flag that `update_fields` can set, with their types.
FIELD_TYPES: Mapping[str, type] = {
    "active": bool,
    "archived": bool,
    "deleted": bool,
    "ensure_experience_continuity": bool,
    "name": str,
    "tags": list,
    "filters": dict,
}
VALUE = "payload.value"


def parse_payload(payload: Any) -> dict[str, Any]:
    """Return the operation and its value. Raises Invalid if it cannot be one of any flag."""
    if not isinstance(payload, dict):
        raise Invalid("Expected an object with `operation` and `value`.", attr="payload")
    unknown = sorted(set(payload) - {"operation", "value"})
    if unknown:
        raise Invalid(f"Unknown field: {truncate(unknown[0])}.", attr="payload")
    operation = payload.get("operation")
    if operation not in tuple(Operation):
        choices = ", ".join(Operation)
        raise Invalid(f"Expected one of {choices}.", attr="payload.operation")
    value = payload.get("value")
    _CHECKS[Operation(operation)](value)
    return {"operation": operation, "value": value}


def build_fields(flag: Flag, payload: Mapping[str, Any]) -> FlagFields:
    """Return the fields that the operation changes, given the flag as it is now."""
    value = payload["value"]
    match Operation(payload["operation"]):
        case Operation.UPDATE_STATUS:
            return FlagFields(active=value)
        case Operation.ADD_RELEASE_CONDITION:
            filters = redact_filters(flag)
            groups = [*(filters.get("groups") or ()), *value["groups"]]
            return FlagFields(filters={**filters, "groups": groups})
        case Operation.UPDATE_VARIANTS:
            return FlagFields(filters=_replace_variants(redact_filters(flag), value))
        case Operation.UPDATE_ROLLOUT:
            return FlagFields(filters=_replace_rollout(redact_filters(flag), value))
        case Operation.UPDATE_FIELDS:
            tags = value.get("tags")
            return FlagFields(**{**value, **({} if tags is None else {"tags": tuple(tags)})})


def _replace_variants(filters: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    multivariate = {**(filters.get("multivariate") or {}), "variants": value["variants"]}
    payloads = value.get("payloads")
    if payloads is None:
        keys = {variant.get("key") for variant in value["variants"] if isinstance(variant, dict)}
        stored = filters.get("payloads") or {}
        payloads = {key: payload for key, payload in stored.items() if key in keys}
    return {**filters, "multivariate": multivariate, "payloads": payloads}


def _replace_rollout(filters: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    groups = [dict(each) for each in condition_sets(filters)]
    index = value.get("condition_index")
    if index is None and len(groups) != 1:
        raise Invalid(
            f"The flag has {len(groups)} conditions. Name one with `condition_index`.",
            attr=f"{VALUE}.condition_index",
            code="required",
        )
    index = index or 0
    if index >= len(groups):
        raise Invalid(
            f"The flag has no condition {index}: it has {len(groups)}, the first is 0.",
            attr=f"{VALUE}.condition_index",
        )
    groups[index]["rollout_percentage"] = value["rollout_percentage"]
    return {**filters, "groups": groups}


def _check_status(value: Any) -> None:
    if not isinstance(value, bool):
        raise Invalid("Expected true to enable the flag or false to disable it.", attr=VALUE)


def _check_condition(value: Any) -> None:
    # PostHog's own page sends the other parts of `filters` along.
    groups = _check_object(value, ("groups", "payloads", "multivariate")).get("groups")
    if not isinstance(groups, list) or not groups:
        raise Invalid("Expected a list of conditions.", attr=f"{VALUE}.groups")


def _check_variants(value: Any) -> None:
    sent = _check_object(value, ("variants", "payloads"))
    if not isinstance(sent.get("variants"), list) or not sent["variants"]:
        raise Invalid("Expected a list of variants.", attr=f"{VALUE}.variants")
    if not isinstance(sent.get("payloads"), dict | None):
        raise Invalid("Expected payloads by variant.", attr=f"{VALUE}.payloads")


def _check_rollout(value: Any) -> None:
    sent = _check_object(value, ("rollout_percentage", "condition_index"))
    percentage: Any = sent.get("rollout_percentage")
    index = sent.get("condition_index")
    if type(percentage) not in (int, float) or not 0 <= percentage <= 100:
        detail = "Expected a percentage from 0 to 100."
        raise Invalid(detail, attr=f"{VALUE}.rollout_percentage")
    if index is not None and (type(index) is not int or index < 0):
        detail = "Expected the number of a condition. The first is 0."
        raise Invalid(detail, attr=f"{VALUE}.condition_index")


def _check_fields(value: Any) -> None:
    sent = _check_object(value, tuple(FIELD_TYPES))
    if not sent:
        raise Invalid("Expected at least one field of the flag.", attr=VALUE)
    for name, each in sent.items():
        if not isinstance(each, FIELD_TYPES[name]):
            expected = {bool: "true or false", str: "a text", list: "a list", dict: "an object"}
            detail = f"Expected {expected[FIELD_TYPES[name]]}."
            raise Invalid(detail, attr=f"{VALUE}.{name}")
    if any(not isinstance(tag, str) or len(tag) > 200 for tag in sent.get("tags", ())):
        raise Invalid("Expected texts of at most 200 characters.", attr=f"{VALUE}.tags")


def _check_object(value: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(f"Expected an object with {', '.join(names)}.", attr=VALUE)
    unknown = sorted(set(value) - set(names))
    if unknown:
        detail = f"Unknown field. Expected one of {', '.join(names)}."
        raise Invalid(detail, attr=f"{VALUE}.{truncate(unknown[0])}")
    return value


_CHECKS = {
    Operation.UPDATE_STATUS: _check_status,
    Operation.ADD_RELEASE_CONDITION: _check_condition,
    Operation.UPDATE_VARIANTS: _check_variants,
    Operation.UPDATE_ROLLOUT: _check_rollout,
    Operation.UPDATE_FIELDS: _check_fields,
}
