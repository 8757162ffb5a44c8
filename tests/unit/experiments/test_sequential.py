"""The sequential test: its error rate by simulation, its formulas against scipy and by hand."""

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from benchmarks.guarded_rollouts import (
    ALPHA,
    METRICS,
    SHARES,
    count_false_stops,
    find_exposure,
)

from hedgerow.experiments.sequential import (
    MIN_PERSONS,
    SCALES,
    GroupSums,
    build_mean_sums,
    build_sequential_test,
    compute_log_evidence,
    find_threshold,
)

integrate: Any = import_module("scipy.integrate")
stats: Any = import_module("scipy.stats")


def sums(numerators: Any, denominators: Any = None) -> GroupSums:
    numerators = np.asarray(numerators, dtype=float)
    denominators = np.ones_like(numerators) if denominators is None else np.asarray(denominators)
    return GroupSums(
        persons=len(numerators),
        numerator=numerators.sum(),
        denominator=denominators.sum(),
        numerator_squares=(numerators**2).sum(),
        denominator_squares=(denominators**2).sum(),
        products=(numerators * denominators).sum(),
        positive=int((numerators != 0).sum()),
    )


def proportion(converted: int, persons: int) -> GroupSums:
    return build_mean_sums(persons=persons, total=converted, squares=converted, positive=converted)


def test_looking_after_every_batch_stops_at_most_alpha_of_harmless_rollouts() -> None:
    for metric in METRICS[:2]:
        assert count_false_stops([metric], 600) <= ALPHA * 600
    for metric in METRICS[2:]:
        assert count_false_stops([metric], 40, looks=25) <= 6  # by chance one in 50 is above 5


def test_a_fixed_test_that_is_looked_at_as_often_stops_many_more() -> None:
    """So the test above can fail: the usual threshold, at every look."""
    usual = float(stats.norm.ppf(1 - ALPHA / len(SHARES)))
    random = np.random.default_rng(1)
    walk = random.standard_normal((500, 1_000)).cumsum(axis=1) / np.sqrt(np.arange(1, 1_001))
    assert (walk[:, 50:] > usual).any(axis=1).mean() > 0.1
    evidence = compute_log_evidence(walk[:, 50:], np.arange(51, 1_001) * 50.0)
    assert (evidence >= -math.log(ALPHA)).any(axis=1).mean() <= ALPHA


@pytest.mark.parametrize(
    ("metric", "factor", "looks"), [(METRICS[0], 0.75, 100), (METRICS[1], 6.0, 50)]
)
def test_harm_of_five_points_is_found_within_7_000_persons(
    metric: Any, factor: float, looks: int
) -> None:
    assert np.quantile(find_exposure(metric, factor, 100, looks), 0.9) <= 7_000


def test_the_evidence_is_the_average_of_likelihood_ratios() -> None:
    z, size = 2.5, 400.0

    def ratio(effect: float, scale: float) -> float:
        drift = effect * math.sqrt(size)
        prior = 2 * float(stats.norm.pdf(effect, scale=scale))
        return math.exp(z * drift - drift * drift / 2) * prior

    parts = [integrate.quad(ratio, 0, 10 * each, (each,))[0] for each in SCALES]
    wanted = math.log(sum(parts) / len(SCALES))
    assert float(compute_log_evidence(z, size)) == pytest.approx(wanted, abs=1e-6)


def test_the_margin_excludes_zero_exactly_when_the_p_value_is_below_alpha() -> None:
    for converted in range(100, 200, 5):
        found = build_sequential_test(proportion(converted, 1_000), proportion(100, 1_000))
        assert found is not None
        is_significant = found.p_value(is_increase=True) <= 0.01
        assert is_significant == (found.difference - found.margin(0.01) >= 0)
        assert found.p_value(is_increase=False) > 0.1


def test_the_error_of_a_ratio_is_that_of_the_delta_method() -> None:
    random = np.random.default_rng(2)
    below = 1.0 + random.poisson(3, 4_000)
    above = random.binomial(below.astype(int), 0.3)
    treated, control = sums(above[:2_000], below[:2_000]), sums(above[2_000:], below[2_000:])
    found = build_sequential_test(treated, control)
    assert found is not None
    by_resampling = []
    for _ in range(400):
        chosen = random.integers(0, 2_000, 2_000)
        other = random.integers(2_000, 4_000, 2_000)
        value = above[chosen].sum() / below[chosen].sum()
        by_resampling.append(value - above[other].sum() / below[other].sum())
    assert found.error == pytest.approx(float(np.std(by_resampling)), rel=0.12)
    assert found.treated == pytest.approx(float(above[:2_000].sum() / below[:2_000].sum()))


def test_a_treatment_that_spreads_values_has_a_larger_error() -> None:
    random = np.random.default_rng(3)
    wide, narrow = random.normal(10, 5, 100), random.normal(10, 1, 10_000)
    found = build_sequential_test(sums(wide), sums(narrow))
    assert found is not None
    assert found.error == pytest.approx(wide.std() / 10, rel=0.05)


def test_too_little_data_is_no_test() -> None:
    assert build_sequential_test(proportion(49, MIN_PERSONS - 1), proportion(100, 1_000)) is None
    assert build_sequential_test(proportion(4, 100), proportion(5, 1_000)) is None
    assert build_sequential_test(proportion(96, 100), proportion(995, 1_000)) is None
    assert build_sequential_test(sums([3.0] * 100), sums([3.0] * 100)) is None
    empty = sums([0.0] * 100, [0.0] * 100)
    assert build_sequential_test(empty, empty) is None
    huge = build_mean_sums(persons=100, total=1e200, squares=math.inf, positive=100)
    assert build_sequential_test(huge, huge) is None


def test_the_threshold_grows_slowly_and_is_above_that_of_one_look() -> None:
    thresholds = [find_threshold(size, 0.05) for size in (100, 1_000, 10_000, 1_000_000)]
    assert min(thresholds) > 2.5
    assert max(thresholds[1:]) < 4.5
