"""The split that a bandit chooses: Thompson sampling with a floor. Pure.

A variant gets people in proportion to its probability to be the best one. It is an integral over a
grid, without random numbers, so that all processes agree, and anyone can compute it again.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hedgerow.experiments.analysis import VariantMeasurement
from hedgerow.experiments.statistics import (
    Posterior,
    RatePosterior,
    chances_to_be_best,
    credible_interval,
)

LEVEL = 0.95
WHOLE = 100


def choose_split(chances: Sequence[float], floor_percent: int) -> list[int]:
    """Return whole percentages that add up to 100. Each variant has the floor, and what is above
    the floors is divided in proportion to the probabilities to be best."""
    free = WHOLE - floor_percent * len(chances)
    shares = [chance * free for chance in chances]
    whole = [math.floor(share) for share in shares]
    # What rounding leaves goes to the largest remainders, the first of equal ones.
    by_remainder = sorted(range(len(shares)), key=lambda n: (whole[n] - shares[n], n))
    for number in by_remainder[: free - sum(whole)]:
        whole[number] += 1
    return [floor_percent + each for each in whole]


def split_evenly(count: int) -> list[int]:
    return choose_split([1 / count] * count, 0)


def compute_chances(
    found: Sequence[VariantMeasurement], *, is_lower_better: bool
) -> list[float] | None:
    """Return the probability of each variant to be best, None if one has too little data."""
    posteriors = [each.posterior for each in found if each.posterior is not None]
    if len(posteriors) < len(found):
        return None
    chances = chances_to_be_best(posteriors, is_lower_better=is_lower_better)
    return chances if sum(chances) > 0 else None


def find_lack(found: Sequence[VariantMeasurement], min_persons: int) -> str:
    """Return why it is too early to change the split, "" if it is not."""
    few = [each for each in found if each.people < min_persons]
    if few:
        known = ", ".join(f"{each.people} of {each.key}" for each in few)
        return f"{min_persons} persons of each variant are needed, and {known} are known"
    empty = [each.key for each in found if each.posterior is None]
    return f"{', '.join(empty)} have too few different values" if empty else ""


def describe_variant(
    found: VariantMeasurement,
    chance: float | None,
    before: float,
    after: float,
) -> dict[str, Any]:
    """Return the evidence for a variant as it is shown."""
    return {
        "key": found.key,
        "persons": found.people,
        "total": found.total,
        "denominator": found.denominator,
        "value": found.value,
        "posterior": _describe_posterior(found.posterior),
        "probability_best": chance,
        "rollout_percentage_before": before,
        "rollout_percentage": after,
    }


def _describe_posterior(of: Posterior | None) -> dict[str, Any] | None:
    if of is None:
        return None
    low, high = credible_interval(of, LEVEL)
    numbers = {"mean": of.centre, "low": low, "high": high}
    if not all(math.isfinite(each) for each in numbers.values()):
        return None
    is_rate = isinstance(of, RatePosterior)
    return {"distribution": "beta" if is_rate else "student", **numbers}


def explain_split(variants: Sequence[Mapping[str, Any]]) -> str:
    best = max(variants, key=lambda each: each["probability_best"] or 0.0)
    return (
        f"{best['key']} is best with a probability of {best['probability_best']:.1%}, of "
        f"{sum(each['persons'] for each in variants)} persons."
    )
