"""The figures, held against examples that others have published."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from hedgerow.experiments.statistics import (
    GRID,
    Mean,
    Numbers,
    Posterior,
    Rate,
    chance_above,
    chances_to_be_best,
    interval,
    lift_interval,
    mean_of,
    mismatch,
)


def miller(a: Rate, b: Rate) -> float:
    """Evan Miller, "Formulas for Bayesian A/B Testing" (2014), equation 6: the probability that B
    beats A, as a finite sum."""

    def log_beta(x: float, y: float) -> float:
        return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)

    a_a, b_a = a.converted + 1, a.seen - a.converted + 1
    a_b, b_b = b.converted + 1, b.seen - b.converted + 1
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
        (Rate(1, 10), Rate(1, 9)),
        (Rate(100, 1000), Rate(100, 900)),
        (Rate(100, 1000), Rate(150, 1000)),
        (Rate(0, 50), Rate(3, 40)),
        (Rate(40, 40), Rate(39, 40)),
        (Rate(20_000, 100_000), Rate(20_300, 100_000)),
    ],
)
def test_the_chance_to_beat_control_is_that_of_millers_formula(control: Rate, test: Rate) -> None:
    assert chance_above(test, control) == pytest.approx(miller(control, test), abs=1e-4)


def test_posthogs_statistics_primer() -> None:
    """PostHog's documentation, "Statistics primer": 100 of 1000 against 100 of 900. It draws 10,000
    samples, so its figures are good to half a percent."""
    control, test = Rate(100, 1000), Rate(100, 900)
    best = chances_to_be_best([control, test], is_less_better=False)
    assert best == pytest.approx([0.215, 0.785], abs=0.005)
    assert interval(control, 0.95) == pytest.approx((0.083, 0.12), abs=0.0005)
    small = Rate(1, 10), Rate(1, 9)
    assert interval(small[0], 0.95) == pytest.approx((0.023, 0.413), abs=0.0005)
    assert interval(small[1], 0.95) == pytest.approx((0.025, 0.445), abs=0.0005)
    assert chances_to_be_best(small, is_less_better=False)[1] == pytest.approx(0.533, abs=0.01)


def test_students_sleep_data() -> None:
    """Student, "The probable error of a mean" (1908): hours of sleep gained with two drugs by ten
    people each. R's `t.test` on its data set `sleep` gives the interval of each mean, which is the
    credible one under Jeffreys' prior, and one-sided p = 0.0397 for the two (Welch)."""
    gained = [
        [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
        [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
    ]
    one, two = (_mean(values) for values in gained)
    assert interval(one, 0.95) == pytest.approx((-0.5297804, 2.0297804), abs=1e-6)
    assert interval(two, 0.95) == pytest.approx((0.8976775, 3.7623225), abs=1e-6)
    # The Bayesian answer (Behrens and Fisher) is a little more careful than Welch's.
    assert 0.0397 < chance_above(one, two) < 0.0397 + 0.015


def _mean(values: list[float]) -> Mean:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    found = mean_of(mean, variance, len(values))
    assert found is not None
    return found


def test_kohavis_sample_ratio_mismatch() -> None:
    """Kohavi, Tang and Xu, "Trustworthy Online Controlled Experiments" (2020), chapter 3: 821,588
    against 815,482 people where half and half was wanted, p = 1.8e-6."""
    assert mismatch([821_588, 815_482], [50, 50]) == pytest.approx(1.8e-6, rel=0.02)


def test_mendels_peas() -> None:
    """The textbook example of Pearson's test: Mendel's 315, 108, 101 and 32 peas where 9:3:3:1 was
    expected have a chi-square of 0.470 with 3 degrees of freedom, p = 0.925."""
    assert mismatch([315, 108, 101, 32], [9, 3, 3, 1]) == pytest.approx(0.925, abs=0.001)


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
def test_too_few_are_no_mismatch(
    observed: list[int], shares: list[float], found: float | None
) -> None:
    assert mismatch(observed, shares) == found


def test_chances_to_be_best_are_one_together_and_turn_round_when_less_is_better() -> None:
    three: list[Posterior] = [Rate(10, 100), Rate(14, 100), Rate(11, 90)]
    more = chances_to_be_best(three, is_less_better=False)
    less = chances_to_be_best(three, is_less_better=True)
    assert sum(more) == pytest.approx(1)
    assert sum(less) == pytest.approx(1)
    assert max(more) == more[1]
    assert max(less) == less[0]


def test_a_lift_is_found_where_it_is_and_leaves_zero_out_exactly_when_the_chance_is_clear() -> None:
    control, test = Rate(1000, 10_000), Rate(1200, 10_000)
    found = lift_interval(test, control, 0.95)
    assert found is not None
    assert found[0] < 0.2 < found[1]
    # As many parts of what is probable lie below zero as the chance says.
    level = 2 * chance_above(test, control) - 1
    edge = lift_interval(test, control, level)
    assert edge is not None
    assert edge[0] == pytest.approx(0, abs=20 / GRID)


@dataclass(frozen=True)
class Counted:
    """A posterior that counts how many values it is asked for."""

    of: Posterior
    asked: list[int] = field(default_factory=list, compare=False)

    @property
    def centre(self) -> float:
        return self.of.centre

    def below(self, values: Numbers) -> Numbers:
        self.asked.append(len(values))
        return self.of.below(values)

    def quantiles(self, chances: Numbers) -> Numbers:
        self.asked.append(len(chances))
        return self.of.quantiles(chances)


def test_of_many_variants_each_is_computed_once() -> None:
    """Each such value takes microseconds, and twenty variants have hundreds of comparisons."""
    variants = [Counted(Rate(99_000 + n * 100, 1_000_003)) for n in range(20)]
    assert sum(chances_to_be_best(variants, is_less_better=False)) == pytest.approx(1)
    for each in variants[1:]:
        assert lift_interval(each, variants[0], 0.95) is not None
    assert max(sum(each.asked) for each in variants) <= 2 * GRID


@pytest.mark.parametrize(
    ("control", "test"),
    [
        (Rate(100_000, 1_000_000), Rate(100_500, 1_000_000)),
        (Rate(3, 1_000_000), Rate(100_000, 1_000_000)),
        (Rate(1, 2), Rate(0, 2)),
        (Mean(-2.0, 0.1, 99), Mean(1.0, 0.1, 99)),
        (Mean(1e-9, 1e-10, 9), Mean(5.0, 2.0, 99)),
    ],
)
def test_half_of_the_rest_is_on_either_side_of_a_lift(control: Posterior, test: Posterior) -> None:
    found = lift_interval(test, control, 0.95)
    assert found is not None
    for end, chance in zip(found, (0.025, 0.975), strict=True):
        grid = (np.arange(GRID) + 0.5) / GRID
        base = control.quantiles(grid)
        assert test.below(base + end * abs(base)).mean() == pytest.approx(chance, abs=1e-4)


def test_a_lift_over_a_loss_is_up() -> None:
    control, test = Mean(-2.0, 0.1, 99), Mean(-1.0, 0.1, 99)
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
def test_nothing_is_said_of_a_mean_without_variation(
    mean: float, variance: float, seen: int
) -> None:
    assert mean_of(mean, variance, seen) is None
