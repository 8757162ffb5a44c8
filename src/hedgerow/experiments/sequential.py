"""A test of two groups that may be looked at after every person. Pure.

The chance that it ever finds a difference that does not exist is at most alpha, however often one
looks. It is a mixture sequential probability ratio test: the evidence against "no difference" is
the likelihood ratio of a normal distribution, averaged over differences of several sizes, and
averages of such ratios exceed 1 / alpha at any time with a chance of at most alpha.

Proportions, means and ratios are one case: each person has a numerator and a denominator, which is
1 for a mean. The error of a ratio is that of the delta method, with persons as the unit. What a
person contributes must not change any more once it was counted.
"""

import math
from dataclasses import dataclass
from typing import Any

from hedgerow.experiments.statistics import MIN_RELATIVE_VARIANCE
from hedgerow.lib.optional_packages import import_package

# The sizes of differences over which the evidence is averaged, in standard deviations of a person.
SCALES = (0.01, 0.03, 0.1)
# With fewer persons in a group, or fewer persons in both whose value is not the usual one, the
# distribution of the difference is too far from normal.
MIN_PERSONS = 50
MIN_UNUSUAL = 10
_BISECTIONS = 60
_MAX_Z = 1e4


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSums:
    """The sums over the persons of a group: of their numerators, of their denominators, and of the
    squares and products of both. `positive` persons have a numerator other than 0. All can be NumPy
    arrays."""

    persons: Any
    numerator: Any
    denominator: Any
    numerator_squares: Any
    denominator_squares: Any
    products: Any
    positive: Any

    @property
    def value(self) -> Any:
        return self.numerator / self.denominator

    @property
    def person_variance(self) -> Any:
        """The variance of what one person adds to the value."""
        value, denominator = self.value, self.denominator / self.persons
        squares = (
            self.numerator_squares
            - 2 * value * self.products
            + value * value * self.denominator_squares
        )
        return squares / self.persons / (denominator * denominator)

    @property
    def unusual(self) -> int:
        """How many persons have another value than most. Conversions can be rare or usual."""
        is_proportion = (
            self.numerator == self.numerator_squares == self.positive
            and self.denominator == self.persons
        )
        usual = self.persons - self.positive if is_proportion else self.positive
        return int(min(self.positive, usual))

    def plus(self, other: "GroupSums") -> "GroupSums":
        return GroupSums(
            persons=self.persons + other.persons,
            numerator=self.numerator + other.numerator,
            denominator=self.denominator + other.denominator,
            numerator_squares=self.numerator_squares + other.numerator_squares,
            denominator_squares=self.denominator_squares + other.denominator_squares,
            products=self.products + other.products,
            positive=self.positive + other.positive,
        )


def build_mean_sums(*, persons: Any, total: Any, squares: Any, positive: Any) -> GroupSums:
    """Return the sums of a mean. For a proportion, all three are the number of conversions."""
    return GroupSums(
        persons=persons,
        numerator=total,
        denominator=persons,
        numerator_squares=squares,
        denominator_squares=persons,
        products=total,
        positive=positive,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialTest:
    """The difference of a treated group from a control group. `size` is the effective number of
    persons: half of those of a group if both have as many."""

    treated: float
    control: float
    error: float
    size: float

    @property
    def difference(self) -> float:
        return self.treated - self.control

    def log_evidence(self, *, is_increase: bool) -> float:
        """The logarithm of the evidence for an increase, or for a decrease."""
        z = self.difference / self.error
        return float(compute_log_evidence(z if is_increase else -z, self.size))

    def p_value(self, *, is_increase: bool) -> float:
        """The one-sided p-value, which is valid at any time."""
        return min(1.0, math.exp(-self.log_evidence(is_increase=is_increase)))

    def margin(self, alpha: float) -> float:
        """The distance from the difference to its one-sided bound. The interval of both sides has
        an error rate of 2 alpha."""
        return find_threshold(self.size, alpha) * self.error


def build_sequential_test(treated: GroupSums, control: GroupSums) -> SequentialTest | None:
    """Return None if there are too few persons or values for the test, or if all values are
    equal."""
    if min(treated.persons, control.persons) < MIN_PERSONS:
        return None
    if not (treated.denominator > 0 and control.denominator > 0):
        return None
    both = treated.plus(control)
    error = float(estimate_error(treated, control))
    if both.unusual < MIN_UNUSUAL or not 0 < error < math.inf:
        return None
    if error * error <= MIN_RELATIVE_VARIANCE * both.value * both.value:
        return None
    return SequentialTest(
        treated=float(treated.value),
        control=float(control.value),
        error=error,
        size=compute_size(treated, control),
    )


def compute_size(treated: GroupSums, control: GroupSums) -> Any:
    return treated.persons * control.persons / (treated.persons + control.persons)


def estimate_error(treated: GroupSums, control: GroupSums) -> Any:
    """Return the error of the difference: the larger one of two estimates, of which the first
    assumes that both groups have the same distribution. It is steadier for a small group; the
    second is right if a treatment changes the variance."""
    numpy = import_package("numpy")
    pooled = treated.plus(control).person_variance / compute_size(treated, control)
    apart = treated.person_variance / treated.persons + control.person_variance / control.persons
    return numpy.sqrt(numpy.maximum(numpy.maximum(pooled, apart), 0.0))


def compute_log_evidence(z: Any, size: Any) -> Any:
    """Return the logarithm of the evidence for a positive difference, given the difference divided
    by its error. Takes numbers or NumPy arrays."""
    numpy, special = import_package("numpy"), import_package("scipy.special")
    parts = []
    for scale in SCALES:
        information = scale * scale * size
        shrink = information / (1 + information)
        parts.append(
            math.log(2)
            - 0.5 * numpy.log1p(information)
            + 0.5 * z * z * shrink
            + special.log_ndtr(z * numpy.sqrt(shrink))
        )
    return special.logsumexp(numpy.stack(parts), axis=0) - math.log(len(SCALES))


def find_threshold(size: float, alpha: float) -> float:
    """Return how many errors above zero a difference is significant at this size."""
    low, high, wanted = 0.0, _MAX_Z, -math.log(alpha)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if compute_log_evidence(middle, size) < wanted:
            low = middle
        else:
            high = middle
    return high
