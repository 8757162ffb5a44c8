"""Bayesian statistics, checked against published examples."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from hedgerow.experiments.statistics import (
    GRID_SIZE,
    FloatArray,
    MeanPosterior,
    Posterior,
    RatePosterior,
    build_mean_posterior,
    chance_above,
    chances_to_be_best,
    credible_interval,
    lift_interval,
    sample_ratio_p_value,
)


def miller(a: RatePosterior, b: RatePosterior) -> float:
    """Evan Miller, "Formulas for Bayesian A/B Testing" (2014), equation 6: the probability that B
    beats A, as a finite sum."""

    def log_beta(x: float, y: float) -> float:
        return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)

    a_a, b_a = a.converted + 1, a.sample_size - a.converted + 1
    a_b, b_b = b.converted + 1, b.sample_size - b.converted + 1
    return sum(
        math.exp(
            log_beta(a_a + i, b_b + b_a)
            - math.log(b_b + i)
            - log_beta(1 + i, b_b)
            - log_beta(a_a, b_a)
        )
        for i in range(a_b)
    )


@pytest.mark.parametrize(
    ("control", "test"),
    [
        (RatePosterior(1, 10), RatePosterior(1, 9)),
        (RatePosterior(100, 1000), RatePosterior(100, 900)),
        (RatePosterior(100, 1000), RatePosterior(150, 1000)),
        (RatePosterior(0, 50), RatePosterior(3, 40)),
        (RatePosterior(40, 40), RatePosterior(39, 40)),
        (RatePosterior(20_000, 100_000), RatePosterior(20_300, 100_000)),
    ],
)
def test_chance_to_win_matches_millers_formula(control: RatePosterior, test: RatePosterior) -> None:
    assert chance_above(test, control) == pytest.approx(miller(control, test), abs=1e-4)


def test_posthogs_statistics_primer() -> None:
    """PostHog's documentation, "Statistics primer": 100 of 1000 against 100 of 900. It draws 10,000
    samples, so its figures are good to half a percent."""
    control, test = RatePosterior(100, 1000), RatePosterior(100, 900)
    best = chances_to_be_best([control, test], is_lower_better=False)
    assert best == pytest.approx([0.215, 0.785], abs=0.005)
    assert credible_interval(control, 0.95) == pytest.approx((0.083, 0.12), abs=0.0005)
    small = RatePosterior(1, 10), RatePosterior(1, 9)
    assert credible_interval(small[0], 0.95) == pytest.approx((0.023, 0.413), abs=0.0005)
    assert credible_interval(small[1], 0.95) == pytest.approx((0.025, 0.445), abs=0.0005)
    assert chances_to_be_best(small, is_lower_better=False)[1] == pytest.approx(0.533, abs=0.01)


def test_students_sleep_data() -> None:
    """Student, "The probable error of a mean" (1908): hours of sleep gained with two drugs by ten
    people each. R's `t.test` on its data set `sleep` gives the interval of each mean, which is the
    credible one under Jeffreys' prior, and one-sided p = 0.0397 for the two (Welch)."""
    gained = [
        [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
        [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
    ]
    one, two = (_mean(values) for values in gained)
    assert credible_interval(one, 0.95) == pytest.approx((-0.5297804, 2.0297804), abs=1e-6)
    assert credible_interval(two, 0.95) == pytest.approx((0.8976775, 3.7623225), abs=1e-6)
    # The Bayesian result (Behrens-Fisher) is a little more conservative than Welch's.
    assert 0.0397 < chance_above(one, two) < 0.0397 + 0.015


def _mean(values: list[float]) -> MeanPosterior:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    found = build_mean_posterior(mean, variance, len(values))
    assert found is not None
    return found


def test_kohavis_sample_ratio_mismatch() -> None:
    """Kohavi, Tang and Xu, "Trustworthy Online Controlled Experiments" (2020), chapter 3: 821,588
    against 815,482 people where an equal split was expected, p = 1.8e-6."""
    assert sample_ratio_p_value([821_588, 815_482], [50, 50]) == pytest.approx(1.8e-6, rel=0.02)


def test_mendels_peas() -> None:
    """The textbook example of Pearson's test: Mendel's 315, 108, 101 and 32 peas where 9:3:3:1 was
    expected have a chi-square of 0.470 with 3 degrees of freedom, p = 0.925."""
    assert sample_ratio_p_value([315, 108, 101, 32], [9, 3, 3, 1]) == pytest.approx(
        0.925, abs=0.001
    )


@pytest.mark.parametrize(
    ("observed", "shares", "found"),
    [
        ([], [], None),
        ([0, 0], [50, 50], None),
        ([4, 4], [50, 50], None),
        ([5, 5], [50, 50], 1.0),
        ([100], [100], None),
    ],
)
def test_too_few_exposures_are_no_mismatch(
    observed: list[int], shares: list[float], found: float | None
) -> None:
    assert sample_ratio_p_value(observed, shares) == found


def test_chances_to_be_best_sum_to_one_and_reverse_if_lower_is_better() -> None:
    three: list[Posterior] = [RatePosterior(10, 100), RatePosterior(14, 100), RatePosterior(11, 90)]
    more = chances_to_be_best(three, is_lower_better=False)
    less = chances_to_be_best(three, is_lower_better=True)
    assert sum(more) == pytest.approx(1)
    assert sum(less) == pytest.approx(1)
    assert max(more) == more[1]
    assert max(less) == less[0]


def test_lift_interval_matches_the_chance_to_win() -> None:
    control, test = RatePosterior(1000, 10_000), RatePosterior(1200, 10_000)
    found = lift_interval(test, control, 0.95)
    assert found is not None
    assert found[0] < 0.2 < found[1]
    # The probability below zero matches the chance.
    level = 2 * chance_above(test, control) - 1
    edge = lift_interval(test, control, level)
    assert edge is not None
    assert edge[0] == pytest.approx(0, abs=20 / GRID_SIZE)


@dataclass(frozen=True)
class CountingPosterior:
    """A posterior that counts its evaluations."""

    of: Posterior
    calls: list[int] = field(default_factory=list, compare=False)

    @property
    def centre(self) -> float:
        return self.of.centre

    def below(self, values: FloatArray) -> FloatArray:
        self.calls.append(len(values))
        return self.of.below(values)

    def quantiles(self, chances: FloatArray) -> FloatArray:
        self.calls.append(len(chances))
        return self.of.quantiles(chances)


def test_each_posterior_is_computed_once() -> None:
    """A quantile takes microseconds, and twenty variants have hundreds of comparisons."""
    variants = [CountingPosterior(RatePosterior(99_000 + n * 100, 1_000_003)) for n in range(20)]
    assert sum(chances_to_be_best(variants, is_lower_better=False)) == pytest.approx(1)
    for each in variants[1:]:
        assert lift_interval(each, variants[0], 0.95) is not None
    assert max(sum(each.calls) for each in variants) <= 2 * GRID_SIZE


@pytest.mark.parametrize(
    ("control", "test"),
    [
        (RatePosterior(100_000, 1_000_000), RatePosterior(100_500, 1_000_000)),
        (RatePosterior(3, 1_000_000), RatePosterior(100_000, 1_000_000)),
        (RatePosterior(1, 2), RatePosterior(0, 2)),
        (MeanPosterior(-2.0, 0.1, 99), MeanPosterior(1.0, 0.1, 99)),
        (MeanPosterior(1e-9, 1e-10, 9), MeanPosterior(5.0, 2.0, 99)),
    ],
)
def test_lift_interval_has_equal_tails(control: Posterior, test: Posterior) -> None:
    found = lift_interval(test, control, 0.95)
    assert found is not None
    for end, chance in zip(found, (0.025, 0.975), strict=True):
        grid = (np.arange(GRID_SIZE) + 0.5) / GRID_SIZE
        base = control.quantiles(grid)
        assert test.below(base + end * abs(base)).mean() == pytest.approx(chance, abs=1e-4)


def test_lift_over_a_negative_control_is_positive() -> None:
    control, test = MeanPosterior(-2.0, 0.1, 99), MeanPosterior(-1.0, 0.1, 99)
    found = lift_interval(test, control, 0.95)
    assert found is not None
    assert found[0] < 0.5 < found[1]


@pytest.mark.parametrize(
    ("mean", "variance", "seen"),
    [
        (0, 0, 10),
        (5, 0, 10),
        (5, 1e-24, 10),
        (5, 1, 1),
        (5, 1, 0),
        (math.nan, math.nan, 5),
        (1, math.inf, 5),
    ],
)
def test_mean_without_variation_has_no_posterior(mean: float, variance: float, seen: int) -> None:
    assert build_mean_posterior(mean, variance, seen) is None
