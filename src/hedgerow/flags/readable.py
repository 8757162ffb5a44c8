"""Definitions as SDKs in languages with types read them. Pure.

Such an SDK reads all definitions at once. A percentage that is written as 50.0 where it expects a
whole number, or a filter without a field that it requires, and it has no definitions at all.
"""

from collections.abc import Mapping
from typing import Any

# They ask for no value. PostHog's own app writes their name there.
WITHOUT_VALUE = ("is_set", "is_not_set")
ROLLOUT = "rollout_percentage"


def readable_filters(filters: Mapping[str, Any]) -> dict[str, Any]:
    """A flag's filters."""
    told = {**filters, "groups": [_group(group) for group in filters["groups"]]}
    multivariate = filters.get("multivariate")
    if isinstance(multivariate, Mapping) and isinstance(multivariate.get("variants"), list):
        variants = [_with_whole_rollout(each) for each in multivariate["variants"]]
        told["multivariate"] = {**multivariate, "variants": variants}
    return told


def readable_filter(node: Any) -> Any:
    """A filter, or a group of them as cohorts have it."""
    if not isinstance(node, Mapping):
        return node
    if "key" not in node and isinstance(node.get("values"), list):
        return {**node, "values": [readable_filter(each) for each in node["values"]]}
    if "value" in node and "type" in node:
        return node
    operator = node.get("operator")
    missing = {"type": "person", "value": operator if operator in WITHOUT_VALUE else None}
    return {**missing, **node}


def _group(group: Any) -> Any:
    told = _with_whole_rollout(group)
    if not isinstance(told, Mapping) or not isinstance(told.get("properties"), list):
        return told
    return {**told, "properties": [readable_filter(each) for each in told["properties"]]}


def _with_whole_rollout(node: Any) -> Any:
    rollout = node.get(ROLLOUT) if isinstance(node, Mapping) else None
    if isinstance(rollout, float) and rollout.is_integer():
        return {**node, ROLLOUT: int(rollout)}
    return node
