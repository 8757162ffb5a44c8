"""Bayesian comparison of variants. Pure and deterministic: probabilities are integrals over a grid,
without random sampling.

Distribution functions come from SciPy, which is loaded with NumPy on first use.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from hedgerow.lib.optional_packages import import_package

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

FloatArray: TypeAlias = "NDArray[float64]"

# Beta(1, 1): a uniform prior.
PRIOR_SUCCESSES, PRIOR_FAILURES = 1, 1
GRID_SIZE = 2048
# The number of extra values in each tail.
TAIL_SIZE = 40
# A relative standard deviation below 1e-12 is a rounding error.
MIN_RELATIVE_VARIANCE = 1e-12**2
MISMATCH_P_VALUE = 0.001
# The chi-square approximation needs this expected count in each cell.
MIN_EXPECTED_COUNT = 5.0
# Relative to the width of the interval.
_BISECT_TOLERANCE = 1e-6
_MIN_CHANCE = 1e-12
_MAX_LIFT = 1e12
_MAX_BISECTIONS = 100


class Posterior(Protocol):
    """The posterior distribution of a variant's rate or mean."""

    @property
    def centre(self) -> float: ...

    def below(self, values: FloatArray) -> FloatArray:
        """Return the probability to be below each value."""
        ...

    def quantiles(self, chances: FloatArray) -> FloatArray: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class RatePosterior:
    """A conversion rate: a beta distribution."""

    converted: int
    sample_size: int

    @property
    def _parameters(self) -> tuple[float, float]:
        failures = self.sample_size - self.converted
        return float(self.converted + PRIOR_SUCCESSES), float(failures + PRIOR_FAILURES)

    @property
    def centre(self) -> float:
        a, b = self._parameters
        return a / (a + b)

    def below(self, values: FloatArray) -> FloatArray:
        found: FloatArray = _special().betainc(*self._parameters, _numpy().clip(values, 0.0, 1.0))
        return found

    def quantiles(self, chances: FloatArray) -> FloatArray:
        found: FloatArray = _special().betaincinv(*self._parameters, chances)
        return found


@dataclass(frozen=True, slots=True)
class MeanPosterior:
    """A mean with Jeffreys' prior: Student's distribution around the observed mean."""

    mean: float
    error: float
    freedom: int

    @property
    def centre(self) -> float:
        return self.mean

    def below(self, values: FloatArray) -> FloatArray:
        found: FloatArray = _special().stdtr(float(self.freedom), (values - self.mean) / self.error)
        return found

    def quantiles(self, chances: FloatArray) -> FloatArray:
        found: FloatArray = self.mean + self.error * _special().stdtrit(
            float(self.freedom), chances
        )
        return found


def build_mean_posterior(mean: float, variance: float, sample_size: int) -> MeanPosterior | None:
    """Return None for fewer than two values or values without variation."""
    if sample_size < 2 or not variance > MIN_RELATIVE_VARIANCE * mean * mean:
        return None
    error = math.sqrt(variance / sample_size)
    return (
        MeanPosterior(mean, error, sample_size - 1) if math.isfinite(error) and error > 0 else None
    )


def credible_interval(of: Posterior, level: float) -> tuple[float, float]:
    low, high = of.quantiles(_numpy().array([(1 - level) / 2, (1 + level) / 2]))
    return float(low), float(high)


def chance_above(one: Posterior, other: Posterior) -> float:
    """Return the probability that `one` is above `other`."""
    return _clamp(float(other.below(_sample_grid(one)).mean()))


def chances_to_be_best(of: Sequence[Posterior], *, is_lower_better: bool) -> list[float]:
    """Return for each the probability to be above all others, or below them. The sum is 1."""
    found = []
    for number, each in enumerate(of):
        at = _sample_grid(each)
        win_chance = _numpy().ones_like(at)
        for other in (*of[:number], *of[number + 1 :]):
            beats = _approximate_cdf(other, at)
            win_chance *= 1 - beats if is_lower_better else beats
        found.append(float(win_chance.mean()))
    total = sum(found)
    return [_clamp(chance / total) for chance in found] if total > 0 else found


def lift_interval(
    variant: Posterior, control: Posterior, level: float
) -> tuple[float, float] | None:
    """Return the interval of (variant - control) / |control|. None if control may be so close to
    zero that the lift is unbounded."""
    if not control.centre:
        return None
    base = _sample_grid(control)
    size = abs(base)

    def below(lift: float) -> float:
        return float(_approximate_cdf(variant, base + lift * size).mean())

    middle = (variant.centre - control.centre) / abs(control.centre)
    half_width = _half_width(variant, level) + abs(variant.centre / control.centre) * _half_width(
        control, level
    )
    width = max(half_width / abs(control.centre), _MIN_CHANCE * (1 + abs(middle)))
    if not math.isfinite(width):
        return None
    low = _bisect(below, (1 - level) / 2, middle - width, middle)
    high = _bisect(below, (1 + level) / 2, middle, middle + width)
    return None if low is None or high is None else (low, high)


def _half_width(of: Posterior, level: float) -> float:
    low, high = credible_interval(of, level)
    return (high - low) / 2


def sample_ratio_p_value(observed: Sequence[int], shares: Sequence[float]) -> float | None:
    """Return the p-value of Pearson's chi-square test for these counts and shares. All shares are
    above 0. None if the expected counts are too small."""
    total, whole = sum(observed), sum(shares)
    if len(shares) < 2 or not 0 < whole < math.inf:
        return None
    expected = [total * share / whole for share in shares]
    if min(expected) < MIN_EXPECTED_COUNT:
        return None
    distance = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    return float(_special().chdtrc(len(expected) - 1, distance))


def _bisect(
    below: Callable[[float], float], chance: float, low: float, high: float
) -> float | None:
    """Find where an increasing probability reaches `chance`, starting between `low` and `high`."""
    near, step = _BISECT_TOLERANCE * (high - low), high - low
    while (at_low := below(low)) > chance and low > -_MAX_LIFT:
        low, step = low - step, step * 2
    step = high - low
    while (at_high := below(high)) < chance and high < _MAX_LIFT:
        high, step = high + step, step * 2
    if not at_low <= chance <= at_high:
        return None
    for _ in range(_MAX_BISECTIONS):
        middle = (low + high) / 2
        if high - low <= near:
            break
        low, high = (middle, high) if below(middle) < chance else (low, middle)
    return (low + high) / 2


def _clamp(chance: float) -> float:
    return min(max(chance, 0.0), 1.0)


@cache
def _grid() -> FloatArray:
    """The midpoints of GRID_SIZE equal parts of the probability range."""
    found: FloatArray = (_numpy().arange(GRID_SIZE) + 0.5) / GRID_SIZE
    return found


@cache
def _grid_chances() -> FloatArray:
    """The grid, with ever smaller probabilities added on both sides."""
    numpy = _numpy()
    tail = numpy.geomspace(_MIN_CHANCE, _grid()[0], TAIL_SIZE, endpoint=False)
    found: FloatArray = numpy.concatenate([tail, _grid(), 1 - tail[::-1]])
    return found


@lru_cache(maxsize=64)
def _quantile_table(of: Posterior) -> FloatArray:
    """The quantiles of a posterior at these probabilities. Computing them takes a thousand times
    longer than a lookup, so each variant has one table for all comparisons."""
    found: FloatArray = _numpy().maximum.accumulate(of.quantiles(_grid_chances()))
    found.setflags(write=False)
    return found


def _sample_grid(of: Posterior) -> FloatArray:
    """Return values of equal probability."""
    return _quantile_table(of)[TAIL_SIZE:-TAIL_SIZE]


def _approximate_cdf(of: Posterior, values: FloatArray) -> FloatArray:
    """Approximate `below` to 4 digits."""
    found: FloatArray = _numpy().interp(
        values, _quantile_table(of), _grid_chances(), left=0.0, right=1.0
    )
    return found


def _numpy() -> Any:
    return import_package("numpy")


def _special() -> Any:
    return import_package("scipy.special")
