"""Normalize definitions for SDKs in statically typed languages. Pure.

Such an SDK decodes all definitions at once, and fails for all if a percentage is 50.0 instead of 50
or if a filter lacks a required field.
"""

from collections.abc import Mapping
from typing import Any

# These operators have no value. PostHog writes their name as the value.
WITHOUT_VALUE = ("is_set", "is_not_set")
ROLLOUT = "rollout_percentage"


def normalize_filters(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Normalize the filters of a flag."""
    normalized = {**filters, "groups": [_normalize_group(group) for group in filters["groups"]]}
    multivariate = filters.get("multivariate")
    if isinstance(multivariate, Mapping) and isinstance(multivariate.get("variants"), list):
        variants = [_normalize_rollout(each) for each in multivariate["variants"]]
        normalized["multivariate"] = {**multivariate, "variants": variants}
    return normalized


def normalize_filter(node: Any) -> Any:
    """Normalize a filter, or a group of filters in a cohort."""
    if not isinstance(node, Mapping):
        return node
    if "key" not in node and isinstance(node.get("values"), list):
        return {**node, "values": [normalize_filter(each) for each in node["values"]]}
    if "value" in node and "type" in node:
        return node
    operator = node.get("operator")
    missing = {"type": "person", "value": operator if operator in WITHOUT_VALUE else None}
    return {**missing, **node}


def _normalize_group(group: Any) -> Any:
    normalized = _normalize_rollout(group)
    if not isinstance(normalized, Mapping) or not isinstance(normalized.get("properties"), list):
        return normalized
    return {
        **normalized,
        "properties": [normalize_filter(each) for each in normalized["properties"]],
    }


def _normalize_rollout(node: Any) -> Any:
    rollout = node.get(ROLLOUT) if isinstance(node, Mapping) else None
    if isinstance(rollout, float) and rollout.is_integer():
        return {**node, ROLLOUT: int(rollout)}
    return node
