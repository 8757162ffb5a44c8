"""The inputs of an analysis: variants, exposure criteria and statistics settings. Stored settings
that cannot be parsed are replaced by defaults, with a warning.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hedgerow.errors import AppError
from hedgerow.events.query.context import QueryContext, compile_query
from hedgerow.experiments.criteria import (
    BAYESIAN,
    DEFAULT_LEVEL,
    StatsConfig,
    parse_criteria,
    parse_stats,
)
from hedgerow.experiments.model import Experiment
from hedgerow.experiments.queries_sql import ExposureQuery, build_exposure_query
from hedgerow.experiments.result_types import ResultProblem, build_problem
from hedgerow.experiments.variants import CountedFlag, get_counted_flag
from hedgerow.flags.model import Flag
from hedgerow.lib.dates import EARLIEST, LATEST
from hedgerow.lib.text import parse_number

CRITERIA_FALLBACK = (
    "Until you send valid exposure_criteria, $feature_flag_called counts as exposure, and people "
    "who saw several variants are excluded."
)
STATS_FALLBACK = (
    "Until you send a valid stats_config, intervals are Bayesian with a level of "
    f"{DEFAULT_LEVEL:.0%}."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisInputs:
    """The inputs of an analysis. `exposure` is None before the start."""

    flag_key: str
    variants: Sequence[str]
    rollout_percentages: Sequence[float]
    stats: StatsConfig
    exposure: ExposureQuery | None
    warnings: Sequence[ResultProblem]


def build_inputs(
    experiment: Experiment, flag: Flag, context: QueryContext, *, is_strict: bool = False
) -> AnalysisInputs:
    """Build the inputs. With `is_strict`, invalid exposure criteria raise Invalid instead of a
    warning, because the caller sent them."""
    counted = get_counted_flag(experiment, flag)
    warnings: list[ResultProblem] = []
    stats = StatsConfig(method=BAYESIAN, level=DEFAULT_LEVEL)
    try:
        stats = parse_stats(experiment.stats_config)
    except AppError as error:
        warnings.append(_build_warning(error, STATS_FALLBACK))
    exposure = _build_exposure(experiment, counted, context.time.now)
    if exposure is not None and experiment.exposure_criteria:
        try:
            criteria = parse_criteria(experiment.exposure_criteria, counted.key)
            exposure = _check_compiles(replace(exposure, criteria=criteria), context)
        except AppError as error:
            if is_strict:
                raise
            warnings.append(_build_warning(error, CRITERIA_FALLBACK))
    return AnalysisInputs(
        flag_key=counted.key,
        variants=[str(variant.get("key")) for variant in counted.variants],
        rollout_percentages=[
            parse_number(variant.get("rollout_percentage")) or 0.0 for variant in counted.variants
        ],
        stats=stats,
        exposure=exposure,
        warnings=warnings,
    )


def _build_exposure(
    experiment: Experiment, counted: CountedFlag, now: datetime
) -> ExposureQuery | None:
    """Build the exposure query with default criteria."""
    start = experiment.start_date
    end = now if experiment.end_date is None else min(experiment.end_date, now)
    if start is None or start >= end:
        return None
    return ExposureQuery(
        criteria=parse_criteria({}, counted.key),
        flag_key=counted.key,
        variants=[str(variant.get("key")) for variant in counted.variants],
        unit="person_id" if counted.group_type is None else f"$group_{counted.group_type}",
        start=max(start, EARLIEST),
        end=min(end, LATEST),
    )


def _check_compiles(exposure: ExposureQuery, context: QueryContext) -> ExposureQuery:
    """Return the exposure query. Raises Invalid if its filters cannot be compiled, for example
    because a cohort was deleted."""
    compile_query(build_exposure_query(exposure, context), context)
    return exposure


def _build_warning(error: AppError, fallback: str) -> ResultProblem:
    return build_problem(error, f"{error.detail} {fallback}")
