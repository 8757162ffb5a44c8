"""Parsing of metrics, exposure criteria and statistics settings."""

from datetime import timedelta
from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.experiments.criteria import StatsConfig, parse_criteria, parse_stats
from hedgerow.experiments.metrics import MAX_WINDOW, parse_metric, parse_metrics

BOUGHT = {"kind": "EventsNode", "event": "bought"}
MEAN = {"metric_type": "mean", "source": BOUGHT}
FUNNEL = {"metric_type": "funnel", "series": [BOUGHT]}


def test_funnel_is_parsed() -> None:
    found = parse_metric(
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
    assert (found.uuid, found.name, found.type, found.is_lower_better) == (
        "u",
        "bought",
        "funnel",
        True,
    )
    assert [step.event for step in found.steps] == ["", "bought"]
    assert found.conversion_window == timedelta(days=14)


def test_mean_counts_or_sums() -> None:
    counts = parse_metric({"metric_type": "mean", "name": "Orders", "source": BOUGHT}, "m")
    assert (counts.name, counts.summed_properties, counts.conversion_window) == (
        "Orders",
        [None],
        None,
    )
    source = BOUGHT | {"math": "sum", "math_property": "price"}
    assert parse_metric({"metric_type": "mean", "source": source}, "m").summed_properties == [
        "price"
    ]


def test_ratio_divides_one_source_by_another() -> None:
    sent = {
        "metric_type": "ratio",
        "numerator": {"event": "bought", "math": "sum", "math_property": "price"},
        "denominator": {"event": "visited"},
    }
    ratio = parse_metric(sent, "m")
    assert (ratio.type, ratio.name, ratio.summed_properties) == (
        "ratio",
        "bought / visited",
        ["price", None],
    )
    assert [step.event for step in ratio.steps] == ["bought", "visited"]
    odds: list[tuple[dict[str, Any], str]] = [
        ({"denominator": None}, "m.denominator"),
        ({"numerator": []}, "m.numerator"),
        ({"numerator": {"event": "bought", "math": "sum"}}, "m.numerator.math_property"),
        ({"denominator": {"kind": "ActionsNode", "id": "x"}}, "m.denominator.id"),
        ({"denominator": {"kind": "DataWarehouseNode", "id": 1}}, "m.denominator.kind"),
    ]
    for odd, attr in odds:
        with pytest.raises(Invalid) as caught:
            parse_metric(sent | odd, "m")
        assert caught.value.attr == attr


def test_legacy_metrics_are_parsed() -> None:
    trends = {"kind": "ExperimentTrendsQuery", "count_query": {"series": [BOUGHT, BOUGHT]}}
    funnels = {"kind": "ExperimentFunnelsQuery", "funnels_query": {"series": [BOUGHT, BOUGHT]}}
    assert (parse_metric(trends, "m").type, len(parse_metric(trends, "m").steps)) == ("mean", 1)
    assert (parse_metric(funnels, "m").type, len(parse_metric(funnels, "m").steps)) == ("funnel", 2)


@pytest.mark.parametrize("number", [10**400, 1e300, 4000])
def test_conversion_window_is_bounded(number: Any) -> None:
    metric = {"metric_type": "mean", "source": BOUGHT, "conversion_window": number}
    assert parse_metric(metric, "m").conversion_window == MAX_WINDOW


@pytest.mark.parametrize(
    ("metric", "attr"),
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
        (FUNNEL | {"series": [{"kind": "ActionsNode"}]}, "m[0].series[0].id"),
        (
            FUNNEL | {"series": [{"kind": "ActionsNode", "id": 1, "event": "a"}]},
            "m[0].series[0].event",
        ),
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
def test_unsupported_metric_is_refused(metric: Any, attr: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_metrics([metric], "m")
    assert caught.value.attr == attr


def test_metrics_are_a_list_of_twenty_at_most() -> None:
    many: list[Any] = [{}, [MEAN] * 21]
    for sent in many:
        with pytest.raises(Invalid):
            parse_metrics(sent, "m")


def test_exposure_is_a_flag_call_or_a_custom_event() -> None:
    usual = parse_criteria({}, "buy")
    assert (usual.event, usual.variant_property, usual.is_first_variant_kept) == (
        "$feature_flag_called",
        "$feature_flag_response",
        False,
    )
    config = {"kind": "ExperimentEventExposureConfig", "event": "seen", "properties": []}
    own = parse_criteria(
        {"exposure_config": config, "multiple_variant_handling": "first_seen"}, "buy"
    )
    assert (own.event, own.variant_property, own.is_first_variant_kept) == (
        "seen",
        "$feature/buy",
        True,
    )


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
def test_invalid_criteria_are_refused(sent: Any) -> None:
    with pytest.raises(Invalid):
        parse_criteria(sent, "buy")


def test_default_level_is_95_percent() -> None:
    assert parse_stats({}) == StatsConfig(method="bayesian", level=0.95)
    sent = {"version": 2, "bayesian": {"ci_level": 0.9}, "frequentist": {"alpha": 0.01}}
    assert parse_stats({"method": "bayesian", **sent}).level == 0.9
    tested = parse_stats({"method": "frequentist", **sent})
    assert tested == StatsConfig(method="frequentist", level=0.99)
    levels: list[Any] = [1, "0.9", 0.2, True, 10**400, []]
    for odd in levels:
        with pytest.raises(Invalid):
            parse_stats({"bayesian": {"ci_level": odd}})
    for odd in [0, "0.05", 0.9, True, -(10**400), {}]:
        with pytest.raises(Invalid) as caught:
            parse_stats({"method": "frequentist", "frequentist": {"alpha": odd}})
        assert caught.value.attr == "stats_config.frequentist.alpha"
    with pytest.raises(Invalid):
        parse_stats({"method": ["frequentist"]})


def test_sequential_testing_is_a_setting_of_the_frequentist_method() -> None:
    sent = {"frequentist": {"sequential_testing_enabled": True, "sequential_tuning_parameter": 5}}
    assert parse_stats({"method": "frequentist", **sent}).is_sequential
    assert not parse_stats(sent).is_sequential
    invalid: list[Any] = ["true", 1, {}]
    for odd in invalid:
        with pytest.raises(Invalid) as caught:
            parse_stats({"frequentist": {"sequential_testing_enabled": odd}})
        assert caught.value.attr == "stats_config.frequentist.sequential_testing_enabled"
