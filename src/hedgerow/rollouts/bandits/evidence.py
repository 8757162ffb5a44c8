"""The evidence of a bandit: one query for the people of each variant and what they did, as
experiments count them.

Only people whose conversion window is over count, with what they did in it. Otherwise a variant
that has just got more people would look worse: the newest have had no time to convert. Someone who
has seen several variants counts for the first of them, unless the criteria exclude such people.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.query.context import QueryContext, compile_query
from hedgerow.experiments.analysis import VariantMeasurement
from hedgerow.experiments.criteria import ExposureCriteria, parse_criteria
from hedgerow.experiments.metrics import MEAN, Metric, parse_metric
from hedgerow.experiments.queries_sql import ExposureQuery, build_metric_query
from hedgerow.experiments.results import build_measurement
from hedgerow.experiments.variants import get_group_type
from hedgerow.flags.model import Flag
from hedgerow.flags.validate import variant_keys
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.printer.statement import PrintedQuery
from hedgerow.lib.dates import EARLIEST, LATEST
from hedgerow.rollouts.bandits.model import DEFAULT_WINDOW, Bandit

HANDLING = "multiple_variant_handling"


def parse_goal(document: Any) -> Metric:
    """Return the metric of a bandit. Without a window of its own, it has the default one."""
    metric = parse_metric(document, "metric")
    if metric.type == MEAN:
        detail = "A bandit needs a conversion or a ratio. Expected one of: funnel, ratio."
        raise Invalid(detail, attr="metric.metric_type", code="invalid_choice")
    return replace(metric, conversion_window=metric.conversion_window or DEFAULT_WINDOW)


def parse_exposure(document: Mapping[str, Any], flag_key: str) -> ExposureCriteria:
    criteria = parse_criteria(document, flag_key)
    # To leave out who has moved to another variant is to leave out those who came back.
    if document.get(HANDLING) is None:
        return replace(criteria, is_first_variant_kept=True)
    return criteria


def find_ripe_time(bandit: Bandit, now: datetime) -> datetime:
    """Return when the youngest people who count were exposed."""
    return now - (parse_goal(bandit.metric).conversion_window or timedelta())


def compile_evidence(
    bandit: Bandit, flag: Flag, since: datetime, context: QueryContext
) -> PrintedQuery:
    """Return the query for the sums of all variants. Raises Invalid if it cannot be built, for
    example because a cohort was deleted."""
    metric, index = parse_goal(bandit.metric), get_group_type(flag)
    exposure = ExposureQuery(
        criteria=parse_exposure(bandit.exposure_criteria, flag.key),
        flag_key=flag.key,
        variants=variant_keys(flag.filters),
        unit="person_id" if index is None else f"$group_{index}",
        start=max(since, EARLIEST),
        end=min(find_ripe_time(bandit, context.time.now), LATEST),
    )
    try:
        return compile_query(build_metric_query(metric, exposure, context), context)
    except HogQLError as error:
        raise Invalid(error.detail, attr="metric", code=error.code) from None


def read_measurements(
    bandit: Bandit, flag: Flag, rows: Sequence[Sequence[Any]]
) -> list[VariantMeasurement]:
    metric = parse_goal(bandit.metric)
    by_number = {row[0]: row[1:] for row in rows}
    return [
        build_measurement(metric, key, by_number.get(number))
        for number, key in enumerate(variant_keys(flag.filters), 1)
    ]
