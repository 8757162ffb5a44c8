"""Steps and metrics of a plan are refused by their exact path."""

from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.rollouts.parse import parse_metrics, parse_steps, render_metric, render_step

STEP = {"rollout_percentage": 10, "duration_seconds": 60}
METRICS: list[dict[str, Any]] = [
    {"type": "conversion", "event": "paid", "harm": "decrease"},
    {"type": "count", "event": "error", "harm": "increase", "min_persons": 500},
    {"type": "sum", "event": "paid", "property": "amount", "harm": "decrease"},
    {"type": "ratio", "event": "error", "denominator_event": "request", "harm": "increase"},
    {"type": "hogql", "expression": "toFloat(properties.ms) > 500", "harm": "increase"},
]


def test_what_is_rendered_can_be_parsed_again() -> None:
    steps = parse_steps([STEP, {"rollout_percentage": 12.5, "duration_seconds": 1}])
    assert parse_steps([render_step(each) for each in steps]) == steps
    metrics = parse_metrics(METRICS)
    assert parse_metrics([render_metric(each) for each in metrics]) == metrics
    assert [each.name for each in metrics] == [
        "persons with paid",
        "error per person",
        "sum of amount",
        "error per request",
        "toFloat(properties.ms) > 500",
    ]
    assert [each.min_persons for each in metrics[:2]] == [100, 500]


@pytest.mark.parametrize(
    ("sent", "attr"),
    [
        ([], "steps"),
        ([STEP] * 21, "steps"),
        ([STEP, STEP], "steps"),
        ([7], "steps[0]"),
        ([STEP | {"percent": 1}], "steps[0].percent"),
        ([STEP | {"rollout_percentage": 0}], "steps[0].rollout_percentage"),
        ([STEP | {"rollout_percentage": True}], "steps[0].rollout_percentage"),
        ([STEP | {"rollout_percentage": float("nan")}], "steps[0].rollout_percentage"),
        ([STEP | {"duration_seconds": 0.5}], "steps[0].duration_seconds"),
        ([STEP, {"rollout_percentage": 101}], "steps[1].rollout_percentage"),
    ],
)
def test_invalid_steps_are_refused(sent: list[Any], attr: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_steps(sent)
    assert refused.value.attr == attr


@pytest.mark.parametrize(
    ("changes", "attr"),
    [
        ({"type": "median"}, "type"),
        ({"type": ["mean"]}, "type"),
        ({"harm": None}, "harm"),
        ({"harm": "sideways"}, "harm"),
        ({"event": ""}, "event"),
        ({"event": 5}, "event"),
        ({"event": "x" * 256}, "event"),
        ({"event": "a\x00"}, None),
        ({"property": "p"}, "property"),
        ({"properties": {}}, "properties"),
        ({"properties": [{}] * 21}, "properties"),
        ({"min_persons": 49}, "min_persons"),
        ({"min_persons": 1e9}, "min_persons"),
        ({"name": "x" * 256}, "name"),
    ],
)
def test_invalid_metrics_are_refused(changes: dict[str, Any], attr: str | None) -> None:
    with pytest.raises(Invalid) as refused:
        parse_metrics([METRICS[0] | changes])
    if attr:
        assert refused.value.attr == f"metrics[0].{attr}"


def test_metrics_have_different_names() -> None:
    with pytest.raises(Invalid, match="another name"):
        parse_metrics([METRICS[0], METRICS[0]])
    with pytest.raises(Invalid, match="1 to 5"):
        parse_metrics([])
