"""Frequentist tests, checked against published examples and scipy.stats."""

import itertools
import math
import statistics
from importlib import import_module
from typing import Any

import pytest

from hedgerow.experiments.frequentist import build_difference_test, confidence_interval
from hedgerow.experiments.statistics import MeanPosterior, RatePosterior, build_mean_posterior

stats: Any = import_module("scipy.stats")

# Student's sleep data, as in R: extra hours of sleep of ten people with two drugs.
SLEEP = (
    (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0),
    (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4),
)


def mean(values: tuple[float, ...]) -> MeanPosterior:
    found = build_mean_posterior(statistics.fmean(values), statistics.variance(values), len(values))
    assert found is not None
    return found


def make_mean(centre: float, deviation: float, people: int) -> MeanPosterior:
    found = build_mean_posterior(centre, deviation**2, people)
    assert found is not None
    return found


def test_welchs_test_matches_r_for_students_sleep_data() -> None:
    found = build_difference_test(mean(SLEEP[1]), mean(SLEEP[0]))
    assert found is not None
    assert found.freedom == pytest.approx(17.776, abs=0.001)
    assert found.p_value == pytest.approx(0.07939, abs=0.00001)
    assert found.lift_interval(0.95) is None  # the first drug may have done nothing


MEANS = [make_mean(*each) for each in ((20, 5, 40), (21.5, 9, 300), (-4, 2, 25), (1e6, 4e5, 7))]


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(MEANS, 2)))
def test_tests_of_means_match_scipy(one: MeanPosterior, other: MeanPosterior) -> None:
    found = build_difference_test(one, other)
    assert found is not None
    known = stats.ttest_ind_from_stats(
        one.mean,
        one.error * math.sqrt(one.freedom + 1),
        one.freedom + 1,
        other.mean,
        other.error * math.sqrt(other.freedom + 1),
        other.freedom + 1,
        equal_var=False,
    )
    assert found.p_value == pytest.approx(known.pvalue, rel=1e-9)


def test_tests_of_rates_match_agrestis_aspirin_example() -> None:
    """Heart attacks of physicians with placebo and with aspirin: a difference of 0.0077 with a
    standard error of 0.0015."""
    placebo, aspirin = RatePosterior(189, 11034), RatePosterior(104, 11037)
    found = build_difference_test(placebo, aspirin)
    assert found is not None
    assert found.mean - found.control == pytest.approx(0.0077, abs=0.00005)
    error = math.sqrt(found.variance + found.control_variance)
    assert error == pytest.approx(0.0015, abs=0.00005)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(0.0077062 / error), rel=1e-3)


@pytest.mark.parametrize(("converted", "people"), [(0, 10), (7, 7), (3, 20), (500, 9000)])
def test_interval_of_a_rate_is_wilsons(converted: int, people: int) -> None:
    known = stats.binomtest(converted, people).proportion_ci(0.9, method="wilson")
    found = confidence_interval(RatePosterior(converted, people), 0.9)
    assert found == pytest.approx((known.low, known.high), abs=1e-12)


LIFTED = [
    *(
        (make_mean(10, 4, 200), make_mean(10 + shift, 4, 150))
        for shift in (-2, -0.8, 0, 0.82, 0.9, 3)
    ),
    *((make_mean(-10, 4, 200), make_mean(-10 + shift, 4, 150)) for shift in (-2, -0.8, 0, 0.9, 3)),
    *(
        (RatePosterior(200, 2000), RatePosterior(hits, 1800))
        for hits in (130, 150, 180, 214, 218, 300)
    ),
]


@pytest.mark.parametrize(("control", "variant"), LIFTED)
def test_lift_interval_excludes_zero_exactly_if_significant(
    control: MeanPosterior | RatePosterior, variant: MeanPosterior | RatePosterior
) -> None:
    found = build_difference_test(variant, control)
    assert found is not None
    for level in (0.8, 0.95, 0.99):
        between = found.lift_interval(level)
        assert between is not None
        low, high = between
        seen = (found.mean - found.control) / abs(found.control)
        assert low < seen < high
        assert (low <= 0 <= high) == (found.p_value >= 1 - level)


def test_for_many_people_the_interval_matches_the_delta_method() -> None:
    control, variant = make_mean(50, 20, 40_000), make_mean(52, 25, 30_000)
    found = build_difference_test(variant, control)
    assert found is not None
    error = math.sqrt(variant.error**2 + (52 / 50 * control.error) ** 2) / 50
    near = (0.04 - 1.96 * error, 0.04 + 1.96 * error)
    assert found.lift_interval(0.95) == pytest.approx(near, abs=2e-5)


@pytest.mark.parametrize(
    "few", [RatePosterior(4, 1000), RatePosterior(996, 1000), RatePosterior(0, 3)]
)
def test_few_conversions_are_not_tested(few: RatePosterior) -> None:
    assert build_difference_test(few, RatePosterior(100, 1000)) is None
    assert build_difference_test(RatePosterior(100, 1000), few) is None
