"""What an experiment measures, read from PostHog's documents. Invalid names the exact place:
`metrics[0].source.math`, say.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hedgerow.filters.rules import refuse
from hedgerow.lib.text import cut_short

MAX_METRICS = 20
MAX_STEPS = 20
MAX_WINDOW = timedelta(days=3650)

FUNNEL, MEAN, RATIO = "funnel", "mean", "ratio"
_UNITS = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86_400,
    "week": 7 * 86_400,
    "month": 30 * 86_400,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An event that counts; an empty name is any event. `place` is where it was read."""

    event: str
    properties: Sequence[Any]
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A funnel asks who did all `steps` in their order. A mean counts the one step for each person,
    or sums a property of it, and a ratio does so with two, the second of which divides the first:
    `summed` names the properties, None for what is counted. `window` is how long after exposure
    something counts, None for as long as the experiment runs."""

    uuid: str | None
    name: str
    type: str
    steps: Sequence[Step]
    summed: Sequence[str | None]
    is_less_better: bool
    window: timedelta | None


def read_metrics(sent: Any, place: str) -> list[Metric]:
    if not isinstance(sent, list):
        refuse(place, "A list is required.", "not_a_list")
    if len(sent) > MAX_METRICS:
        refuse(place, f"An experiment has {MAX_METRICS} metrics at most.", "max_length")
    return [read_metric(each, f"{place}[{number}]") for number, each in enumerate(sent)]


def read_metric(sent: Any, place: str) -> Metric:
    metric = _object(sent, place)
    type, nodes = _nodes(metric, place)
    if not nodes:
        refuse(place, "A metric needs an event.", "required")
    if len(nodes) > MAX_STEPS:
        refuse(place, f"A funnel has {MAX_STEPS} steps at most.", "max_length")
    if type == MEAN:
        nodes = nodes[:1]  # older documents may have more series, of which the first is meant
    summed = [] if type == FUNNEL else [_summed(*node) for node in nodes]
    goal = metric.get("goal")
    if goal not in (None, "increase", "decrease"):
        refuse(f"{place}.goal", "The goal is increase or decrease.", "invalid_choice")
    uuid = metric.get("uuid")
    return Metric(
        uuid=uuid if isinstance(uuid, str) else None,
        name=_name(metric, nodes if type == RATIO else nodes[-1:]),
        type=type,
        steps=[_step(*node) for node in nodes],
        summed=summed,
        is_less_better=goal == "decrease",
        window=_window(metric, place),
    )


_Node = tuple[Mapping[str, Any], str]


def _nodes(metric: Mapping[str, Any], place: str) -> tuple[str, list[_Node]]:
    """Whether it is a funnel, a mean or a ratio, and the events in it, each with its place."""
    kind = metric.get("kind", "ExperimentMetric")
    match kind:
        case "ExperimentMetric":
            pass
        case "ExperimentFunnelsQuery":
            return FUNNEL, _series(metric.get("funnels_query"), f"{place}.funnels_query")
        case "ExperimentTrendsQuery":
            return MEAN, _series(metric.get("count_query"), f"{place}.count_query")
        case _:
            detail = f'"{cut_short(kind)}" is no kind of metric here: ExperimentMetric is.'
            refuse(f"{place}.kind", detail, "invalid_choice")
    type = metric.get("metric_type")
    for bound in ("lower_bound_percentile", "upper_bound_percentile"):
        if metric.get(bound) is not None:
            refuse(f"{place}.{bound}", "Values are counted as they are: leave the bounds out.")
    if metric.get("funnel_order_type") not in (None, "ordered"):
        refuse(f"{place}.funnel_order_type", "Steps count in their order.", "invalid_choice")
    match type:
        case "funnel":
            return FUNNEL, _series(metric, place)
        case "mean":
            return MEAN, [_source(metric, "source", place)]
        case "ratio":
            return RATIO, [_source(metric, name, place) for name in ("numerator", "denominator")]
        case _:
            detail = f'"{cut_short(type)}" is no type of metric here: funnel, mean and ratio are.'
            return refuse(f"{place}.metric_type", detail, "invalid_choice")


def _source(metric: Mapping[str, Any], name: str, place: str) -> _Node:
    return _object(metric.get(name), f"{place}.{name}"), f"{place}.{name}"


def _series(sent: Any, place: str) -> list[_Node]:
    series = _object(sent, place).get("series")
    if not isinstance(series, list):
        refuse(f"{place}.series", "A list of events is required.", "not_a_list")
    places = [f"{place}.series[{number}]" for number in range(len(series))]
    return [(_object(each, at), at) for each, at in zip(series, places, strict=True)]


def _step(node: Mapping[str, Any], place: str) -> Step:
    kind = node.get("kind", "EventsNode")
    if kind != "EventsNode":
        detail = f'"{cut_short(kind)}" cannot be counted here: an EventsNode can.'
        refuse(f"{place}.kind", detail, "invalid_choice")
    event = node.get("event")
    if not isinstance(event, str | None):
        refuse(f"{place}.event", "Not a valid string.")
    properties = node.get("properties") or []
    if not isinstance(properties, list):
        refuse(f"{place}.properties", "A list of filters is required.", "not_a_list")
    return Step(event=event or "", properties=properties, place=place)


def _summed(node: Mapping[str, Any], place: str) -> str | None:
    match node.get("math"):
        case None | "total":
            return None
        case "sum":
            name = node.get("math_property")
            if not isinstance(name, str) or not name:
                refuse(f"{place}.math_property", "This field is required.", "required")
            return name
        case other:
            detail = f'"{cut_short(other)}" is not possible here: total and sum are.'
            return refuse(f"{place}.math", detail, "invalid_choice")


def _name(metric: Mapping[str, Any], nodes: Sequence[_Node]) -> str:
    """As it is called, else by its events."""
    name = metric.get("name")
    if isinstance(name, str) and name:
        return name
    events = [node.get("event") for node, _ in nodes]
    return " / ".join(each if isinstance(each, str) and each else "All events" for each in events)


def _window(metric: Mapping[str, Any], place: str) -> timedelta | None:
    number = metric.get("conversion_window")
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int | float) or not number > 0:
        refuse(f"{place}.conversion_window", "A number above 0 is required.")
    unit = metric.get("conversion_window_unit") or "day"
    if not isinstance(unit, str) or unit not in _UNITS:
        detail = f"One of {', '.join(_UNITS)} is required."
        refuse(f"{place}.conversion_window_unit", detail, "invalid_choice")
    most = MAX_WINDOW.total_seconds()
    return timedelta(seconds=math.ceil(min(min(number, most) * _UNITS[unit], most)))


def _object(sent: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(sent, dict):
        kind = type(sent).__name__
        refuse(place, f'Expected a dictionary of items but got type "{kind}".', "not_a_dict")
    return sent
