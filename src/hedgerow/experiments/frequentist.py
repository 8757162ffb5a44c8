"""How variants compare by tests of what would be seen if they were alike. Pure.

Means by Welch's test, which lets variants spread differently; rates by the difference of two
proportions. The interval of a lift is Fieller's: it leaves out zero exactly when the test says so.
"""

import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hedgerow.experiments.statistics import Mean, Posterior, Rate, interval

# The normal distribution is a good likeness from so many conversions, and as many without.
LEAST_CONVERSIONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """`variance` is that of each mean. With infinite `freedom` it is the normal distribution."""

    mean: float
    variance: float
    control: float
    control_variance: float
    freedom: float

    @property
    def p_value(self) -> float:
        """How probable a difference as large is, in either direction, if there is none."""
        error = math.sqrt(self.variance + self.control_variance)
        return 2 * _below(-abs(self.mean - self.control) / error, self.freedom)

    def lift_interval(self, level: float) -> tuple[float, float] | None:
        """Of (variant - control) / |control|. None where control may be zero."""
        far = _quantile((1 + level) / 2, self.freedom) ** 2
        a = self.control * self.control - far * self.control_variance
        if not a > 0:
            return None
        b = self.mean * self.control
        within = b * b - a * (self.mean * self.mean - far * self.variance)
        if not 0 <= within < math.inf:
            return None
        ratios = [(b - math.sqrt(within)) / a - 1, (b + math.sqrt(within)) / a - 1]
        if not all(math.isfinite(each) for each in ratios):
            return None
        low, high = sorted(ratios) if self.control > 0 else sorted(-each for each in ratios)
        return low, high


def difference(variant: Posterior, control: Posterior) -> Difference | None:
    """None where too few converted, or failed to, for the test to mean anything, and where no
    number holds how far values spread."""
    if isinstance(variant, Mean) and isinstance(control, Mean):
        one, other = variant.error * variant.error, control.error * control.error
        if not 0 < one + other < math.inf:
            return None
        share = one / (one + other)
        spread = share * share / variant.freedom + (1 - share) * (1 - share) / control.freedom
        return Difference(
            mean=variant.mean,
            variance=one,
            control=control.mean,
            control_variance=other,
            freedom=1 / spread,
        )
    if isinstance(variant, Rate) and isinstance(control, Rate):
        if not (_has_enough(variant) and _has_enough(control)):
            return None
        return Difference(
            mean=variant.converted / variant.seen,
            variance=_variance(variant),
            control=control.converted / control.seen,
            control_variance=_variance(control),
            freedom=math.inf,
        )
    return None


def _has_enough(rate: Rate) -> bool:
    return min(rate.converted, rate.seen - rate.converted) >= LEAST_CONVERSIONS


def confidence_interval(of: Posterior, level: float) -> tuple[float, float]:
    """Of one variant: Student's for a mean, which is the credible one as well, and Wilson's for a
    rate, which stays between 0 and 1."""
    if not isinstance(of, Rate):
        return interval(of, level)
    far = _quantile((1 + level) / 2, math.inf) ** 2
    rate, whole = of.converted / of.seen, 1 + far / of.seen
    middle = (rate + far / (2 * of.seen)) / whole
    reach = math.sqrt(far * (rate * (1 - rate) + far / (4 * of.seen)) / of.seen) / whole
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def _variance(rate: Rate) -> float:
    share = rate.converted / rate.seen
    return share * (1 - share) / rate.seen


def _below(value: float, freedom: float) -> float:
    special = _special()
    found = special.ndtr(value) if math.isinf(freedom) else special.stdtr(freedom, value)
    return float(found)


def _quantile(chance: float, freedom: float) -> float:
    special = _special()
    found = special.ndtri(chance) if math.isinf(freedom) else special.stdtrit(freedom, chance)
    return float(found)


def _special() -> Any:
    return import_module("scipy.special")
