"""What is believed of a variant after what was seen, and how variants compare. Pure, and the same
figures each time: probabilities are integrals over a grid, nothing is drawn at random.

The functions of the distributions are SciPy's. It and NumPy are loaded when they are first needed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[float64]"

# Beta(1, 1): before anybody was seen, every rate is as probable as any other.
PRIOR_SUCCESSES, PRIOR_FAILURES = 1, 1
GRID = 2048
# So many values more of each tail.
TAIL = 40
# Values that differ by less than rounding does are alike: by a part in a million million.
ROUNDING = 1e-12**2
MISMATCH_BELOW = 0.001
# The chi-square distribution is a good likeness from so many expected in each cell.
LEAST_EXPECTED = 5.0
# Of an interval's width.
_NEAR = 1e-6
_LEAST = 1e-12
_FURTHEST = 1e12
_MOST_HALVINGS = 100


class Posterior(Protocol):
    """What is believed of a variant's true rate or mean."""

    @property
    def centre(self) -> float: ...

    def below(self, values: Numbers) -> Numbers:
        """How probable it is to be below each value."""
        ...

    def quantiles(self, chances: Numbers) -> Numbers: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of conversion: a beta distribution, by the prior and what was seen."""

    converted: int
    seen: int

    @property
    def _parameters(self) -> tuple[float, float]:
        failures = self.seen - self.converted
        return float(self.converted + PRIOR_SUCCESSES), float(failures + PRIOR_FAILURES)

    @property
    def centre(self) -> float:
        a, b = self._parameters
        return a / (a + b)

    def below(self, values: Numbers) -> Numbers:
        found: Numbers = _special().betainc(*self._parameters, _numpy().clip(values, 0.0, 1.0))
        return found

    def quantiles(self, chances: Numbers) -> Numbers:
        found: Numbers = _special().betaincinv(*self._parameters, chances)
        return found


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of which nothing was believed before (Jeffreys' prior): Student's distribution around
    the mean that was seen."""

    mean: float
    error: float
    freedom: int

    @property
    def centre(self) -> float:
        return self.mean

    def below(self, values: Numbers) -> Numbers:
        found: Numbers = _special().stdtr(float(self.freedom), (values - self.mean) / self.error)
        return found

    def quantiles(self, chances: Numbers) -> Numbers:
        found: Numbers = self.mean + self.error * _special().stdtrit(float(self.freedom), chances)
        return found


def mean_of(mean: float, variance: float, seen: int) -> Mean | None:
    """None where nothing can be said: fewer than two values, or all of them alike."""
    if seen < 2 or not variance > ROUNDING * mean * mean:
        return None
    error = math.sqrt(variance / seen)
    return Mean(mean, error, seen - 1) if math.isfinite(error) and error > 0 else None


def interval(of: Posterior, level: float) -> tuple[float, float]:
    low, high = of.quantiles(_numpy().array([(1 - level) / 2, (1 + level) / 2]))
    return float(low), float(high)


def chance_above(one: Posterior, other: Posterior) -> float:
    """How probable it is that `one` is above `other`."""
    return _bounded(float(other.below(_spread(one)).mean()))


def chances_to_be_best(of: Sequence[Posterior], *, is_less_better: bool) -> list[float]:
    """For each how probable it is to be above all others, or below them; together 1."""
    found = []
    for number, each in enumerate(of):
        at = _spread(each)
        won = _numpy().ones_like(at)
        for other in (*of[:number], *of[number + 1 :]):
            beaten = _quickly_below(other, at)
            won *= 1 - beaten if is_less_better else beaten
        found.append(float(won.mean()))
    total = sum(found)
    return [_bounded(chance / total) for chance in found] if total > 0 else found


def lift_interval(
    variant: Posterior, control: Posterior, level: float
) -> tuple[float, float] | None:
    """Of (variant - control) / |control|. None where control may be so near to zero that a lift
    can be anything."""
    if not control.centre:
        return None
    base = _spread(control)
    size = abs(base)

    def below(lift: float) -> float:
        return float(_quickly_below(variant, base + lift * size).mean())

    middle = (variant.centre - control.centre) / abs(control.centre)
    reach = _reach(variant, level) + abs(variant.centre / control.centre) * _reach(control, level)
    width = max(reach / abs(control.centre), _LEAST * (1 + abs(middle)))
    if not math.isfinite(width):
        return None
    low = _where(below, (1 - level) / 2, middle - width, middle)
    high = _where(below, (1 + level) / 2, middle, middle + width)
    return None if low is None or high is None else (low, high)


def _reach(of: Posterior, level: float) -> float:
    low, high = interval(of, level)
    return (high - low) / 2


def mismatch(observed: Sequence[int], shares: Sequence[float]) -> float | None:
    """How probable it is that people were spread so unlike the shares by chance alone: Pearson's
    chi-square test. All shares are above 0. None where too few were seen to tell."""
    total, whole = sum(observed), sum(shares)
    if len(shares) < 2 or not 0 < whole < math.inf:
        return None
    expected = [total * share / whole for share in shares]
    if min(expected) < LEAST_EXPECTED:
        return None
    distance = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    return float(_special().chdtrc(len(expected) - 1, distance))


def _where(below: Callable[[float], float], chance: float, low: float, high: float) -> float | None:
    """Where a probability that only grows reaches `chance`, most likely between `low` and `high`:
    by halving."""
    near, step = _NEAR * (high - low), high - low
    while (at_low := below(low)) > chance and low > -_FURTHEST:
        low, step = low - step, step * 2
    step = high - low
    while (at_high := below(high)) < chance and high < _FURTHEST:
        high, step = high + step, step * 2
    if not at_low <= chance <= at_high:
        return None
    for _ in range(_MOST_HALVINGS):
        middle = (low + high) / 2
        if high - low <= near:
            break
        low, high = (middle, high) if below(middle) < chance else (low, middle)
    return (low + high) / 2


def _bounded(chance: float) -> float:
    return min(max(chance, 0.0), 1.0)


@cache
def _grid() -> Numbers:
    """The middles of so many equal parts of what is probable."""
    found: Numbers = (_numpy().arange(GRID) + 0.5) / GRID
    return found


@cache
def _chances() -> Numbers:
    """Those of the grid, and ever smaller ones on both sides of it."""
    numpy = _numpy()
    tail = numpy.geomspace(_LEAST, _grid()[0], TAIL, endpoint=False)
    found: Numbers = numpy.concatenate([tail, _grid(), 1 - tail[::-1]])
    return found


@lru_cache(maxsize=64)
def _table(of: Posterior) -> Numbers:
    """The values that it is below with these chances. To find them takes a thousand times longer
    than to look them up: of all variants of a metric each has one table for all comparisons."""
    found: Numbers = _numpy().maximum.accumulate(of.quantiles(_chances()))
    found.setflags(write=False)
    return found


def _spread(of: Posterior) -> Numbers:
    """Values each of which is as probable as any other."""
    return _table(of)[TAIL:-TAIL]


def _quickly_below(of: Posterior, values: Numbers) -> Numbers:
    """As `of.below`, to 4 digits."""
    found: Numbers = _numpy().interp(values, _table(of), _chances(), left=0.0, right=1.0)
    return found


def _numpy() -> Any:
    return import_module("numpy")


def _special() -> Any:
    return import_module("scipy.special")
