"""Metrics, parsed from PostHog's documents. Raises Invalid with the exact path, such as
`metrics[0].source.math`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hedgerow.filters.validate import raise_invalid
from hedgerow.lib.text import parse_whole_number, truncate

MAX_METRICS = 20
MAX_STEPS = 20
MAX_WINDOW = timedelta(days=3650)

FUNNEL, MEAN, RATIO = "funnel", "mean", "ratio"
EVENTS, ACTIONS = "EventsNode", "ActionsNode"
_UNIT_SECONDS = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86_400,
    "week": 7 * 86_400,
    "month": 30 * 86_400,
}


# Fields that change the result in PostHog.
_UNSUPPORTED_FIELDS = {
    "lower_bound_percentile": "Outlier bounds",
    "upper_bound_percentile": "Outlier bounds",
    "numerator_outlier_handling": "Outlier bounds",
    "denominator_outlier_handling": "Outlier bounds",
    "threshold": "Thresholds",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricStep:
    """An event or an action that counts; an empty name means any event. `attr` is its path in the
    document."""

    event: str
    properties: Sequence[Any]
    attr: str
    action_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A funnel counts people who did all `steps` in order. A mean counts one step for each person,
    or sums a property of it. A ratio does so for two steps and divides the first by the second.
    `summed_properties` names the properties, None for a count. `conversion_window` is how long
    after exposure events count, None for the whole experiment."""

    uuid: str | None
    name: str
    type: str
    steps: Sequence[MetricStep]
    summed_properties: Sequence[str | None]
    is_lower_better: bool
    conversion_window: timedelta | None


def parse_metrics(sent: Any, attr: str) -> list[Metric]:
    if not isinstance(sent, list):
        raise_invalid(attr, "A list is required.", "not_a_list")
    if len(sent) > MAX_METRICS:
        raise_invalid(attr, f"An experiment can have at most {MAX_METRICS} metrics.", "max_length")
    return [parse_metric(each, f"{attr}[{number}]") for number, each in enumerate(sent)]


def parse_metric(sent: Any, attr: str) -> Metric:
    metric = _require_object(sent, attr)
    type, nodes = _parse_nodes(metric, attr)
    if not nodes:
        raise_invalid(attr, "A metric requires an event.", "required")
    if len(nodes) > MAX_STEPS:
        raise_invalid(attr, f"A funnel can have at most {MAX_STEPS} steps.", "max_length")
    if type == MEAN:
        nodes = nodes[:1]  # older documents may have more series; only the first counts
    summed_properties = [] if type == FUNNEL else [_parse_summed_property(*node) for node in nodes]
    goal = metric.get("goal")
    if goal not in (None, "increase", "decrease"):
        raise_invalid(f"{attr}.goal", "Expected one of: increase, decrease.", "invalid_choice")
    uuid = metric.get("uuid")
    return Metric(
        uuid=uuid if isinstance(uuid, str) else None,
        name=_build_name(metric, nodes if type == RATIO else nodes[-1:]),
        type=type,
        steps=[_parse_step(*node) for node in nodes],
        summed_properties=summed_properties,
        is_lower_better=goal == "decrease",
        conversion_window=_parse_window(metric, attr),
    )


_Node = tuple[Mapping[str, Any], str]


def _parse_nodes(metric: Mapping[str, Any], attr: str) -> tuple[str, list[_Node]]:
    """Return the metric type and its events with their paths."""
    kind = metric.get("kind", "ExperimentMetric")
    match kind:
        case "ExperimentMetric":
            pass
        case "ExperimentFunnelsQuery":
            return FUNNEL, _parse_series(metric.get("funnels_query"), f"{attr}.funnels_query")
        case "ExperimentTrendsQuery":
            return MEAN, _parse_series(metric.get("count_query"), f"{attr}.count_query")
        case _:
            detail = (
                f'"{truncate(kind)}" is not a supported kind of metric. Expected: ExperimentMetric.'
            )
            raise_invalid(f"{attr}.kind", detail, "invalid_choice")
    type = metric.get("metric_type")
    for name, what in _UNSUPPORTED_FIELDS.items():
        if metric.get(name) not in (None, {}):
            raise_invalid(f"{attr}.{name}", f"{what} are not supported. Remove this field.")
    if metric.get("funnel_order_type") not in (None, "ordered"):
        raise_invalid(
            f"{attr}.funnel_order_type",
            "Only ordered funnels are supported. Expected: ordered.",
            "invalid_choice",
        )
    match type:
        case "funnel":
            return FUNNEL, _parse_series(metric, attr)
        case "mean":
            return MEAN, [_parse_source(metric, "source", attr)]
        case "ratio":
            return RATIO, [
                _parse_source(metric, name, attr) for name in ("numerator", "denominator")
            ]
        case _:
            detail = (
                f'"{truncate(type)}" is not a supported metric type. '
                "Expected one of: funnel, mean, ratio."
            )
            return raise_invalid(f"{attr}.metric_type", detail, "invalid_choice")


def _parse_source(metric: Mapping[str, Any], name: str, attr: str) -> _Node:
    return _require_object(metric.get(name), f"{attr}.{name}"), f"{attr}.{name}"


def _parse_series(sent: Any, attr: str) -> list[_Node]:
    series = _require_object(sent, attr).get("series")
    if not isinstance(series, list):
        raise_invalid(f"{attr}.series", "Expected a list of events.", "not_a_list")
    places = [f"{attr}.series[{number}]" for number in range(len(series))]
    return [(_require_object(each, at), at) for each, at in zip(series, places, strict=True)]


def _parse_step(node: Mapping[str, Any], attr: str) -> MetricStep:
    kind = node.get("kind", EVENTS)
    if kind not in (EVENTS, ACTIONS):
        detail = (
            f'"{truncate(kind)}" is not a supported kind. Expected one of: {EVENTS}, {ACTIONS}.'
        )
        raise_invalid(f"{attr}.kind", detail, "invalid_choice")
    event = node.get("event")
    if not isinstance(event, str | None):
        raise_invalid(f"{attr}.event", "Not a valid string.")
    properties = node.get("properties") or []
    if not isinstance(properties, list):
        raise_invalid(f"{attr}.properties", "Expected a list of filters.", "not_a_list")
    action_id = _parse_action_id(node, attr) if kind == ACTIONS else None
    return MetricStep(event=event or "", properties=properties, attr=attr, action_id=action_id)


def _parse_action_id(node: Mapping[str, Any], attr: str) -> int:
    if node.get("event"):
        raise_invalid(f"{attr}.event", "An action has no event. Leave this field out.")
    id = node.get("id")
    if isinstance(id, str):
        id = parse_whole_number(id)
    if isinstance(id, bool) or not isinstance(id, int):
        raise_invalid(f"{attr}.id", "Expected the id of an action.", "required")
    return id


def _parse_summed_property(node: Mapping[str, Any], attr: str) -> str | None:
    match node.get("math"):
        case None | "total":
            return None
        case "sum":
            name = node.get("math_property")
            if not isinstance(name, str) or not name:
                raise_invalid(f"{attr}.math_property", "This field is required.", "required")
            return name
        case other:
            detail = f'"{truncate(other)}" is not supported. Expected one of: total, sum.'
            return raise_invalid(f"{attr}.math", detail, "invalid_choice")


def _build_name(metric: Mapping[str, Any], nodes: Sequence[_Node]) -> str:
    """Return the name of the metric, or a name built from its events."""
    name = metric.get("name")
    if isinstance(name, str) and name:
        return name
    return " / ".join(_name_node(node) for node, _ in nodes)


def _name_node(node: Mapping[str, Any]) -> str:
    if node.get("kind") == ACTIONS:
        name = node.get("custom_name") or node.get("name")
        return name if isinstance(name, str) else f"Action {node.get('id')}"
    event = node.get("event")
    return event if isinstance(event, str) and event else "All events"


def _parse_window(metric: Mapping[str, Any], attr: str) -> timedelta | None:
    number = metric.get("conversion_window")
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int | float) or not number > 0:
        raise_invalid(f"{attr}.conversion_window", "Expected a number greater than 0.")
    unit = metric.get("conversion_window_unit") or "day"
    if not isinstance(unit, str) or unit not in _UNIT_SECONDS:
        detail = f"One of {', '.join(_UNIT_SECONDS)} is required."
        raise_invalid(f"{attr}.conversion_window_unit", detail, "invalid_choice")
    maximum = MAX_WINDOW.total_seconds()
    return timedelta(seconds=math.ceil(min(min(number, maximum) * _UNIT_SECONDS[unit], maximum)))


def _require_object(sent: Any, attr: str) -> Mapping[str, Any]:
    if not isinstance(sent, dict):
        kind = type(sent).__name__
        raise_invalid(attr, f'Expected a dictionary of items but got type "{kind}".', "not_a_dict")
    return sent
