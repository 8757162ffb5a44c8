"""Bounds, changes and anomalies."""

from typing import Any

import pytest

from hedgerow.alerts.evaluate import evaluate, find_usual_range
from hedgerow.alerts.model import (
    AlertCondition,
    AlertConfig,
    AlertState,
    CheckVerdict,
    ConditionType,
)
from hedgerow.alerts.parse import parse_condition, parse_config
from hedgerow.errors import Invalid


def decide(
    data: list[float], type: str, bounds: dict[str, Any], kind: str = "absolute", **config: Any
) -> CheckVerdict:
    threshold = {"configuration": {"type": kind, "bounds": bounds}}
    condition = parse_condition({"type": type}, threshold)
    results = [{"label": "visit", "data": data}]
    parsed = parse_config(config, condition)
    return evaluate(results, condition, parsed, interval="day", is_total=False)


# The last number is of the day that is not over.
@pytest.mark.parametrize(
    ("data", "type", "bounds", "kind", "value", "fires"),
    [
        ([5, 9, 100], "absolute_value", {"lower": 10}, "absolute", 9, True),
        ([5, 10, 0], "absolute_value", {"lower": 10}, "absolute", 10, False),
        ([5, 10, 99], "absolute_value", {"upper": 10}, "absolute", 10, False),
        ([5, 11, 0], "absolute_value", {"lower": 1, "upper": 10}, "absolute", 11, True),
        ([10, 16, 0], "relative_increase", {"upper": 5}, "absolute", 6, True),
        ([10, 15, 0], "relative_increase", {"upper": 5}, "absolute", 5, False),
        ([10, 16, 0], "relative_increase", {"upper": 0.5}, "percentage", 0.6, True),
        ([10, 15, 0], "relative_increase", {"upper": 0.5}, "percentage", 0.5, False),
        ([0, 1, 0], "relative_increase", {"upper": 1000}, "percentage", 1e9, True),
        ([0, 0, 0], "relative_increase", {"upper": 0.1}, "percentage", 0, False),
        ([10, 4, 0], "relative_decrease", {"upper": 0.5}, "percentage", 0.6, True),
        ([10, 4, 0], "relative_decrease", {"upper": 5}, "absolute", 6, True),
        ([10, 20, 0], "relative_decrease", {"upper": 5}, "absolute", -10, False),
    ],
)
def test_the_last_complete_interval_counts(
    data: list[float], type: str, bounds: dict[str, Any], kind: str, value: float, fires: bool
) -> None:
    verdict = decide(data, type, bounds, kind)
    assert verdict.value == pytest.approx(value)
    assert (verdict.state is AlertState.FIRING) is fires


def test_the_interval_that_is_not_over_counts_if_it_is_already_too_large() -> None:
    assert decide([1, 2, 11], "absolute_value", {"upper": 10}, check_ongoing_interval=True).breaches
    assert not decide(
        [1, 2, 0], "absolute_value", {"lower": 1}, check_ongoing_interval=True
    ).breaches
    assert decide([1, 0, 5], "absolute_value", {"lower": 1}, check_ongoing_interval=True).breaches


def test_a_breach_names_the_value_the_bound_and_the_interval() -> None:
    verdict = decide([5, 1234.5, 0], "absolute_value", {"upper": 10})
    assert verdict.breaches == [
        "The value of visit in the last day is 1,234.5, above the upper bound 10"
    ]
    verdict = decide([10, 4, 0], "relative_decrease", {"upper": 0.5}, "percentage")
    assert verdict.breaches == [
        "The decrease of visit in the last day is 60%, above the upper bound 50%"
    ]


CONFIG = AlertConfig(series_index=0, checks_ongoing=False)
AT_LEAST_5 = AlertCondition(type=ConditionType.ABSOLUTE, lower=5)


def test_each_value_of_a_breakdown_is_checked() -> None:
    results = [
        {"label": "DE", "data": [9, 9, 9], "breakdown_value": "DE"},
        {"label": "FR", "data": [9, 1, 9], "breakdown_value": "FR"},
        {"label": "US", "data": [9, 0, 9], "breakdown_value": "US"},
    ]
    verdict = evaluate(results, AT_LEAST_5, CONFIG, interval="day", is_total=False)
    assert verdict.value == 1
    assert [each.split(" in ")[0] for each in verdict.breaches] == [
        *("The value of FR", "The value of US")
    ]


def test_no_results_are_zero_and_totals_have_no_intervals() -> None:
    assert evaluate([], AT_LEAST_5, CONFIG, interval="day", is_total=False).breaches
    total = [{"label": "all", "aggregated_value": 4, "data": []}]
    verdict = evaluate(total, AT_LEAST_5, CONFIG, interval="day", is_total=True)
    assert (verdict.value, len(verdict.breaches)) == (4, 1)


ANOMALY = AlertCondition(type=ConditionType.ANOMALY, window=7, sensitivity=3)


def test_usual_range_by_hand() -> None:
    # Median 10, deviations 2 1 0 0 1 2 90, their median 1: 10 ± 3 · 1.4826 · 1.
    assert find_usual_range([8, 9, 10, 10, 11, 12, 100], ANOMALY) == pytest.approx(
        (5.5522, 14.4478)
    )
    # Deviations 0 0 0 0 7, their median 0, their mean 1.4: 10 ± 3 · 1.2533 · 1.4.
    assert find_usual_range([10, 10, 10, 10, 17], ANOMALY) == pytest.approx((4.73614, 15.26386))
    assert find_usual_range([10] * 7, ANOMALY) == (10, 10)


def test_only_the_window_counts_and_not_the_time_before_the_first_event() -> None:
    assert find_usual_range([500, *[10] * 7], ANOMALY) == (10, 10)
    infinite = (float("-inf"), float("inf"))
    assert find_usual_range([0, 0, 0, 0, 10, 10, 10, 10], ANOMALY) == infinite
    assert find_usual_range([0, 0, 10, 10, 10, 10, 10], ANOMALY) == (10, 10)


@pytest.mark.parametrize(("last", "fires"), [(14, False), (15, True), (5, True), (6, False)])
def test_an_anomaly_is_outside_of_the_usual_range(last: float, fires: bool) -> None:
    data = [8, 9, 10, 10, 11, 12, 100, last, 0]
    results = [{"label": "visit", "data": data}]
    verdict = evaluate(results, ANOMALY, CONFIG, interval="day", is_total=False)
    assert bool(verdict.breaches) is fires
    if fires:
        assert verdict.breaches == [
            f"The value of visit in the last day is {last}, outside of the usual range from 5.55 "
            "to 14.45"
        ]


@pytest.mark.parametrize(
    ("condition", "threshold", "attr"),
    [
        ({}, {}, "condition__type"),
        ({"type": "sometimes"}, {}, "condition__type"),
        ({"type": "absolute_value", "colour": 1}, {}, "condition.colour"),
        ({"type": "absolute_value"}, {}, "threshold__configuration__bounds"),
        ({"type": "absolute_value", "window": 7}, {}, "condition__window"),
        ({"type": "anomaly", "window": 4}, {}, "condition__window"),
        ({"type": "anomaly", "sensitivity": "high"}, {}, "condition__sensitivity"),
        ({"type": "anomaly", "sensitivity": 0.1}, {}, "condition__sensitivity"),
        (
            {"type": "absolute_value"},
            {"configuration": {"bounds": {"lower": 10**400}}},
            "threshold__configuration__bounds__lower",
        ),
        (
            {"type": "absolute_value"},
            {"configuration": {"bounds": {"lower": 2, "upper": 1}}},
            "threshold__configuration__bounds",
        ),
        (
            {"type": "absolute_value"},
            {"configuration": {"type": "percentage", "bounds": {"lower": 2}}},
            "threshold__configuration__type",
        ),
        (
            {"type": "absolute_value"},
            {"configuration": {"bounds": {"lower": 2, "middle": 3}}},
            "threshold.configuration.bounds.middle",
        ),
        (
            {"type": "absolute_value"},
            {"configuration": {"bounds": {"lower": True}}},
            "threshold__configuration__bounds__lower",
        ),
    ],
)
def test_errors_name_the_field(condition: Any, threshold: Any, attr: str) -> None:
    with pytest.raises(Invalid) as raised:
        parse_condition(condition, threshold)
    assert raised.value.attr == attr


def test_a_decrease_needs_a_complete_interval() -> None:
    with pytest.raises(Invalid, match="not over"):
        parse_config(
            {"check_ongoing_interval": True}, AlertCondition(type=ConditionType.DECREASE, upper=1)
        )
