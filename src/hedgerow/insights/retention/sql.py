"""The SQL of a retention.

The events of an actor become its starts and its returns, each in a numbered interval. A start and
its returns become points: the column of the result, and an amount if the query adds up a property.

With calendar intervals, each interval with a target event is a start. With windows, the first
target event is the only one, and the windows begin with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hedgerow.events.query.context import QueryContext
from hedgerow.hogql.ast import Compare, Expr, Select
from hedgerow.hogql.builders import all_of, any_of, call, compare, constant, field, negate
from hedgerow.hogql.parser.parse import parse_expr
from hedgerow.hogql.templates import build_select
from hedgerow.insights.date_range import DateRange, Interval
from hedgerow.insights.filters import build_query_filters, match_cohort
from hedgerow.insights.groups import build_actor, match_actor
from hedgerow.insights.retention.query import RetentionQuery, RetentionType
from hedgerow.insights.series import filter_compiler, match_event, match_series
from hedgerow.persons.model import CohortId

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
# The window that a period is counted in, as in PostHog: days are 24 hours from the hour of the
# start, weeks and months are 7 and 30 days from its day.
_WINDOWS: Mapping[Interval, tuple[Interval, int]] = {
    Interval.HOUR: (Interval.HOUR, 1),
    Interval.DAY: (Interval.HOUR, 24),
    Interval.WEEK: (Interval.DAY, 7),
    Interval.MONTH: (Interval.DAY, 30),
}


def build_retention_query(
    query: RetentionQuery,
    context: QueryContext,
    period: DateRange,
    cohort: CohortId | None = None,
    excluded: Sequence[Sequence[str]] = (),
) -> Select:
    """Build rows of value, number of the first interval, column, number of actors and sum of their
    amounts. With excluded values, the others are one."""
    is_other: Expr = constant(True)
    if excluded:
        known = constant([list(each) for each in excluded])
        is_other = negate(call("has", known, field("value")))
    return build_select(
        f"""
        SELECT {"['']" if excluded else "value"} AS shown, base, tupleElement(point, 1) AS gap,
            uniqExact(actor) AS actors, sum(tupleElement(point, 2)) AS amount
        FROM (SELECT actor, value, base, arrayJoin(points) AS point FROM {{actors}} AS actors)
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
    """Build rows of actor, value, base and points: in which columns after the first one, which is
    0, the actor was there, with what amount. A column may have several points."""
    points = "in_columns"
    if query.is_cumulative:
        # An actor who comes back later was retained until then.
        last = "arrayMax(arrayMap(point -> tupleElement(point, 1), in_columns))"
        points = f"arrayMap(number -> tuple(number, 0.0), range({last} + 1))"
    build_gaps = _build_window_gaps if query.has_windows else _build_calendar_gaps
    return build_select(
        f"""
        SELECT actor, value, base, {points} AS points
        FROM (
            SELECT actor, value, base, arrayConcat([tuple(0, 0.0)], arrayFilter(
                point -> tupleElement(point, 1) >= 0, arrayMap(
                    gap -> tuple({_choose_column(query, "tupleElement(gap, 1)")},
                        tupleElement(gap, 2)),
                    gaps
                )
            )) AS in_columns
            FROM {{gaps}} AS gaps
        )
        """,  # noqa: S608 - ours
        gaps=build_gaps(query, context, period, cohort),
    )


def _choose_column(query: RetentionQuery, gap: str) -> str:
    """Build the column of a number of intervals after the first, or -1."""
    if not query.brackets:
        return f"if({gap} >= 0 AND {gap} < {query.interval_count}, toInt({gap}), -1)"
    last, parts = 0, [f"{gap} < 0, -1, {gap} = 0, 0"]
    for number, size in enumerate(query.brackets, 1):
        last += size
        parts.append(f"{gap} <= {last}, {number}")
    return f"multiIf({', '.join(parts)}, -1)"


def _build_calendar_gaps(
    query: RetentionQuery, context: QueryContext, period: DateRange, cohort: CohortId | None
) -> Select:
    """Build rows of actor, value, base and gaps: pairs of intervals after the base and amount."""
    is_first_ever = query.type is RetentionType.FIRST_EVER
    # The first event of each interval: whether it counts, and its value.
    shown = "tupleElement(argMinIf(head, slot, is_start), 2)" if is_first_ever else "value"
    group = "actor" if is_first_ever else "actor, value"
    sums, start_amount, return_amount = "", "0.0", "0.0"
    if query.amount is not None:
        sums = ", sumIf(amount, matches_returning) AS returned"
        start_amount, return_amount = "started", "returned"
        if query.has_same_events:
            sums += ", sumIf(amount, matches_target) AS started"
        else:
            # What comes back after the first start of the interval.
            sums += """, minIf(at, matches_target) AS first,
                groupArrayIf(tuple(at, amount), matches_returning) AS items"""
            start_amount = """arraySum(arrayMap(
                item -> if(tupleElement(item, 1) > first, tupleElement(item, 2), 0.0), items
            ))"""
    return build_select(
        f"""
        SELECT actor, value, base, arrayMap(
            item -> tuple(tupleElement(item, 1) - base,
                if(tupleElement(item, 1) = base, tupleElement(item, 3), tupleElement(item, 4))),
            arrayFilter(
                item -> tupleElement(item, 1) = base
                    OR (tupleElement(item, 1) > base AND tupleElement(item, 2)), slots
            )
        ) AS gaps
        FROM (
            SELECT actor, value, arrayJoin(starts) AS base, slots
            FROM (
                SELECT actor, {shown} AS value, {_STARTS[query.type]} AS starts, groupArrayIf(
                    tuple(slot, returns >= {query.min_occurrences}, {start_amount},
                        {return_amount}), slot >= 0
                ) AS slots
                FROM (
                    SELECT {group}, slot, max(is_named) AS is_start,
                        argMinIf(
                            tuple(matches_target, value), tuple(at, 1 - matches_target), is_named
                        ) AS head,
                        countIf(matches_returning) AS returns{sums}
                    FROM {{events}} AS rows
                    GROUP BY {group}, slot
                )
                GROUP BY {group}
                HAVING notEmpty(starts)
            )
        )
        """,  # noqa: S608 - ours
        events=_build_events(query, context, period, cohort),
    )


def _build_window_gaps(
    query: RetentionQuery, context: QueryContext, period: DateRange, cohort: CohortId | None
) -> Select:
    """Build the rows of `_build_calendar_gaps` for windows that begin with the first start of each
    actor."""
    is_first_ever = query.type is RetentionType.FIRST_EVER
    group = "actor" if is_first_ever else "actor, value"
    over = f"OVER (PARTITION BY {group})"
    shown = f"argMinIf(value, at, is_named) {over}" if is_first_ever else "value"
    amount = "0.0"
    if query.amount is not None:
        # A start is not a return to itself, unless both are the same event.
        is_counted = "matches_returning" + ("" if query.has_same_events else " AND at > first")
        amount = f"sumIf(amount, {is_counted})"
    _, width = _WINDOWS[query.interval]
    return build_select(
        f"""
        SELECT actor, chosen AS value, base, groupArrayIf(tuple(gap, amount), is_return) AS gaps
        FROM (
            SELECT actor, chosen, base, intDiv(unit - first_unit, {width}) AS gap,
                countIf(matches_returning) >= {query.min_occurrences} AS is_return,
                {amount} AS amount
            FROM (
                SELECT *, {shown} AS chosen,
                    minIf(at, is_named) {over} AS first, minIf(slot, is_named) {over} AS base,
                    minIf(unit, is_named) {over} AS first_unit,
                    minIf(at, matches_target) {over} AS first_target,
                    max(matches_target) {over} AS has_start
                FROM {{events}} AS rows
            )
            WHERE has_start AND base >= 0 AND first_target = first AND at >= first
            GROUP BY actor, chosen, base, gap
        )
        GROUP BY actor, value, base
        """,  # noqa: S608 - ours
        events=_build_events(query, context, period, cohort),
    )


def _build_events(
    query: RetentionQuery, context: QueryContext, period: DateRange, cohort: CohortId | None
) -> Select:
    """Build the events of both kinds. An actor has a row for each value of the breakdown, with the
    events that have it, as in PostHog; for the first event of all, one row with the value of that
    event."""
    compiler = filter_compiler(context)
    target = match_series(query.target, context, compiler)
    returning = match_series(query.returning, context, compiler)
    named = target
    if query.type is RetentionType.FIRST_EVER:
        named = all_of(match_event(query.target, context))
    timestamp = field("timestamp")
    within = period.contains(timestamp)
    if query.type is not RetentionType.RECURRING:
        within = compare(timestamp, Compare.LT_EQ, constant(period.end))
    value = parse_expr("['']")
    if query.breakdown is not None and query.breakdown.properties:
        value = query.breakdown.build_value()
    amount: Expr = constant(0.0)
    if query.amount is not None:
        amount = call("ifNull", call("toFloat", query.amount), constant(0.0))
    unit, _ = _WINDOWS[query.interval]
    is_before = compare(timestamp, Compare.LT, constant(period.start))
    return build_select(
        """
        SELECT {actor} AS actor, {slot} AS slot, {unit} AS unit, {value} AS value,
            toUnixTimestamp64Micro(timestamp) AS at, {amount} AS amount,
            if({named}, 1, 0) AS is_named, if({target}, 1, 0) AS matches_target,
            if({returning}, 1, 0) AS matches_returning
        FROM events WHERE {where}
        """,
        actor=build_actor(query.group_type_index),
        slot=call("if", is_before, constant(-1), period.number_interval(timestamp)),
        unit=replace(period, interval=unit).number_interval(timestamp),
        value=value,
        amount=amount,
        named=named,
        target=target,
        returning=returning,
        where=all_of(
            [
                within,
                any_of([named, returning]),
                build_query_filters(query.sent, context),
                match_cohort(cohort, context),
                match_actor(query.group_type_index),
            ]
        ),
    )
