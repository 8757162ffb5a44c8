"""The query of a check: one series or formula of the insight, over the intervals that count."""

from collections.abc import Mapping
from typing import Any

from hedgerow.alerts.model import AlertCondition, AlertConfig, ConditionType
from hedgerow.charts.from_results import unwrap_query
from hedgerow.errors import Invalid
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.insights.date_range import Interval
from hedgerow.insights.trends.query import TrendsQuery, parse_trends_query

# The last complete interval, the one before it, and the one that is not over.
RELATIVE_INTERVALS = 3
ABSOLUTE_INTERVALS = 2


def parse_insight(query: Mapping[str, Any]) -> TrendsQuery:
    """Return the trend that an insight computes. Raises Invalid for other kinds."""
    source = unwrap_query(query)
    if source.get("kind") != "TrendsQuery":
        kind = str(source.get("kind") or "this kind")[:100]
        detail = f"Alerts need an insight with a TrendsQuery, not {kind}."
        raise Invalid(detail, attr="insight", code="not_supported")
    return parse_trends_query(source)


def check_insight(query: Mapping[str, Any], condition: AlertCondition, config: AlertConfig) -> None:
    """Raise Invalid if an alert cannot be checked on this insight."""
    trend = parse_insight(query)
    if trend.is_total and condition.type is not ConditionType.ABSOLUTE:
        detail = (
            f"The insight shows one number for the whole period, which has no interval before it. "
            f"Use the condition `{ConditionType.ABSOLUTE}`."
        )
        raise Invalid(detail, attr="condition__type")
    count = len(trend.formulas) or len(trend.series)
    if config.series_index >= count:
        what = "formulas" if trend.formulas else "series"
        detail = f"The insight has {count} {what}, counted from 0."
        raise Invalid(detail, attr="config__series_index")


def build_check_query(
    trend: TrendsQuery,
    condition: AlertCondition,
    config: AlertConfig,
    time: QueryTime,
) -> dict[str, Any]:
    """Return the insight's query with the chosen series or formula only. The date range begins as
    many intervals ago as the condition needs; a total or a cumulative trend keeps its own."""
    query = dict(trend.sent)
    query.pop("compareFilter", None)
    options = dict(query.get("trendsFilter") or {})
    if trend.formulas:
        options |= _choose_formula(trend, config.series_index)
    else:
        query["series"] = [query["series"][config.series_index]]
    query["trendsFilter"] = options
    if not trend.is_total and not trend.is_cumulative:
        count = count_intervals(condition) + trend.smoothing
        query["dateRange"] = {"date_from": _format_start(trend.interval, count, time)}
    return query


def count_intervals(condition: AlertCondition) -> int:
    """Return how many intervals a check reads, with the one that is not over."""
    match condition.type:
        case ConditionType.ABSOLUTE:
            return ABSOLUTE_INTERVALS
        case ConditionType.ANOMALY:
            return condition.window + ABSOLUTE_INTERVALS
    return RELATIVE_INTERVALS


def _choose_formula(trend: TrendsQuery, index: int) -> dict[str, Any]:
    chosen = trend.formulas[index]
    node = {"formula": chosen.text, **({"custom_name": chosen.name} if chosen.name else {})}
    return {"formula": None, "formulas": None, "formulaNodes": [node]}


def _format_start(interval: Interval, count: int, time: QueryTime) -> str:
    """Return the local start of the interval `count` - 1 before the current one."""
    now = time.now.astimezone(time.zone)
    start = interval.add_to(interval.start_of(now, time.week_start), 1 - count)
    return start.isoformat() if interval.has_time_of_day else start.date().isoformat()
