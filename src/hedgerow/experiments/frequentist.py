"""Frequentist comparison of variants. Pure.

Means use Welch's test, rates the test of two proportions. The interval of a lift is Fieller's: it
excludes zero exactly when the test is significant.
"""

import math
from dataclasses import dataclass
from typing import Any

from hedgerow.experiments.statistics import (
    MeanPosterior,
    Posterior,
    RatePosterior,
    credible_interval,
)
from hedgerow.lib.optional_packages import import_package

# The normal approximation needs this many conversions, and as many non-conversions.
MIN_CONVERSIONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceTest:
    """`variance` is that of each mean. Infinite `freedom` means the normal distribution."""

    mean: float
    variance: float
    control: float
    control_variance: float
    freedom: float

    @property
    def p_value(self) -> float:
        """The two-sided probability of a difference at least this large if there is none."""
        error = math.sqrt(self.variance + self.control_variance)
        return 2 * _cdf(-abs(self.mean - self.control) / error, self.freedom)

    def lift_interval(self, level: float) -> tuple[float, float] | None:
        """The interval of (variant - control) / |control|. None if control may be zero."""
        return self.find_lift_interval(_quantile((1 + level) / 2, self.freedom))

    def find_lift_interval(self, z: float) -> tuple[float, float] | None:
        """The interval of the lifts that differ from the observed one by less than `z` errors."""
        z_squared = z * z
        a = self.control * self.control - z_squared * self.control_variance
        if not a > 0:
            return None
        b = self.mean * self.control
        discriminant = b * b - a * (self.mean * self.mean - z_squared * self.variance)
        if not 0 <= discriminant < math.inf:
            return None
        ratios = [(b - math.sqrt(discriminant)) / a - 1, (b + math.sqrt(discriminant)) / a - 1]
        if not all(math.isfinite(each) for each in ratios):
            return None
        low, high = sorted(ratios) if self.control > 0 else sorted(-each for each in ratios)
        return low, high


def build_difference_test(variant: Posterior, control: Posterior) -> DifferenceTest | None:
    """Return None if there are too few conversions or non-conversions for the test, or if the
    variance overflows."""
    if isinstance(variant, MeanPosterior) and isinstance(control, MeanPosterior):
        one, other = variant.error * variant.error, control.error * control.error
        if not 0 < one + other < math.inf:
            return None
        share = one / (one + other)
        spread = share * share / variant.freedom + (1 - share) * (1 - share) / control.freedom
        return DifferenceTest(
            mean=variant.mean,
            variance=one,
            control=control.mean,
            control_variance=other,
            freedom=1 / spread,
        )
    if isinstance(variant, RatePosterior) and isinstance(control, RatePosterior):
        if not (_has_enough_conversions(variant) and _has_enough_conversions(control)):
            return None
        return DifferenceTest(
            mean=variant.converted / variant.sample_size,
            variance=_variance(variant),
            control=control.converted / control.sample_size,
            control_variance=_variance(control),
            freedom=math.inf,
        )
    return None


def _has_enough_conversions(rate: RatePosterior) -> bool:
    return min(rate.converted, rate.sample_size - rate.converted) >= MIN_CONVERSIONS


def confidence_interval(of: Posterior, level: float) -> tuple[float, float]:
    """Return the interval of one variant: Student's for a mean, Wilson's for a rate, which stays
    between 0 and 1."""
    if not isinstance(of, RatePosterior):
        return credible_interval(of, level)
    z_squared = _quantile((1 + level) / 2, math.inf) ** 2
    rate, scale = of.converted / of.sample_size, 1 + z_squared / of.sample_size
    center = (rate + z_squared / (2 * of.sample_size)) / scale
    margin = (
        math.sqrt(
            z_squared * (rate * (1 - rate) + z_squared / (4 * of.sample_size)) / of.sample_size
        )
        / scale
    )
    return max(center - margin, 0.0), min(center + margin, 1.0)


def _variance(rate: RatePosterior) -> float:
    share = rate.converted / rate.sample_size
    return share * (1 - share) / rate.sample_size


def _cdf(value: float, freedom: float) -> float:
    special = _special()
    found = special.ndtr(value) if math.isinf(freedom) else special.stdtr(freedom, value)
    return float(found)


def _quantile(chance: float, freedom: float) -> float:
    special = _special()
    found = special.ndtri(chance) if math.isinf(freedom) else special.stdtrit(freedom, chance)
    return float(found)


def _special() -> Any:
    return import_package("scipy.special")
