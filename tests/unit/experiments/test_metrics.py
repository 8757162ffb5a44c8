"""PostHog's documents of metrics, criteria and statistics, read or refused by place."""

from datetime import timedelta
from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.experiments.criteria import Stats, read_criteria, read_stats
from hedgerow.experiments.metrics import MAX_WINDOW, read_metric, read_metrics

BOUGHT = {"kind": "EventsNode", "event": "bought"}
MEAN = {"metric_type": "mean", "source": BOUGHT}
FUNNEL = {"metric_type": "funnel", "series": [BOUGHT]}


def test_a_funnel() -> None:
    found = read_metric(
        {
            "kind": "ExperimentMetric",
            "uuid": "u",
            "metric_type": "funnel",
            "series": [{"kind": "EventsNode", "event": None, "properties": []}, BOUGHT],
            "goal": "decrease",
            "conversion_window": 14,
            "conversion_window_unit": "day",
        },
        "m",
    )
    assert (found.uuid, found.name, found.type, found.is_less_better) == (
        "u",
        "bought",
        "funnel",
        True,
    )
    assert [step.event for step in found.steps] == ["", "bought"]
    assert found.window == timedelta(days=14)


def test_a_mean_counts_or_sums() -> None:
    counts = read_metric({"metric_type": "mean", "name": "Orders", "source": BOUGHT}, "m")
    assert (counts.name, counts.summed, counts.window) == ("Orders", [None], None)
    source = BOUGHT | {"math": "sum", "math_property": "price"}
    assert read_metric({"metric_type": "mean", "source": source}, "m").summed == ["price"]


def test_a_ratio_divides_one_source_by_another() -> None:
    sent = {
        "metric_type": "ratio",
        "numerator": {"event": "bought", "math": "sum", "math_property": "price"},
        "denominator": {"event": "visited"},
    }
    ratio = read_metric(sent, "m")
    assert (ratio.type, ratio.name, ratio.summed) == ("ratio", "bought / visited", ["price", None])
    assert [step.event for step in ratio.steps] == ["bought", "visited"]
    odds: list[tuple[dict[str, Any], str]] = [
        ({"denominator": None}, "m.denominator"),
        ({"numerator": []}, "m.numerator"),
        ({"numerator": {"event": "bought", "math": "sum"}}, "m.numerator.math_property"),
        ({"denominator": {"kind": "ActionsNode", "id": 1}}, "m.denominator.kind"),
    ]
    for odd, place in odds:
        with pytest.raises(Invalid) as caught:
            read_metric(sent | odd, "m")
        assert caught.value.attr == place


def test_older_documents() -> None:
    trends = {"kind": "ExperimentTrendsQuery", "count_query": {"series": [BOUGHT, BOUGHT]}}
    funnels = {"kind": "ExperimentFunnelsQuery", "funnels_query": {"series": [BOUGHT, BOUGHT]}}
    assert (read_metric(trends, "m").type, len(read_metric(trends, "m").steps)) == ("mean", 1)
    assert (read_metric(funnels, "m").type, len(read_metric(funnels, "m").steps)) == ("funnel", 2)


@pytest.mark.parametrize("number", [10**400, 1e300, 4000])
def test_a_window_has_an_end(number: Any) -> None:
    metric = {"metric_type": "mean", "source": BOUGHT, "conversion_window": number}
    assert read_metric(metric, "m").window == MAX_WINDOW


@pytest.mark.parametrize(
    ("metric", "place"),
    [
        (1, "m[0]"),
        ({"kind": "Other"}, "m[0].kind"),
        ({"kind": ["x"]}, "m[0].kind"),
        ({"metric_type": "retention"}, "m[0].metric_type"),
        ({"metric_type": {}}, "m[0].metric_type"),
        ({"metric_type": "mean"}, "m[0].source"),
        (FUNNEL | {"series": []}, "m[0]"),
        (FUNNEL | {"series": {}}, "m[0].series"),
        (FUNNEL | {"series": [1]}, "m[0].series[0]"),
        (FUNNEL | {"series": [BOUGHT] * 21}, "m[0]"),
        (FUNNEL | {"series": [{"kind": "ActionsNode", "id": 1}]}, "m[0].series[0].kind"),
        (FUNNEL | {"series": [{"event": 5}]}, "m[0].series[0].event"),
        (FUNNEL | {"series": [{"properties": {"a": 1}}]}, "m[0].series[0].properties"),
        (FUNNEL | {"funnel_order_type": "unordered"}, "m[0].funnel_order_type"),
        (MEAN | {"source": {"math": "sum"}}, "m[0].source.math_property"),
        (MEAN | {"source": {"math": "avg"}}, "m[0].source.math"),
        (MEAN | {"goal": "up"}, "m[0].goal"),
        (MEAN | {"upper_bound_percentile": 0.9}, "m[0].upper_bound_percentile"),
        (MEAN | {"conversion_window": 0}, "m[0].conversion_window"),
        (MEAN | {"conversion_window": True}, "m[0].conversion_window"),
        (
            MEAN | {"conversion_window": 1, "conversion_window_unit": ["day"]},
            "m[0].conversion_window_unit",
        ),
    ],
)
def test_a_metric_that_cannot_be_measured_is_refused(metric: Any, place: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_metrics([metric], "m")
    assert refused.value.attr == place


def test_metrics_are_a_list_of_twenty_at_most() -> None:
    many: list[Any] = [{}, [MEAN] * 21]
    for sent in many:
        with pytest.raises(Invalid):
            read_metrics(sent, "m")


def test_exposure_is_the_flags_call_or_another_event_that_carries_the_flag() -> None:
    usual = read_criteria({}, "buy")
    assert (usual.event, usual.variant_in, usual.is_first_kept) == (
        "$feature_flag_called",
        "$feature_flag_response",
        False,
    )
    config = {"kind": "ExperimentEventExposureConfig", "event": "seen", "properties": []}
    own = read_criteria(
        {"exposure_config": config, "multiple_variant_handling": "first_seen"}, "buy"
    )
    assert (own.event, own.variant_in, own.is_first_kept) == ("seen", "$feature/buy", True)


@pytest.mark.parametrize(
    "sent",
    [
        {"multiple_variant_handling": []},
        {"exposure_config": 1},
        {"exposure_config": {"kind": "ActionsNode", "id": 1}},
        {"exposure_config": {"event": 1}},
        {"exposure_config": {"event": "a", "properties": "x"}},
    ],
)
def test_odd_criteria_are_refused(sent: Any) -> None:
    with pytest.raises(Invalid):
        read_criteria(sent, "buy")


def test_the_level_is_95_percent_unless_told() -> None:
    assert read_stats({}) == Stats(method="bayesian", level=0.95)
    sent = {"version": 2, "bayesian": {"ci_level": 0.9}, "frequentist": {"alpha": 0.01}}
    assert read_stats({"method": "bayesian", **sent}).level == 0.9
    tested = read_stats({"method": "frequentist", **sent})
    assert tested == Stats(method="frequentist", level=0.99)
    levels: list[Any] = [1, "0.9", 0.2, True, 10**400, []]
    for odd in levels:
        with pytest.raises(Invalid):
            read_stats({"bayesian": {"ci_level": odd}})
    for odd in [0, "0.05", 0.9, True, -(10**400), {}]:
        with pytest.raises(Invalid) as caught:
            read_stats({"method": "frequentist", "frequentist": {"alpha": odd}})
        assert caught.value.attr == "stats_config.frequentist.alpha"
    with pytest.raises(Invalid):
        read_stats({"method": ["frequentist"]})
