"""Variants compared by one metric. Pure; where nothing can be said it says so, and never NaN."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hedgerow.experiments.answer import VariantResult
from hedgerow.experiments.statistics import (
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
BASELINE = "baseline-not-comparable"
BASELINE_ZERO = "baseline-mean-is-zero"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was seen of a variant, and what is believed of it: None where nothing can be."""

    key: str
    people: int
    total: float
    posterior: Posterior | None

    @classmethod
    def of_funnel(cls, key: str, people: int, converted: int) -> "Measured":
        posterior = Rate(converted, people) if people else None
        return cls(key=key, people=people, total=float(converted), posterior=posterior)

    @classmethod
    def of_mean(cls, key: str, people: int, total: float, spread: float) -> "Measured":
        """`spread` is the variance of the values that are there."""
        if people < 2 or not math.isfinite(total):  # beyond what a number can hold
            shown = total if math.isfinite(total) else 0.0
            return cls(key=key, people=people, total=shown, posterior=None)
        posterior = mean_of(total / people, spread * people / (people - 1), people)
        return cls(key=key, people=people, total=total, posterior=posterior)

    @property
    def value(self) -> float | None:
        return self.total / self.people if self.people else None


def compared(
    found: Sequence[Measured], level: float, *, is_less_better: bool
) -> list[VariantResult]:
    """The first is control."""
    known = [each.posterior for each in found if each.posterior is not None]
    chances = chances_to_be_best(known, is_less_better=is_less_better)
    best = iter(chances if len(known) > 1 else [None] * len(known))
    control = found[0] if found else None
    return [
        _result(
            each,
            None if each is control else control,
            level,
            None if each.posterior is None else next(best),
            is_less_better=is_less_better,
        )
        for each in found
    ]


def _result(
    of: Measured,
    control: Measured | None,
    level: float,
    best: float | None,
    *,
    is_less_better: bool,
) -> VariantResult:
    failures = _failures(of, control)
    win = lift = lift_range = significant = None
    if control is not None and of.posterior is not None and control.posterior is not None:
        above = chance_above(of.posterior, control.posterior)
        win = 1 - above if is_less_better else above
        # The credible interval of the difference leaves out zero.
        significant = not (1 - level) / 2 <= above <= (1 + level) / 2
        if of.value is not None and control.value:
            lift = (of.value - control.value) / abs(control.value)
            lift_range = lift_interval(of.posterior, control.posterior, level)
    return VariantResult(
        key=of.key,
        number_of_samples=of.people,
        sum=of.total,
        value=of.value,
        value_interval=None if of.posterior is None else interval(of.posterior, level),
        chance_to_be_best=best,
        chance_to_win=win,
        lift=lift,
        credible_interval=lift_range,
        significant=significant,
        validation_failures=failures,
    )


def _failures(of: Measured, control: Measured | None) -> list[str]:
    found = []
    if not of.people:
        found.append(NO_EXPOSURES)
    elif of.posterior is None:
        found.append(NO_VARIATION)
    if control is not None and control.posterior is None:
        found.append(BASELINE)
    elif control is not None and not control.value:
        found.append(BASELINE_ZERO)
    return found
