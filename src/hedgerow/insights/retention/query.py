"""A parsed RetentionQuery, and its SQL."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.events.query.context import QueryContext
from hedgerow.hogql.ast import Compare, Select
from hedgerow.hogql.builders import all_of, any_of, call, compare, constant, field
from hedgerow.hogql.parser.parse import parse_expr
from hedgerow.hogql.templates import build_select
from hedgerow.insights.breakdowns import Breakdown, parse_breakdown
from hedgerow.insights.date_range import (
    TICK,
    DateRange,
    Interval,
    parse_date_range,
    parse_range_end,
)
from hedgerow.insights.filters import build_query_filters
from hedgerow.insights.groups import build_actor, match_actor, parse_group_type
from hedgerow.insights.known_fields import RETENTION_QUERY
from hedgerow.insights.series import Series, filter_compiler, match_series, parse_entity
from hedgerow.projects.validation import check_storable
from hedgerow.queries.fields import QueryFields

DEFAULT_INTERVALS = 8
MAX_INTERVALS = 100
# First intervals.
MAX_ROWS = 500
MAX_OCCURRENCES = 1_000
FIRST_TIME = "retention_first_time"
TYPES = ("retention_recurring", FIRST_TIME)
PERIODS = ("Hour", "Day", "Week", "Month")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionQuery:
    """People who do `target` in an interval, and do `returning` in later ones. Of each interval,
    `interval_count` count: itself and those that follow."""

    sent: Mapping[str, Any]
    target: Series
    returning: Series
    interval: Interval
    interval_count: int
    is_first_time: bool
    is_cumulative: bool
    min_occurrences: int
    breakdown: Breakdown | None
    group_type_index: int | None

    @property
    def date_range(self) -> Mapping[str, Any]:
        return self.sent.get("dateRange") or {}


def parse_retention_query(sent: Mapping[str, Any]) -> RetentionQuery:
    fields = QueryFields(sent)
    fields.check_known(RETENTION_QUERY)
    check_storable(sent, "query")
    options = QueryFields(fields.mapping("retentionFilter"), fields.attr("retentionFilter"))
    fields.mapping("dateRange")
    fields.boolean("filterTestAccounts")
    breakdown = parse_breakdown(fields.mapping("breakdownFilter"), fields.attr("breakdownFilter"))
    if breakdown is not None and breakdown.cohorts:
        detail = "Retention has no breakdown by cohorts. Use a filter by cohort."
        raise Invalid(detail, attr=fields.attr("breakdownFilter"))
    return RetentionQuery(
        sent=sent,
        target=parse_entity(options, "targetEntity"),
        returning=parse_entity(options, "returningEntity"),
        interval=Interval((options.choice("period", PERIODS) or "Day").lower()),
        interval_count=options.number("totalIntervals", 1, MAX_INTERVALS) or DEFAULT_INTERVALS,
        is_first_time=options.choice("retentionType", TYPES) == FIRST_TIME,
        is_cumulative=options.boolean("cumulative"),
        min_occurrences=options.number("minimumOccurrences", 1, MAX_OCCURRENCES) or 1,
        breakdown=breakdown,
        group_type_index=parse_group_type(fields),
    )


def plan_period(query: RetentionQuery, time: QueryTime, earliest: datetime | None) -> DateRange:
    """Return the intervals from the one with `date_from` to the one with `date_to`, both complete.
    As in PostHog, their number is `totalIntervals` if the query has no `date_from`."""
    sent = query.date_range
    end = parse_range_end(sent, query.interval, time)
    last = query.interval.start_of(end, time.week_start)
    first = query.interval.add_to(last, 1 - query.interval_count)
    if sent.get("date_from"):
        found = parse_date_range(sent, query.interval, time, earliest)
        first = query.interval.start_of(found.start, time.week_start)
    period = DateRange(
        start=first,
        end=query.interval.add_to(last, 1) - TICK,
        interval=query.interval,
        week_start=time.week_start,
    )
    if len(period.interval_starts) > MAX_ROWS:
        detail = f"The range has more than {MAX_ROWS} intervals of one {query.interval}."
        raise Invalid(detail, attr="query__dateRange__date_from", code="query_limit_exceeded")
    return period


def build_retention_query(
    query: RetentionQuery, context: QueryContext, period: DateRange
) -> Select:
    """Build rows of value, number of the first interval, number of intervals after it, and number
    of actors."""
    return build_select(
        """
        SELECT value, base, gap, count() AS actors
        FROM (SELECT actor, value, base, arrayJoin(gaps) AS gap FROM {actors} AS actors)
        GROUP BY value, base, gap
        """,
        actors=build_retained_actors(query, context, period),
    )


def build_retained_actors(
    query: RetentionQuery, context: QueryContext, period: DateRange
) -> Select:
    """Build rows of actor, value, base and gaps: in which intervals after the first one, which is
    0, the actor was there."""
    # An actor who comes back later was retained until then.
    gaps = "range(arrayMax(gap_list) + 1)" if query.is_cumulative else "gap_list"
    return build_select(
        f"""
        SELECT actor, value, base, {gaps} AS gaps
        FROM (
            SELECT actor, tupleElement(start, 1) AS base, tupleElement(start, 2) AS value,
                arrayMap(slot -> slot - base, returns) AS all_gaps,
                arrayConcat([0], arrayFilter(
                    gap -> gap > 0 AND gap < {query.interval_count}, all_gaps
                )) AS gap_list
            FROM (SELECT actor, arrayJoin(starts) AS start, returns FROM {{histories}} AS histories)
        )
        """,  # noqa: S608 - ours
        histories=_build_histories(query, context, period),
    )


def _build_histories(query: RetentionQuery, context: QueryContext, period: DateRange) -> Select:
    """Build rows of actor, starts and returns: the intervals with the first event, each with the
    value of the breakdown, and the intervals with the second event."""
    compiler = filter_compiler(context)
    target = match_series(query.target, context, compiler)
    returning = match_series(query.returning, context, compiler)
    within = period.contains(field("timestamp"))
    starts = "groupArrayIf(tuple(slot, value), is_start)"
    if query.is_first_time:
        # The first event of all, if it is in the period. Without one, minIf returns 0.
        first = "[argMinIf(tuple(slot, value), at, is_start)]"
        starts = f"if(max(is_start) AND minIf(slot, is_start) >= 0, {first}, [])"
        within = compare(field("timestamp"), Compare.LT_EQ, constant(period.end))
    parts = {
        "actor": build_actor(query.group_type_index),
        "slot": call("greatest", period.number_interval(field("timestamp")), constant(-1)),
        "value": query.breakdown.build_value() if query.breakdown else parse_expr("['']"),
        "target": target,
        "returning": returning,
        "where": all_of(
            [
                within,
                any_of([target, returning]),
                build_query_filters(query.sent, context),
                match_actor(query.group_type_index),
            ]
        ),
    }
    return build_select(
        f"""
        SELECT actor, {starts} AS starts,
            groupArrayIf(slot, returns >= {query.min_occurrences} AND slot >= 0) AS returns
        FROM (
            SELECT actor, slot, min(at_time) AS at,
                argMinIf(value, at_time, matches_target) AS value, max(matches_target) AS is_start,
                countIf(matches_returning) AS returns
            FROM (
                SELECT {{actor}} AS actor, {{slot}} AS slot, {{value}} AS value,
                    timestamp AS at_time, if({{target}}, 1, 0) AS matches_target,
                    if({{returning}}, 1, 0) AS matches_returning
                FROM events WHERE {{where}}
            )
            GROUP BY actor, slot
        )
        GROUP BY actor
        HAVING notEmpty(starts)
        """,  # noqa: S608 - ours
        **parts,
    )
