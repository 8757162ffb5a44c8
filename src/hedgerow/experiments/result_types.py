"""The results of an experiment as responses contain them, with PostHog's names where it has
them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from hedgerow.errors import AppError
from hedgerow.lib.text import format_path
from hedgerow.queries.model import ExposureTimeline


class ResultsDateRange(msgspec.Struct, frozen=True, kw_only=True):
    date_from: datetime | None
    date_to: datetime | None
    timezone: str


class SampleRatioCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Whether exposures follow the rollout percentages of the flag, by Pearson's chi-square test. A
    mismatch is a `p_value` below 0.001."""

    expected: Mapping[str, float]
    p_value: float
    is_mismatch: bool
    warning: str | None


class Exposures(msgspec.Struct, frozen=True, kw_only=True):
    """Days are in the project's time zone. `$multiple` counts people who saw several variants and
    are excluded. `sample_ratio_mismatch` is null while there are too few exposures."""

    total_exposures: Mapping[str, int]
    timeseries: Sequence[ExposureTimeline]
    sample_ratio_mismatch: SampleRatioCheck | None


class VariantResult(msgspec.Struct, frozen=True, kw_only=True):
    """`value` is the observed conversion rate, mean or ratio, and `value_interval` the interval of
    the true one. The sums with `denominator` belong to ratio metrics, those with `covariate` to
    metrics that are adjusted by history; then `value` is the adjusted mean, and `sum` stays as
    observed.

    The other fields compare with control. They are null for control and where no comparison is
    possible; `validation_failures` says why. Chances and `credible_interval` belong to the Bayesian
    method, `p_value` and `confidence_interval` to the frequentist one.
    """

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
    covariate_sum: float | None = None
    covariate_sum_squares: float | None = None
    main_covariate_sum_product: float | None = None


class CupedSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How a metric was adjusted by what people did before their exposure. A value loses `theta`
    times what its person did more than others. `variance_reduction` is the share of the variance
    that history explains."""

    lookback_days: int
    theta: float
    variance_reduction: float


class ResultProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A document that cannot be parsed or a metric that cannot be measured, as an error response
    would describe it."""

    code: str
    detail: str
    attr: str | None


def build_problem(error: AppError, detail: str) -> ResultProblem:
    attr = error.attr and format_path(error.attr)
    return ResultProblem(code=error.code, detail=detail, attr=attr)


class MetricResult(msgspec.Struct, frozen=True, kw_only=True):
    """`baseline` is control. A metric that cannot be measured has an `error` and no results.
    `cuped` is null if the metric is not adjusted by history."""

    uuid: str | None
    name: str
    metric_type: str
    goal: str
    baseline: VariantResult | None
    variant_results: Sequence[VariantResult]
    error: ResultProblem | None
    cuped: CupedSummary | None = None


class ExperimentResults(msgspec.Struct, frozen=True, kw_only=True):
    """`level` is the probability that a credible interval contains the true value, or the coverage
    of a confidence interval; with `sequential_testing_enabled`, however often one looks. `warnings`
    name stored settings that cannot be parsed; defaults are used instead.
    `last_refresh` is when the results were computed; they are valid until `cache_target_age` unless
    something changes."""

    experiment_id: int
    feature_flag_key: str
    status: str
    method: str
    level: float
    sequential_testing_enabled: bool
    date_range: ResultsDateRange
    last_refresh: datetime
    is_cached: bool = False
    cache_target_age: datetime
    warnings: Sequence[ResultProblem]
    exposures: Exposures
    metrics: Sequence[MetricResult]
    metrics_secondary: Sequence[MetricResult]
