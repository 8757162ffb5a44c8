"""Variants compared by one metric. Pure; where nothing can be said it says so, and never NaN."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hedgerow.experiments.answer import VariantResult
from hedgerow.experiments.criteria import FREQUENTIST, Stats
from hedgerow.experiments.frequentist import confidence_interval, difference
from hedgerow.experiments.statistics import (
    Mean,
    Posterior,
    Rate,
    chance_above,
    chances_to_be_best,
    interval,
    lift_interval,
    mean_of,
)

NO_EXPOSURES = "no-exposures"
NO_VARIATION = "no-variation"
TOO_LARGE = "values-too-large"
NO_WHOLE = "denominator-is-zero"
BASELINE = "baseline-not-comparable"
BASELINE_ZERO = "baseline-mean-is-zero"
BASELINE_NEAR_ZERO = "baseline-mean-may-be-zero"
TOO_FEW_CONVERSIONS = "too-few-conversions"
# A variance that is this part of those that it is the difference of is not there.
ROUNDING_LEFT = 1e-12
# So many people at least must stand behind what divides: of revenue per order, all that is known
# is known from those who ordered, however many saw the shop.
LEAST_BEHIND = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Of what people did: `total` and the variance `spread`."""

    total: float
    spread: float

    def squares(self, people: int) -> float:
        return self.spread * people + self.total * self.total / people if people else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was seen of a variant, and what is believed of it: None where nothing can be. `total`
    and `squares`, the sum of the squares, are None where no number can hold them. `value` is the
    rate, the mean or the ratio. Of a ratio there are the same of what divides, and the sum of the
    products."""

    key: str
    people: int
    total: float | None
    squares: float | None
    value: float | None
    posterior: Posterior | None
    whole: float | None = None
    whole_squares: float | None = None
    products: float | None = None

    @property
    def is_thin(self) -> bool:
        """Whether too few people have a part in what divides."""
        if self.whole is None or self.whole_squares is None:
            return False
        return _behind(self.whole, self.whole_squares) < LEAST_BEHIND

    @property
    def is_too_large(self) -> bool:
        return self.total is None or (self.whole is not None and self.whole_squares is None)

    @classmethod
    def of_funnel(cls, key: str, people: int, converted: int) -> "Measured":
        return cls(
            key=key,
            people=people,
            total=float(converted),
            squares=float(converted),
            value=converted / people if people else None,
            posterior=Rate(converted, people) if people else None,
        )

    @classmethod
    def of_mean(cls, key: str, people: int, total: float, spread: float) -> "Measured":
        """`spread` is the variance of the values that are there."""
        if not math.isfinite(total) or (people and not math.isfinite(spread)):
            return cls.too_large(key, people)
        posterior = None
        if people > 1:
            posterior = mean_of(total / people, spread * people / (people - 1), people)
        return cls(
            key=key,
            people=people,
            total=total,
            squares=_finite(Sums(total=total, spread=spread).squares(people)),
            value=total / people if people else None,
            posterior=posterior,
        )

    @classmethod
    def of_ratio(
        cls, key: str, people: int, above: Sums, below: Sums, covariance: float
    ) -> "Measured":
        """By the delta method: a ratio of means spreads as `above - ratio * below` does, divided by
        the mean of `below`."""
        numbers = (above.total, above.spread, below.total, below.spread, covariance)
        if people and not all(math.isfinite(each) for each in numbers):
            return cls.too_large(key, people)
        ratio = _finite(above.total / below.total) if below.total else None
        posterior = None
        mean = below.total / people if people else 0.0
        if ratio is not None and people > 1 and mean:
            left = above.spread + ratio * ratio * below.spread - 2 * ratio * covariance
            variance = left * people / (people - 1) / mean / mean
            # What is left of alike numbers is how they were rounded.
            behind = _behind(below.total, below.squares(people))
            is_spread = left > ROUNDING_LEFT * (above.spread + ratio * ratio * below.spread)
            if is_spread and behind >= LEAST_BEHIND:
                posterior = mean_of(ratio, variance, people)
            if posterior is not None:
                posterior = replace(posterior, freedom=min(people, round(behind)) - 1)
        products = covariance * people + above.total * below.total / people if people else 0.0
        return cls(
            key=key,
            people=people,
            total=above.total,
            squares=_finite(above.squares(people)),
            value=ratio,
            posterior=posterior,
            whole=below.total,
            whole_squares=_finite(below.squares(people)),
            products=_finite(products),
        )

    @classmethod
    def too_large(cls, key: str, people: int) -> "Measured":
        return cls(key=key, people=people, total=None, squares=None, value=None, posterior=None)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _behind(total: float, squares: float) -> float:
    """How many people, if all had the same part, would tell as much (Kish)."""
    return total * total / squares if squares else 0.0


def compared(
    found: Sequence[Measured], stats: Stats, *, is_less_better: bool
) -> list[VariantResult]:
    """The first is control."""
    control = found[0] if found else None
    pairs = [(each, None if each is control else control) for each in found]
    if stats.method == FREQUENTIST:
        return [_tested(each, other, stats.level) for each, other in pairs]
    best = _best(found, is_less_better=is_less_better)
    return [
        _believed(each, other, stats.level, best.get(each.key), is_less_better=is_less_better)
        for each, other in pairs
    ]


def _tested(of: Measured, control: Measured | None, level: float) -> VariantResult:
    lift = lift_range = test = None
    failures = _failures(of, control, level)
    if control is not None and of.posterior is not None and control.posterior is not None:
        test = difference(of.posterior, control.posterior)
        if test is None:
            is_rate = isinstance(of.posterior, Rate)
            failures.append(TOO_FEW_CONVERSIONS if is_rate else TOO_LARGE)
        elif not failures and of.value is not None and control.value:
            lift = _finite(_seen_lift(of.value, control.value))
            lift_range = None if lift is None else test.lift_interval(level)
            if lift_range is None:
                lift = None
                failures.append(BASELINE_NEAR_ZERO)
    chance = None if test is None else test.p_value
    return _told(
        of,
        failures,
        value_interval=None if of.posterior is None else confidence_interval(of.posterior, level),
        lift=lift,
        p_value=chance,
        confidence_interval=lift_range,
        significant=None if chance is None else chance < 1 - level,
    )


def _best(found: Sequence[Measured], *, is_less_better: bool) -> dict[str, float]:
    """Of those that somebody has seen. Where nothing can be said of one of them, nothing can be
    said of which is the best."""
    seen = [each for each in found if each.people]
    known = [each.posterior for each in seen if each.posterior is not None]
    if len(known) < 2 or len(known) < len(seen):
        return {}
    chances = chances_to_be_best(known, is_less_better=is_less_better)
    return {each.key: chance for each, chance in zip(seen, chances, strict=True)}


def _believed(
    of: Measured,
    control: Measured | None,
    level: float,
    best: float | None,
    *,
    is_less_better: bool,
) -> VariantResult:
    win = lift = lift_range = significant = None
    failures = _failures(of, control, level)
    if control is not None and of.posterior is not None and control.posterior is not None:
        above = chance_above(of.posterior, control.posterior)
        win = 1 - above if is_less_better else above
        # The credible interval of the difference leaves out zero.
        significant = not (1 - level) / 2 <= above <= (1 + level) / 2
        if not failures:
            lift, lift_range = _lift(of, control, level)
            failures += [BASELINE_NEAR_ZERO] if lift is None else []
    return _told(
        of,
        failures,
        value_interval=None if of.posterior is None else interval(of.posterior, level),
        chance_to_be_best=best,
        chance_to_win=win,
        lift=lift,
        credible_interval=lift_range,
        significant=significant,
    )


def _told(of: Measured, failures: Sequence[str], **found: Any) -> VariantResult:
    """What was seen, with what follows from it by some method; null for what does not."""
    nothing = dict.fromkeys(_FOLLOWS)
    return VariantResult(
        key=of.key,
        number_of_samples=of.people,
        sum=of.total,
        sum_squares=of.squares,
        denominator_sum=of.whole,
        denominator_sum_squares=of.whole_squares,
        numerator_denominator_sum_product=of.products,
        value=of.value,
        validation_failures=failures,
        **(nothing | found),
    )


_FOLLOWS = (
    *("value_interval", "chance_to_be_best", "chance_to_win", "lift", "credible_interval"),
    *("p_value", "confidence_interval", "significant"),
)


def _seen_lift(value: float, control: float) -> float:
    return (value - control) / abs(control)


def _lift(
    of: Measured, control: Measured, level: float
) -> tuple[float, tuple[float, float]] | tuple[None, None]:
    """As it was seen, and where the true one is; both or none."""
    if of.posterior is None or control.posterior is None or of.value is None or not control.value:
        return None, None
    seen = _seen_lift(of.value, control.value)
    found = lift_interval(of.posterior, control.posterior, level)
    return (None, None) if found is None or not math.isfinite(seen) else (seen, found)


def _failures(of: Measured, control: Measured | None, level: float) -> list[str]:
    found = []
    if not of.people:
        found.append(NO_EXPOSURES)
    elif of.is_too_large:
        found.append(TOO_LARGE)
    elif of.whole == 0:
        found.append(NO_WHOLE)
    elif of.posterior is None:
        found.append(TOO_FEW_CONVERSIONS if of.is_thin else NO_VARIATION)
    if control is None:
        return found
    if control.posterior is None:
        found.append(BASELINE)
    elif not control.value:
        found.append(BASELINE_ZERO)
    elif _may_be_zero(control.posterior, level):
        found.append(BASELINE_NEAR_ZERO)
    return found


def _may_be_zero(control: Posterior, level: float) -> bool:
    """Then a lift over it can be anything. A rate is never below zero, and has a lift."""
    if not isinstance(control, Mean):
        return False
    low, high = interval(control, level)
    return low <= 0 <= high
