"""The split of a bandit: probabilities against random draws, floors and sums."""

import random

import numpy as np
import pytest

from hedgerow.experiments.analysis import MetricSums, VariantMeasurement
from hedgerow.rollouts.bandits.allocation import (
    choose_split,
    compute_chances,
    describe_variant,
    find_lack,
    split_evenly,
)


def test_probabilities_are_those_of_random_draws_of_the_posteriors() -> None:
    counts = [(1_000, 100), (1_000, 120), (300, 40), (50, 2)]
    found = [
        VariantMeasurement.from_funnel(str(n), people, converted)
        for n, (people, converted) in enumerate(counts)
    ]
    drawn = np.random.default_rng(7)
    draws = np.array([drawn.beta(1 + done, 1 + people - done, 200_000) for people, done in counts])
    for is_lower_better, best in ((False, draws.argmax(axis=0)), (True, draws.argmin(axis=0))):
        chances = compute_chances(found, is_lower_better=is_lower_better)
        assert chances is not None
        expected = [float((best == number).mean()) for number in range(len(counts))]
        assert chances == pytest.approx(expected, abs=0.005)
        assert chances == compute_chances(found, is_lower_better=is_lower_better)


def test_every_split_adds_up_and_keeps_its_floor() -> None:
    chance = random.Random(3)
    for _ in range(500):
        count = chance.randint(2, 20)
        floor = chance.randint(0, 100 // count)
        weights = [chance.random() ** 8 for _ in range(count)]
        chances = [weight / sum(weights) for weight in weights]
        split = choose_split(chances, floor)
        assert sum(split) == 100
        assert min(split) >= floor
        ideal = [floor + each * (100 - floor * count) for each in chances]
        assert max(abs(a - b) for a, b in zip(split, ideal, strict=True)) < 1
    assert choose_split([1.0, 0.0, 0.0], 5) == [90, 5, 5]
    assert choose_split([0.5, 0.5], 50) == [50, 50]
    assert split_evenly(3) == [34, 33, 33]


def test_split_waits_for_persons_and_for_values() -> None:
    few = VariantMeasurement.from_funnel("a", 99, 9)
    many = VariantMeasurement.from_funnel("b", 100, 0)
    assert find_lack([few, many], 100) == (
        "100 persons of each variant are needed, and 99 of a are known"
    )
    assert find_lack([many, many], 100) == ""
    nothing = VariantMeasurement.from_ratio(
        "c", 100, MetricSums(total=0, variance=0), MetricSums(total=0, variance=0), 0.0
    )
    assert find_lack([many, nothing], 100) == "c have too few different values"
    assert compute_chances([many, nothing], is_lower_better=False) is None


def test_evidence_of_a_ratio_has_no_other_numbers_than_finite_ones() -> None:
    ratio = VariantMeasurement.from_ratio(
        "r", 200, MetricSums(total=60, variance=0.3), MetricSums(total=400, variance=1.0), 0.1
    )
    shown = describe_variant(ratio, 0.25, 50.0, 60)
    assert (shown["persons"], shown["total"], shown["denominator"]) == (200, 60, 400)
    assert shown["posterior"]["distribution"] == "student"
    assert shown["posterior"]["low"] < shown["value"] == 0.15 < shown["posterior"]["high"]
    infinite = VariantMeasurement.too_large("x", 5)
    assert describe_variant(infinite, None, 1.0, 1.0)["posterior"] is None
