"""CUPED: adjust the values of people by what they did before their exposure, which no variant can
have changed. Pure.

Each value loses `theta` times the difference of its person's history from that of all people. Since
variants are assigned at random, the means of the histories differ only by chance, so that the
adjusted difference of two variants is expected to be the true one, with less variance: that of the
values times one minus the squared correlation. `theta` is the slope within variants, pooled over
all of them, so that a difference between variants does not change it.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from hedgerow.experiments.analysis import ROUNDING_TOLERANCE, MetricSums, VariantMeasurement

# With fewer people, the slope is a guess.
MIN_PEOPLE = 20


def adjust_by_history(
    found: Sequence[VariantMeasurement],
) -> tuple[list[VariantMeasurement], float, float] | None:
    """Return the adjusted measurements, theta, and the part of the variance that is explained. None
    if there is no history, or if a variant cannot be adjusted."""
    exposed = [each for each in found if each.people]
    people = sum(each.people for each in exposed)
    if people < MIN_PEOPLE or any(each.history is None or each.is_too_large for each in exposed):
        return None
    sums = [_sum_squares(each) for each in exposed]
    own, joint, history = (math.fsum(column) for column in zip(*sums, strict=True))
    if not history > 0 or not own > 0 or not math.isfinite(own + abs(joint) + history):
        return None
    theta = joint / history
    mean = math.fsum(each.history.sums.total for each in exposed if each.history) / people
    adjusted = [_adjust(each, theta, mean) for each in found]
    return adjusted, theta, joint / own * theta


def _sum_squares(of: VariantMeasurement) -> tuple[float, float, float]:
    """Return the sums of squares around the means: of values, of products, of histories."""
    assert of.history is not None
    assert of.total is not None
    assert of.squares is not None
    own = max(of.squares - of.total * of.total / of.people, 0.0)
    return own, of.history.covariance * of.people, of.history.sums.variance * of.people


def _adjust(of: VariantMeasurement, theta: float, mean: float) -> VariantMeasurement:
    if not of.people:
        return of
    assert of.history is not None
    assert of.total is not None
    own, joint, history = _sum_squares(of)
    observed = MetricSums(total=of.total, variance=own / of.people)
    total = of.total - theta * (of.history.sums.total - mean * of.people)
    left = own - 2 * theta * joint + theta * theta * history
    if left < ROUNDING_TOLERANCE * own:
        left = 0.0
    made = VariantMeasurement.from_mean(of.key, of.people, total, left / of.people)
    return replace(made, history=of.history, observed=observed)
