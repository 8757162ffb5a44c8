"""Comparison of variants, also with little or no data."""

import math
import statistics
from collections.abc import Sequence

import msgspec
import pytest

from hedgerow.experiments.analysis import MetricSums, VariantMeasurement, compare_variants
from hedgerow.experiments.criteria import BAYESIAN, FREQUENTIST, StatsConfig
from hedgerow.experiments.result_types import VariantResult
from hedgerow.experiments.statistics import MeanPosterior

LEVEL = StatsConfig(method=BAYESIAN, level=0.95)
TESTED = StatsConfig(method=FREQUENTIST, level=0.95)
SEQUENTIAL = StatsConfig(method=FREQUENTIST, level=0.95, is_sequential=True)


NO_SUMS = MetricSums(total=0.0, variance=0.0)


def funnel(key: str, people: int, converted: int) -> VariantMeasurement:
    return VariantMeasurement.from_funnel(key, people, converted)


def test_without_exposures_nothing_is_compared() -> None:
    control, test = compare_variants(
        [funnel("control", 0, 0), funnel("test", 0, 0)], LEVEL, is_lower_better=False
    )
    assert (control.value, control.chance_to_be_best) == (None, None)
    assert control.validation_failures == ["no-exposures"]
    assert test.validation_failures == ["no-exposures", "baseline-not-comparable"]
    assert (test.chance_to_win, test.lift, test.significant) == (None, None, None)


def test_without_conversions_there_is_a_draw_and_no_lift() -> None:
    control, test = compare_variants(
        [funnel("control", 100, 0), funnel("test", 100, 0)], LEVEL, is_lower_better=False
    )
    assert test.chance_to_win == pytest.approx(0.5, abs=1e-3)
    assert test.chance_to_be_best == pytest.approx(0.5, abs=1e-3)
    assert (control.value, test.lift, test.credible_interval) == (0, None, None)
    assert test.validation_failures == ["baseline-mean-is-zero"]
    assert test.significant is False


def test_full_conversion_is_compared() -> None:
    _, test = compare_variants(
        [funnel("control", 80, 80), funnel("test", 90, 90)], LEVEL, is_lower_better=False
    )
    assert test.lift == 0
    assert test.value_interval is not None
    assert test.value_interval[1] <= 1
    assert test.significant is False


def test_variant_without_exposures_does_not_affect_the_others() -> None:
    control, none, test = compare_variants(
        [funnel("control", 1000, 100), funnel("none", 0, 0), funnel("test", 1000, 160)],
        LEVEL,
        is_lower_better=False,
    )
    assert (none.chance_to_be_best, none.validation_failures) == (None, ["no-exposures"])
    assert test.significant is True
    assert control.chance_to_be_best is not None
    assert test.chance_to_be_best is not None
    assert control.chance_to_be_best + test.chance_to_be_best == pytest.approx(1)


def test_without_exposures_of_control_the_others_have_values() -> None:
    _, test = compare_variants(
        [funnel("control", 0, 0), funnel("test", 10, 5)], LEVEL, is_lower_better=False
    )
    assert test.value == 0.5
    assert test.value_interval is not None
    assert (test.chance_to_win, test.chance_to_be_best) == (None, None)
    assert test.validation_failures == ["baseline-not-comparable"]


def test_values_without_variation_are_not_compared() -> None:
    _, test = compare_variants(
        [
            VariantMeasurement.from_mean("control", 50, 100.0, 1.0),
            VariantMeasurement.from_mean("test", 50, 150.0, 0.0),
        ],
        LEVEL,
        is_lower_better=False,
    )
    assert (test.value, test.value_interval, test.chance_to_win) == (3.0, None, None)
    assert test.validation_failures == ["no-variation"]


def test_no_best_variant_if_one_has_no_posterior() -> None:
    found = compare_variants(
        [
            VariantMeasurement.from_mean("control", 100, 0.0, 0.0),
            VariantMeasurement.from_mean("one", 100, 50.0, 1.0),
            VariantMeasurement.from_mean("two", 100, 60.0, 1.0),
        ],
        LEVEL,
        is_lower_better=False,
    )
    assert [each.chance_to_be_best for each in found] == [None, None, None]


@pytest.mark.parametrize("mean", [0.00001, -0.1, 0.19])
def test_no_lift_over_a_mean_that_may_be_zero(mean: float) -> None:
    _, test = compare_variants(
        [
            VariantMeasurement.from_mean("control", 100, 100 * mean, 1.0),
            VariantMeasurement.from_mean("test", 100, 20, 1.0),
        ],
        LEVEL,
        is_lower_better=False,
    )
    assert (test.lift, test.credible_interval) == (None, None)
    assert test.validation_failures == ["baseline-mean-may-be-zero"]
    assert test.chance_to_win is not None


def test_control_just_above_zero_has_a_lift() -> None:
    _, test = compare_variants(
        [
            VariantMeasurement.from_mean("control", 100, 21.0, 1.0),
            VariantMeasurement.from_mean("test", 100, 42.0, 1.0),
        ],
        LEVEL,
        is_lower_better=False,
    )
    assert test.lift == pytest.approx(1)
    assert test.credible_interval is not None
    assert test.validation_failures == []


@pytest.mark.parametrize(("total", "variance"), [(math.inf, math.nan), (1e300, math.inf)])
def test_overflow_is_reported_as_too_large(total: float, variance: float) -> None:
    control, test = compare_variants(
        [
            VariantMeasurement.from_mean("control", 9, 9.0, 1.0),
            VariantMeasurement.from_mean("test", 9, total, variance),
        ],
        LEVEL,
        is_lower_better=False,
    )
    assert (test.sum, test.value) == (None, None)
    assert test.validation_failures == ["values-too-large"]
    assert control.value == 1


def test_lower_can_be_better() -> None:
    found = [funnel("control", 1000, 160), funnel("test", 1000, 100)]
    more = compare_variants(found, LEVEL, is_lower_better=False)[1]
    less = compare_variants(found, LEVEL, is_lower_better=True)[1]
    assert more.chance_to_win is not None
    assert less.chance_to_win == pytest.approx(1 - more.chance_to_win)
    assert less.significant is True
    assert less.lift == pytest.approx(-0.375)


@pytest.mark.parametrize(
    ("total", "variance"),
    [(math.inf, math.nan), (math.nan, math.nan), (1e308, 1e300), (1e-300, 1e-320), (-1e9, 1e-3)],
)
def test_extreme_numbers_never_become_nan(total: float, variance: float) -> None:
    found = compare_variants(
        [
            VariantMeasurement.from_mean("control", 10, total, variance),
            VariantMeasurement.from_mean("test", 10, 5.0, 2.0),
        ],
        LEVEL,
        is_lower_better=False,
    )
    text = msgspec.json.encode(found).decode()
    assert "nan" not in text.lower()
    assert "inf" not in text.lower()


def test_frequentist_results_have_no_chances_and_report_too_few_conversions() -> None:
    control, test, few = compare_variants(
        [funnel("control", 1000, 100), funnel("test", 1000, 160), funnel("few", 1000, 4)],
        TESTED,
        is_lower_better=False,
    )
    assert test.p_value is not None
    assert test.confidence_interval is not None
    assert test.p_value < 0.001
    assert test.confidence_interval[0] > 0
    assert test.lift == pytest.approx(0.6)
    assert test.significant is True
    assert (test.chance_to_win, test.chance_to_be_best, test.credible_interval) == (None,) * 3
    assert (control.p_value, control.significant, control.validation_failures) == (None, None, [])
    assert few.validation_failures == ["too-few-conversions"]
    assert (few.p_value, few.lift, few.significant) == (None, None, None)
    assert few.value_interval is not None


def test_frequentist_results_without_lift_are_still_compared() -> None:
    found = [
        VariantMeasurement.from_mean("control", 9, 9.0, 25.0),
        VariantMeasurement.from_mean("test", 9, 90.0, 25.0),
    ]
    _, test = compare_variants(found, TESTED, is_lower_better=False)
    assert test.validation_failures == ["baseline-mean-may-be-zero"]
    assert (test.lift, test.confidence_interval, test.significant) == (None, None, True)


@pytest.mark.parametrize("stats", [LEVEL, TESTED])
@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e-9, 1e9, 1e120, 1e153, 1e300])
def test_values_of_any_size_are_compared_or_too_large(stats: StatsConfig, size: float) -> None:
    found = [
        VariantMeasurement.from_mean("control", 900, 900 * size, size * size / 4),
        VariantMeasurement.from_mean("test", 800, 880 * size, size * size / 100),
    ]
    for each in compare_variants(found, stats, is_lower_better=False):
        for name in ("p_value", "lift", "chance_to_win"):
            number = getattr(each, name)
            assert number is None or math.isfinite(number)
        msgspec.json.encode(each)


def ratio(key: str, pairs: Sequence[tuple[float, float]]) -> VariantMeasurement:
    above, below = zip(*pairs, strict=True)
    mean_above, mean_below = statistics.fmean(above), statistics.fmean(below)
    both = statistics.fmean((a - mean_above) * (b - mean_below) for a, b in pairs)
    sums = [
        MetricSums(total=math.fsum(each), variance=statistics.pvariance(each))
        for each in (above, below)
    ]
    return VariantMeasurement.from_ratio(key, len(pairs), sums[0], sums[1], both)


PAIRS = [(float(n % 7 * n % 11), float(n % 4)) for n in range(60)]


def test_error_of_a_ratio_follows_the_delta_method() -> None:
    found = ratio("control", PAIRS)
    seen = math.fsum(a for a, _ in PAIRS) / math.fsum(b for _, b in PAIRS)
    assert found.value == pytest.approx(seen)
    left = [a - seen * b for a, b in PAIRS]
    error = statistics.stdev(left) / math.sqrt(len(PAIRS)) / statistics.fmean(b for _, b in PAIRS)
    assert isinstance(found.posterior, MeanPosterior)
    assert found.posterior.error == pytest.approx(error)
    # The jackknife estimate is about the same.
    without = [
        math.fsum(a for a, _ in others) / math.fsum(b for _, b in others)
        for others in ([*PAIRS[:n], *PAIRS[n + 1 :]] for n in range(len(PAIRS)))
    ]
    jackknife = math.sqrt((len(PAIRS) - 1) * statistics.pvariance(without))
    assert found.posterior.error == pytest.approx(jackknife, rel=0.05)
    assert found.squares == pytest.approx(math.fsum(a * a for a, _ in PAIRS))
    assert found.denominator_squares == pytest.approx(math.fsum(b * b for _, b in PAIRS))
    assert found.products == pytest.approx(math.fsum(a * b for a, b in PAIRS))


@pytest.mark.parametrize("stats", [LEVEL, TESTED])
def test_ratios_without_denominator_or_variation_are_reported(
    stats: StatsConfig,
) -> None:
    found = compare_variants(
        [
            ratio("control", PAIRS),
            ratio("nothing", [(5.0, 0.0), (6.0, 0.0)]),
            ratio("alike", [(n / 3, float(n)) for n in range(1, 50)]),
            ratio("more", [(2 * a + 1, b) for a, b in PAIRS]),
            VariantMeasurement.from_ratio("none", 0, NO_SUMS, NO_SUMS, 0.0),
            VariantMeasurement.from_ratio(
                "vast", 9, MetricSums(total=1.0, variance=math.inf), NO_SUMS, 0.0
            ),
        ],
        stats,
        is_lower_better=False,
    )
    control, nothing, alike, more, none, vast = found
    assert control.validation_failures == []
    assert (nothing.value, nothing.validation_failures) == (None, ["denominator-is-zero"])
    assert alike.value == pytest.approx(1 / 3)
    assert alike.validation_failures == ["no-variation"]
    assert more.validation_failures == []
    assert more.significant is True
    assert more.lift == pytest.approx((more.value or 0) / (control.value or 1) - 1)
    assert none.validation_failures == ["no-exposures"]
    assert vast.validation_failures == ["values-too-large"]


@pytest.mark.parametrize("stats", [LEVEL, TESTED])
def test_ratio_requires_enough_units_in_its_denominator(stats: StatsConfig) -> None:
    without_orders = [(0.0, 0.0)] * 998
    few = [
        ratio("control", [*without_orders, (10.0, 1.0), (11.0, 1.0)]),
        ratio("test", [*without_orders, (14.0, 1.0), (15.0, 1.0)]),
    ]
    control, test = compare_variants(few, stats, is_lower_better=False)
    assert control.validation_failures == ["too-few-conversions"]
    assert test.validation_failures == ["too-few-conversions", "baseline-not-comparable"]
    assert not test.significant
    orders = [(10.0 + n % 3, 1.0) for n in range(30)]
    enough = ratio("control", [*without_orders, *orders]).posterior
    assert isinstance(enough, MeanPosterior)
    assert enough.freedom == 29


def test_numbers_at_the_limits_of_float_are_handled() -> None:
    tiny = VariantMeasurement.from_ratio(
        "control", 2, NO_SUMS, MetricSums(total=5e-324, variance=0.0), 0.0
    )
    vast = VariantMeasurement.from_ratio(
        "test", 9, NO_SUMS, MetricSums(total=1e200, variance=0.0), 0.0
    )
    for stats in (LEVEL, TESTED):
        _, test = compare_variants([tiny, vast], stats, is_lower_better=False)
        assert test.validation_failures == ["values-too-large", "baseline-not-comparable"]
    far = [
        VariantMeasurement.from_mean("control", 2, 2e-160, 1e-330),
        VariantMeasurement.from_mean("control", 50, 5e-159, 1e-321),
        VariantMeasurement.from_mean("test", 2, 2e150, 1e290),
    ]
    for control in far[:2]:
        for each in compare_variants([control, far[2]], TESTED, is_lower_better=False):
            assert msgspec.json.decode(msgspec.json.encode(each), type=VariantResult) == each


def test_sequential_intervals_are_wider_and_agree_with_the_p_value() -> None:
    for converted in range(100, 200, 10):
        found = [funnel("control", 1000, 100), funnel("test", 1000, converted)]
        _, once = compare_variants(found, TESTED, is_lower_better=False)
        control, test = compare_variants(found, SEQUENTIAL, is_lower_better=False)
        assert test.p_value is not None
        assert once.p_value is not None
        assert test.p_value >= once.p_value
        assert test.confidence_interval is not None
        assert once.confidence_interval is not None
        low, high = test.confidence_interval
        assert low < once.confidence_interval[0] < once.confidence_interval[1] < high
        assert test.significant is (not low <= 0 <= high) is (test.p_value <= 0.05)
        assert test.lift == once.lift
        assert control.value_interval is not None
        assert control.p_value is None
    assert test.significant is True


def test_sequential_means_and_ratios_are_compared() -> None:
    one = VariantMeasurement.from_mean("control", 500, 1000.0, 4.0)
    other = VariantMeasurement.from_mean("test", 500, 1300.0, 4.0)
    _, test = compare_variants([one, other], SEQUENTIAL, is_lower_better=False)
    assert test.significant is True
    assert test.lift == pytest.approx(0.3)
    whole = MetricSums(total=2000.0, variance=1.0)
    ratios = [
        VariantMeasurement.from_ratio(key, 1000, MetricSums(total=total, variance=0.5), whole, 0.1)
        for key, total in (("control", 1000.0), ("test", 700.0))
    ]
    _, test = compare_variants(ratios, SEQUENTIAL, is_lower_better=True)
    assert test.confidence_interval is not None
    assert test.confidence_interval[1] < 0


@pytest.mark.parametrize(
    ("control", "test", "failure"),
    [
        ((49, 20), (1000, 100), "too-few-exposures"),
        ((1000, 3), (1000, 4), "too-few-conversions"),
        ((0, 0), (1000, 4), "baseline-not-comparable"),
    ],
)
def test_sequential_testing_needs_data(
    control: tuple[int, int], test: tuple[int, int], failure: str
) -> None:
    found = [funnel("control", *control), funnel("test", *test)]
    _, result = compare_variants(found, SEQUENTIAL, is_lower_better=False)
    assert result.validation_failures == [failure]
    assert (result.p_value, result.significant) == (None, None)
