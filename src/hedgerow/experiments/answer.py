"""Results as they are told, in PostHog's words where it has some."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from hedgerow.queries.model import Timeline


class Period(msgspec.Struct, frozen=True, kw_only=True):
    date_from: datetime | None
    date_to: datetime | None
    timezone: str


class SampleRatio(msgspec.Struct, frozen=True, kw_only=True):
    """Whether people are spread as the flag's percentages say: Pearson's chi-square test. A
    mismatch is a `p_value` below 0.001."""

    expected: Mapping[str, float]
    p_value: float
    is_mismatch: bool
    warning: str | None


class Exposures(msgspec.Struct, frozen=True, kw_only=True):
    """Days are those of the project's time zone. `$multiple` are people who saw several variants
    and are left out. There is no `sample_ratio_mismatch` before enough people were seen to tell."""

    total_exposures: Mapping[str, int]
    timeseries: Sequence[Timeline]
    sample_ratio_mismatch: SampleRatio | None


class VariantResult(msgspec.Struct, frozen=True, kw_only=True):
    """`value` is the conversion rate, the mean or the ratio that was seen, `value_interval` where
    the true one is; the sums with `denominator` are of a ratio. What follows compares with control,
    and is null for control itself and where nothing can be said; then `validation_failures` tells
    why. Chances and `credible_interval` are of the Bayesian method, `p_value` and
    `confidence_interval` of the frequentist one."""

    key: str
    number_of_samples: int
    sum: float | None
    sum_squares: float | None
    denominator_sum: float | None
    denominator_sum_squares: float | None
    numerator_denominator_sum_product: float | None
    value: float | None
    value_interval: tuple[float, float] | None
    chance_to_be_best: float | None
    chance_to_win: float | None
    lift: float | None
    credible_interval: tuple[float, float] | None
    p_value: float | None
    confidence_interval: tuple[float, float] | None
    significant: bool | None
    validation_failures: Sequence[str]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What cannot be read or measured, as an error says it."""

    code: str
    detail: str
    attr: str | None


class MetricResult(msgspec.Struct, frozen=True, kw_only=True):
    """`baseline` is control. A metric that cannot be measured has an `error` and nothing else."""

    uuid: str | None
    name: str
    metric_type: str
    goal: str
    baseline: VariantResult | None
    variant_results: Sequence[VariantResult]
    error: Problem | None


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """`level` is how probable it is that a credible interval holds the truth, or how often a
    confidence interval does. `warnings` name the
    stored settings that cannot be read: defaults hold in their place. `last_refresh` is when it was
    counted; it is good until `cache_target_age` if nothing changes."""

    experiment_id: int
    feature_flag_key: str
    status: str
    method: str
    level: float
    date_range: Period
    last_refresh: datetime
    is_cached: bool = False
    cache_target_age: datetime
    warnings: Sequence[Problem]
    exposures: Exposures
    metrics: Sequence[MetricResult]
    metrics_secondary: Sequence[MetricResult]
