"""A parsed RetentionQuery, and its SQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.events.query.context import QueryContext
from hedgerow.hogql.ast import Compare, Expr, Select
from hedgerow.hogql.builders import all_of, any_of, call, compare, constant, field, negate
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
from hedgerow.insights.filters import build_query_filters, match_cohort
from hedgerow.insights.groups import build_actor, match_actor, parse_group_type
from hedgerow.insights.known_fields import RETENTION_QUERY
from hedgerow.insights.series import (
    Series,
    filter_compiler,
    match_event,
    match_series,
    parse_entity,
)
from hedgerow.persons.model import CohortId
from hedgerow.projects.validation import check_storable
from hedgerow.queries.fields import QueryFields

DEFAULT_INTERVALS = 8
MAX_INTERVALS = 100
# First intervals.
MAX_ROWS = 500
MAX_OCCURRENCES = 1_000
PERIODS = ("Hour", "Day", "Week", "Month")


class RetentionType(StrEnum):
    """Which interval an actor starts in: each with a target event, the one with the first that
    matches the filters of the target, or the one with the first of all, if it matches them."""

    RECURRING = "retention_recurring"
    FIRST_TIME = "retention_first_time"
    FIRST_EVER = "retention_first_ever_occurrence"


# The intervals in which an actor starts. What is before the period is in interval -1.
_FIRST_START = "max(is_start) AND minIf(slot, is_start) >= 0"
_STARTS: Mapping[RetentionType, str] = {
    RetentionType.RECURRING: "groupArrayIf(slot, is_start)",
    RetentionType.FIRST_TIME: f"if({_FIRST_START}, [minIf(slot, is_start)], [])",
    RetentionType.FIRST_EVER: (
        f"if({_FIRST_START} AND tupleElement(argMinIf(head, slot, is_start), 1) = 1, "
        "[minIf(slot, is_start)], [])"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionQuery:
    """People who do `target` in an interval, and do `returning` in later ones. Of each interval,
    `interval_count` count: itself and those that follow."""

    sent: Mapping[str, Any]
    target: Series
    returning: Series
    interval: Interval
    interval_count: int
    type: RetentionType
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
    return RetentionQuery(
        sent=sent,
        target=parse_entity(options, "targetEntity"),
        returning=parse_entity(options, "returningEntity"),
        interval=Interval((options.choice("period", PERIODS) or "Day").lower()),
        interval_count=options.number("totalIntervals", 1, MAX_INTERVALS) or DEFAULT_INTERVALS,
        type=RetentionType(
            options.choice("retentionType", list(RetentionType)) or RetentionType.RECURRING
        ),
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
    query: RetentionQuery,
    context: QueryContext,
    period: DateRange,
    cohort: CohortId | None = None,
    excluded: Sequence[Sequence[str]] = (),
) -> Select:
    """Build rows of value, number of the first interval, number of intervals after it, and number
    of actors. With excluded values, the others are one."""
    is_other: Expr = constant(True)
    if excluded:
        known = constant([list(each) for each in excluded])
        is_other = negate(call("has", known, field("value")))
    return build_select(
        f"""
        SELECT {"['']" if excluded else "value"} AS shown, base, gap, uniqExact(actor) AS actors
        FROM (SELECT actor, value, base, arrayJoin(gaps) AS gap FROM {{actors}} AS actors)
        WHERE {{is_other}}
        GROUP BY shown, base, gap
        """,  # noqa: S608 - ours
        actors=build_retained_actors(query, context, period, cohort),
        is_other=is_other,
    )


def build_retained_actors(
    query: RetentionQuery,
    context: QueryContext,
    period: DateRange,
    cohort: CohortId | None = None,
) -> Select:
    """Build rows of actor, value, base and gaps: in which intervals after the first one, which is
    0, the actor was there."""
    # An actor who comes back later was retained until then.
    gaps = "range(arrayMax(gap_list) + 1)" if query.is_cumulative else "gap_list"
    return build_select(
        f"""
        SELECT actor, value, base, {gaps} AS gaps
        FROM (
            SELECT actor, value, base, arrayMap(slot -> slot - base, returns) AS all_gaps,
                arrayConcat([0], arrayFilter(
                    gap -> gap > 0 AND gap < {query.interval_count}, all_gaps
                )) AS gap_list
            FROM (
                SELECT actor, value, arrayJoin(starts) AS base, returns
                FROM {{histories}} AS histories
            )
        )
        """,  # noqa: S608 - ours
        histories=_build_histories(query, context, period, cohort),
    )


def _build_histories(
    query: RetentionQuery, context: QueryContext, period: DateRange, cohort: CohortId | None
) -> Select:
    """Build rows of actor, value, starts and returns: the intervals with the first event and those
    with the second. An actor has a row for each value of the breakdown, with the events that have
    it, as in PostHog; for the first event of all, one row with the value of that event."""
    compiler = filter_compiler(context)
    target = match_series(query.target, context, compiler)
    returning = match_series(query.returning, context, compiler)
    is_first_ever = query.type is RetentionType.FIRST_EVER
    named = all_of(match_event(query.target, context)) if is_first_ever else target
    within = period.contains(field("timestamp"))
    if query.type is not RetentionType.RECURRING:
        within = compare(field("timestamp"), Compare.LT_EQ, constant(period.end))
    value = parse_expr("['']")
    if query.breakdown is not None and query.breakdown.properties:
        value = query.breakdown.build_value()
    parts = {
        "actor": build_actor(query.group_type_index),
        "slot": call("greatest", period.number_interval(field("timestamp")), constant(-1)),
        "value": value,
        "named": named,
        "target": target,
        "returning": returning,
        "where": all_of(
            [
                within,
                any_of([named, returning]),
                build_query_filters(query.sent, context),
                match_cohort(cohort, context),
                match_actor(query.group_type_index),
            ]
        ),
    }
    # The first event of each interval: whether it counts, and its value.
    shown = "tupleElement(argMinIf(head, slot, is_start), 2)" if is_first_ever else "value"
    group = "actor" if is_first_ever else "actor, value"
    return build_select(
        f"""
        SELECT actor, {shown} AS value, {_STARTS[query.type]} AS starts,
            groupArrayIf(slot, returns >= {query.min_occurrences} AND slot >= 0) AS returns
        FROM (
            SELECT {group}, slot, max(is_named) AS is_start,
                argMinIf(tuple(matches_target, value), tuple(at, 1 - matches_target), is_named)
                    AS head,
                countIf(matches_returning) AS returns
            FROM (
                SELECT {{actor}} AS actor, {{slot}} AS slot, {{value}} AS value, timestamp AS at,
                    if({{named}}, 1, 0) AS is_named, if({{target}}, 1, 0) AS matches_target,
                    if({{returning}}, 1, 0) AS matches_returning
                FROM events WHERE {{where}}
            )
            GROUP BY {group}, slot
        )
        GROUP BY {group}
        HAVING notEmpty(starts)
        """,  # noqa: S608 - ours
        **parts,
    )
