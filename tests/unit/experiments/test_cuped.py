"""Adjustment by history: numbers reckoned by hand, and simulated experiments."""

import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from hedgerow.errors import Invalid
from hedgerow.experiments.analysis import (
    MetricSums,
    ValueHistory,
    VariantMeasurement,
    compare_variants,
)
from hedgerow.experiments.criteria import StatsConfig, parse_stats
from hedgerow.experiments.cuped import adjust_by_history

Pairs = Sequence[tuple[float, float]]
FREQUENTIST = StatsConfig(method="frequentist", level=0.95)


def measure(key: str, people: Pairs) -> VariantMeasurement:
    """Measure pairs of history and value."""
    before, after = [x for x, _ in people], [y for _, y in people]
    number = len(people)
    x_mean, y_mean = statistics.fmean(before), statistics.fmean(after)
    covariance = sum((x - x_mean) * (y - y_mean) for x, y in people) / number
    sums = MetricSums(total=sum(before), variance=sum((x - x_mean) ** 2 for x in before) / number)
    spread = sum((y - y_mean) ** 2 for y in after) / number
    made = VariantMeasurement.from_mean(key, number, sum(after), spread)
    return replace(made, history=ValueHistory(sums=sums, covariance=covariance))


CONTROL = [(0.0, 1.0), (0.0, 3.0), (2.0, 4.0), (2.0, 6.0)] * 3
TEST = [(0.0, 2.0), (2.0, 5.0), (2.0, 7.0), (2.0, 6.0)] * 3


def test_numbers_reckoned_by_hand() -> None:
    # Around their means: products 18 and 18, histories 12 and 9, values 39 and 42.
    found = adjust_by_history([measure("control", CONTROL), measure("test", TEST)])
    assert found is not None
    [control, test], theta, explained = found
    assert theta == pytest.approx(36 / 21)
    assert explained == pytest.approx(36 * 36 / (21 * 81))
    # The histories are 1 and 1.5, and 1.25 of all.
    assert control.value == pytest.approx(3.5 + 3 / 7)
    assert test.value == pytest.approx(5 - 3 / 7)
    left = 39 - 2 * 12 / 7 * 18 + (12 / 7) ** 2 * 12
    assert control.squares == pytest.approx(left + 12 * (3.5 + 3 / 7) ** 2)
    shown = compare_variants([control, test], FREQUENTIST, is_lower_better=False)
    assert shown[0].sum == 42
    assert shown[0].sum_squares == pytest.approx(3 * (1 + 9 + 16 + 36))
    assert shown[1].covariate_sum == 18
    assert shown[1].covariate_sum_squares == pytest.approx(36)
    assert shown[1].main_covariate_sum_product == pytest.approx(3 * (10 + 14 + 12))
    assert shown[1].lift == pytest.approx((5 - 3 / 7) / (3.5 + 3 / 7) - 1)


def test_without_history_nothing_is_adjusted() -> None:
    same = [(0.0, y) for _, y in CONTROL]
    assert adjust_by_history([measure("control", same), measure("test", same)]) is None
    assert adjust_by_history([measure("control", CONTROL[:4]), measure("test", TEST[:4])]) is None
    plain = VariantMeasurement.from_mean("control", 30, 60.0, 2.0)
    assert adjust_by_history([plain, measure("test", TEST)]) is None
    huge = VariantMeasurement.too_large("control", 30)
    assert adjust_by_history([huge, measure("test", TEST)]) is None
    empty = replace(measure("control", CONTROL), people=0)
    found = adjust_by_history([empty, measure("test", TEST * 2)])
    assert found is not None
    assert found[0][0] is empty


def test_history_that_explains_all_leaves_no_variation() -> None:
    exact = [(float(n), 3.0 * n) for n in range(20)]
    found = adjust_by_history([measure("control", exact), measure("test", exact)])
    assert found is not None
    assert found[0][0].posterior is None
    shown = compare_variants(found[0], FREQUENTIST, is_lower_better=False)
    assert "no-variation" in shown[1].validation_failures


def simulate(source: random.Random, number: int, effect: float) -> Pairs:
    """Values follow history with a correlation of 0.8."""
    history = [source.gauss(10, 1) for _ in range(number)]
    return [(x, 0.8 * x + 0.6 * source.gauss(0, 1) + effect) for x in history]


@pytest.mark.parametrize("effect", [0.0, 0.2])
def test_simulated_experiments_are_unbiased_with_less_variance(effect: float) -> None:
    source = random.Random(7)
    raw, adjusted, significant = [], [], 0
    runs = 400
    for _ in range(runs):
        # Groups of different sizes.
        pair = [
            measure("control", simulate(source, 150, 0)),
            measure("test", simulate(source, 60, effect)),
        ]
        found = adjust_by_history(pair)
        assert found is not None
        raw.append((pair[1].value or 0) - (pair[0].value or 0))
        adjusted.append((found[0][1].value or 0) - (found[0][0].value or 0))
        shown = compare_variants(found[0], FREQUENTIST, is_lower_better=False)
        significant += bool(shown[1].significant)
    # 1 - 0.8 ** 2 = 0.36 of the variance is left.
    assert statistics.variance(adjusted) / statistics.variance(raw) == pytest.approx(0.36, abs=0.08)
    error = statistics.stdev(adjusted) / runs**0.5
    assert abs(statistics.fmean(adjusted) - effect) < 4 * error
    if effect:
        assert significant > runs * 0.5  # a third of that without history
    else:
        assert significant / runs < 0.085  # 5 %, and three standard errors


def test_settings_have_names_and_bounds_of_posthog() -> None:
    assert parse_stats({}).lookback is None
    assert parse_stats({"cuped": {"enabled": False, "lookback_days": 3}}).lookback is None
    assert parse_stats({"cuped": {"enabled": True}}).lookback == timedelta(days=7)
    sent = {"method": "frequentist", "cuped": {"enabled": True, "lookback_days": 30}}
    assert parse_stats(sent).lookback == timedelta(days=30)
    for odd in ({"lookback_days": 31}, {"lookback_days": 0}, {"lookback_days": 1.5}):
        with pytest.raises(Invalid) as caught:
            parse_stats({"cuped": {"enabled": True, **odd}})
        assert caught.value.attr == "stats_config.cuped.lookback_days"
    with pytest.raises(Invalid):
        parse_stats({"cuped": {"enabled": "yes"}})
