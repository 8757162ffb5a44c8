"""Comparison of variants by one metric. Pure. It returns null with a reason, never NaN."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hedgerow.experiments.criteria import FREQUENTIST, StatsConfig
from hedgerow.experiments.frequentist import (
    DifferenceTest,
    build_difference_test,
    confidence_interval,
)
from hedgerow.experiments.result_types import VariantResult
from hedgerow.experiments.sequential import (
    MIN_PERSONS,
    GroupSums,
    build_sequential_test,
    find_threshold,
)
from hedgerow.experiments.statistics import (
    MeanPosterior,
    Posterior,
    RatePosterior,
    build_mean_posterior,
    chance_above,
    chances_to_be_best,
    credible_interval,
    lift_interval,
)

NO_EXPOSURES = "no-exposures"
NO_VARIATION = "no-variation"
VALUES_TOO_LARGE = "values-too-large"
DENOMINATOR_ZERO = "denominator-is-zero"
BASELINE_NOT_COMPARABLE = "baseline-not-comparable"
BASELINE_ZERO = "baseline-mean-is-zero"
BASELINE_NEAR_ZERO = "baseline-mean-may-be-zero"
TOO_FEW_CONVERSIONS = "too-few-conversions"
TOO_FEW_EXPOSURES = "too-few-exposures"
# A difference of variances below this part of them is a rounding error.
ROUNDING_TOLERANCE = 1e-12
# The minimum effective number of people who contribute to the denominator. Revenue per order, for
# example, is known only from people who ordered.
MIN_EFFECTIVE_SAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSums:
    """The `total` and the population `variance` of the values of all people."""

    total: float
    variance: float

    def squares(self, people: int) -> float:
        return self.variance * people + self.total * self.total / people if people else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueHistory:
    """What the people of a variant did before their exposure, and its `covariance` with their
    values. Variances and covariance are those of the population."""

    sums: MetricSums
    covariance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantMeasurement:
    """The measurement of a variant. `posterior` is None if nothing can be concluded. `total` and
    `squares`, the sum of squares, are None if they overflow. `value` is the rate, mean or ratio. A
    ratio also has the sums of its denominator and the sum of products. `observed` are the sums
    before the values were adjusted by `history`."""

    key: str
    people: int
    total: float | None
    squares: float | None
    value: float | None
    posterior: Posterior | None
    denominator: float | None = None
    denominator_squares: float | None = None
    products: float | None = None
    history: ValueHistory | None = None
    observed: MetricSums | None = None

    @property
    def has_too_few_samples(self) -> bool:
        """Whether too few people contribute to the denominator."""
        if self.denominator is None or self.denominator_squares is None:
            return False
        return (
            _effective_sample_size(self.denominator, self.denominator_squares)
            < MIN_EFFECTIVE_SAMPLES
        )

    @property
    def group_sums(self) -> GroupSums | None:
        """The sums for a sequential test, None if they overflow."""
        denominator: float = self.people
        squares: float | None = self.people
        products = self.total
        if self.denominator is not None:
            denominator, squares = self.denominator, self.denominator_squares
            products = self.products
        if self.total is None or self.squares is None or squares is None or products is None:
            return None
        return GroupSums(
            persons=self.people,
            numerator=self.total,
            denominator=denominator,
            numerator_squares=self.squares,
            denominator_squares=squares,
            products=products,
            # For conversions, this is their number.
            positive=round(_effective_sample_size(self.total, self.squares)),
        )

    @property
    def is_too_large(self) -> bool:
        return self.total is None or (
            self.denominator is not None and self.denominator_squares is None
        )

    @classmethod
    def from_funnel(cls, key: str, people: int, converted: int) -> "VariantMeasurement":
        return cls(
            key=key,
            people=people,
            total=float(converted),
            squares=float(converted),
            value=converted / people if people else None,
            posterior=RatePosterior(converted, people) if people else None,
        )

    @classmethod
    def from_mean(
        cls, key: str, people: int, total: float, variance: float
    ) -> "VariantMeasurement":
        """`variance` is the population variance of the values."""
        if not math.isfinite(total) or (people and not math.isfinite(variance)):
            return cls.too_large(key, people)
        posterior = None
        if people > 1:
            posterior = build_mean_posterior(
                total / people, variance * people / (people - 1), people
            )
        return cls(
            key=key,
            people=people,
            total=total,
            squares=_finite(MetricSums(total=total, variance=variance).squares(people)),
            value=total / people if people else None,
            posterior=posterior,
        )

    @classmethod
    def from_ratio(
        cls,
        key: str,
        people: int,
        numerator: MetricSums,
        denominator: MetricSums,
        covariance: float,
    ) -> "VariantMeasurement":
        """Estimate the variance by the delta method: that of `numerator - ratio * denominator`,
        divided by the squared mean of the denominator."""
        numbers = (
            numerator.total,
            numerator.variance,
            denominator.total,
            denominator.variance,
            covariance,
        )
        if people and not all(math.isfinite(each) for each in numbers):
            return cls.too_large(key, people)
        ratio = _finite(numerator.total / denominator.total) if denominator.total else None
        posterior = None
        mean = denominator.total / people if people else 0.0
        if ratio is not None and people > 1 and mean:
            left = (
                numerator.variance + ratio * ratio * denominator.variance - 2 * ratio * covariance
            )
            variance = left * people / (people - 1) / mean / mean
            # The remainder of equal numbers is a rounding error.
            effective_samples = _effective_sample_size(
                denominator.total, denominator.squares(people)
            )
            has_variance = left > ROUNDING_TOLERANCE * (
                numerator.variance + ratio * ratio * denominator.variance
            )
            if has_variance and effective_samples >= MIN_EFFECTIVE_SAMPLES:
                posterior = build_mean_posterior(ratio, variance, people)
            if posterior is not None:
                posterior = replace(posterior, freedom=min(people, round(effective_samples)) - 1)
        products = (
            covariance * people + numerator.total * denominator.total / people if people else 0.0
        )
        return cls(
            key=key,
            people=people,
            total=numerator.total,
            squares=_finite(numerator.squares(people)),
            value=ratio,
            posterior=posterior,
            denominator=denominator.total,
            denominator_squares=_finite(denominator.squares(people)),
            products=_finite(products),
        )

    @classmethod
    def too_large(cls, key: str, people: int) -> "VariantMeasurement":
        return cls(key=key, people=people, total=None, squares=None, value=None, posterior=None)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _effective_sample_size(total: float, squares: float) -> float:
    """Return Kish's effective sample size."""
    return total * total / squares if squares else 0.0


def compare_variants(
    found: Sequence[VariantMeasurement], stats: StatsConfig, *, is_lower_better: bool
) -> list[VariantResult]:
    """Compare each variant with the first, which is control."""
    control = found[0] if found else None
    pairs = [(each, None if each is control else control) for each in found]
    if stats.is_sequential:
        return [_compare_sequential(each, other, stats.level) for each, other in pairs]
    if stats.method == FREQUENTIST:
        return [_compare_frequentist(each, other, stats.level) for each, other in pairs]
    best = _estimate_best(found, is_lower_better=is_lower_better)
    return [
        _compare_bayesian(
            each, other, stats.level, best.get(each.key), is_lower_better=is_lower_better
        )
        for each, other in pairs
    ]


def _compare_frequentist(
    of: VariantMeasurement, control: VariantMeasurement | None, level: float
) -> VariantResult:
    lift = lift_range = test = None
    failures = _find_failures(of, control, level)
    if control is not None and of.posterior is not None and control.posterior is not None:
        test = build_difference_test(of.posterior, control.posterior)
        if test is None:
            is_rate = isinstance(of.posterior, RatePosterior)
            failures.append(TOO_FEW_CONVERSIONS if is_rate else VALUES_TOO_LARGE)
        elif not failures and of.value is not None and control.value:
            lift = _finite(_observed_lift(of.value, control.value))
            lift_range = None if lift is None else test.lift_interval(level)
            if lift_range is None:
                lift = None
                failures.append(BASELINE_NEAR_ZERO)
    chance = None if test is None else test.p_value
    return _build_result(
        of,
        failures,
        value_interval=None if of.posterior is None else confidence_interval(of.posterior, level),
        lift=lift,
        p_value=chance,
        confidence_interval=lift_range,
        significant=None if chance is None else chance < 1 - level,
    )


def _compare_sequential(
    of: VariantMeasurement, control: VariantMeasurement | None, level: float
) -> VariantResult:
    """Compare with intervals that hold at all times together."""
    alpha = 1 - level
    failures = _find_failures(of, control, level)
    lift = lift_range = chance = None
    if control is not None and of.posterior is not None and control.posterior is not None:
        pair = _build_sequential(of, control, alpha)
        if pair is None:
            is_small = min(of.people, control.people) < MIN_PERSONS
            failures.append(TOO_FEW_EXPOSURES if is_small else TOO_FEW_CONVERSIONS)
        else:
            chance, found = pair
            if not failures and of.value is not None and control.value:
                lift = None if found is None else _finite(_observed_lift(of.value, control.value))
                lift_range = None if lift is None else found
                failures += [BASELINE_NEAR_ZERO] if lift is None else []
    return _build_result(
        of,
        failures,
        value_interval=_find_sequential_interval(of, alpha),
        lift=lift,
        p_value=chance,
        confidence_interval=lift_range,
        significant=None if chance is None else chance <= alpha,
    )


def _build_sequential(
    of: VariantMeasurement, control: VariantMeasurement, alpha: float
) -> tuple[float, tuple[float, float] | None] | None:
    """Return the two-sided p-value and the interval of the lift, None if there is no test."""
    sums, base = of.group_sums, control.group_sums
    test = None if sums is None or base is None else build_sequential_test(sums, base)
    if test is None or sums is None or base is None:
        return None
    one, other = sums.person_variance / of.people, base.person_variance / control.people
    share = one / (one + other) if one + other > 0 else 0.5
    difference = DifferenceTest(
        mean=test.treated,
        variance=test.error**2 * share,
        control=test.control,
        control_variance=test.error**2 * (1 - share),
        freedom=math.inf,
    )
    chance = 2 * min(test.p_value(is_increase=each) for each in (True, False))
    interval = difference.find_lift_interval(find_threshold(test.size, alpha / 2))
    return min(chance, 1.0), interval


def _find_sequential_interval(of: VariantMeasurement, alpha: float) -> tuple[float, float] | None:
    sums = of.group_sums
    if sums is None or of.value is None or of.posterior is None:
        return None
    error = math.sqrt(max(sums.person_variance, 0.0) / of.people)
    margin = find_threshold(of.people, alpha / 2) * error
    low, high = of.value - margin, of.value + margin
    return (
        (max(low, 0.0), min(high, 1.0)) if isinstance(of.posterior, RatePosterior) else (low, high)
    )


def _estimate_best(
    found: Sequence[VariantMeasurement], *, is_lower_better: bool
) -> dict[str, float]:
    """Estimate for each exposed variant the chance to be the best. Empty if one of them has no
    posterior."""
    seen = [each for each in found if each.people]
    known = [each.posterior for each in seen if each.posterior is not None]
    if len(known) < 2 or len(known) < len(seen):
        return {}
    chances = chances_to_be_best(known, is_lower_better=is_lower_better)
    return {each.key: chance for each, chance in zip(seen, chances, strict=True)}


def _compare_bayesian(
    of: VariantMeasurement,
    control: VariantMeasurement | None,
    level: float,
    best: float | None,
    *,
    is_lower_better: bool,
) -> VariantResult:
    win = lift = lift_range = significant = None
    failures = _find_failures(of, control, level)
    if control is not None and of.posterior is not None and control.posterior is not None:
        numerator = chance_above(of.posterior, control.posterior)
        win = 1 - numerator if is_lower_better else numerator
        # The credible interval of the difference excludes zero.
        significant = not (1 - level) / 2 <= numerator <= (1 + level) / 2
        if not failures:
            lift, lift_range = _estimate_lift(of, control, level)
            failures += [BASELINE_NEAR_ZERO] if lift is None else []
    return _build_result(
        of,
        failures,
        value_interval=None if of.posterior is None else credible_interval(of.posterior, level),
        chance_to_be_best=best,
        chance_to_win=win,
        lift=lift,
        credible_interval=lift_range,
        significant=significant,
    )


def _build_result(of: VariantMeasurement, failures: Sequence[str], **found: Any) -> VariantResult:
    """Combine a measurement with the fields of a comparison. Missing fields are null."""
    nothing = dict.fromkeys(_COMPARISON_FIELDS)
    seen = of.observed
    return VariantResult(
        key=of.key,
        number_of_samples=of.people,
        sum=of.total if seen is None else seen.total,
        sum_squares=of.squares if seen is None else seen.squares(of.people),
        denominator_sum=of.denominator,
        denominator_sum_squares=of.denominator_squares,
        numerator_denominator_sum_product=of.products,
        value=of.value,
        validation_failures=failures,
        **_list_covariates(of),
        **(nothing | found),
    )


def _list_covariates(of: VariantMeasurement) -> dict[str, Any]:
    history, seen = of.history, of.observed
    if history is None or seen is None:
        return {}
    products = history.covariance * of.people + seen.total * history.sums.total / of.people
    return {
        "covariate_sum": history.sums.total,
        "covariate_sum_squares": _finite(history.sums.squares(of.people)),
        "main_covariate_sum_product": _finite(products),
    }


_COMPARISON_FIELDS = (
    *("value_interval", "chance_to_be_best", "chance_to_win", "lift", "credible_interval"),
    *("p_value", "confidence_interval", "significant"),
)


def _observed_lift(value: float, control: float) -> float:
    return (value - control) / abs(control)


def _estimate_lift(
    of: VariantMeasurement, control: VariantMeasurement, level: float
) -> tuple[float, tuple[float, float]] | tuple[None, None]:
    """Return the observed lift and the interval of the true one; both or none."""
    if of.posterior is None or control.posterior is None or of.value is None or not control.value:
        return None, None
    seen = _observed_lift(of.value, control.value)
    found = lift_interval(of.posterior, control.posterior, level)
    return (None, None) if found is None or not math.isfinite(seen) else (seen, found)


def _find_failures(
    of: VariantMeasurement, control: VariantMeasurement | None, level: float
) -> list[str]:
    found = []
    if not of.people:
        found.append(NO_EXPOSURES)
    elif of.is_too_large:
        found.append(VALUES_TOO_LARGE)
    elif of.denominator == 0:
        found.append(DENOMINATOR_ZERO)
    elif of.posterior is None:
        found.append(TOO_FEW_CONVERSIONS if of.has_too_few_samples else NO_VARIATION)
    if control is None:
        return found
    if control.posterior is None:
        found.append(BASELINE_NOT_COMPARABLE)
    elif not control.value:
        found.append(BASELINE_ZERO)
    elif _may_be_zero(control.posterior, level):
        found.append(BASELINE_NEAR_ZERO)
    return found


def _may_be_zero(control: Posterior, level: float) -> bool:
    """Return whether the interval of control includes zero, so that the lift is undefined. A rate
    always has a lift."""
    if not isinstance(control, MeanPosterior):
        return False
    low, high = credible_interval(control, level)
    return low <= 0 <= high
