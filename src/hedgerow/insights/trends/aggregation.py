"""The SQL of one series: rows of breakdown value, numbers of intervals and their amounts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, timedelta

from hedgerow.events.query.context import QueryContext
from hedgerow.hogql.ast import Compare, Expr, Select
from hedgerow.hogql.builders import all_of, call, compare, constant, equals, field, negate
from hedgerow.hogql.parser.parse import parse_expr
from hedgerow.hogql.templates import build_select
from hedgerow.hogql.traversal import replace_placeholders
from hedgerow.insights.breakdowns import Breakdown
from hedgerow.insights.date_range import TICK, DateRange, Interval
from hedgerow.insights.series import (
    FIRST_TIME,
    SESSION_DURATION,
    Series,
    filter_compiler,
    is_first_of_person,
    match_event,
    match_series,
)

ACTIVE_DAYS = {"weekly_active": 7, "monthly_active": 30}
_QUANTILES = {"median": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_UNIQUE_MATH = ("dau", "unique_group", "unique_session", "weekly_active", "monthly_active")

# A row for each value of the breakdown.
_BY_VALUE_SQL = """
SELECT value, groupArray(slot) AS slots, groupArray(amount) AS amounts, sum(amount) AS total
FROM {amounts} AS amounts
GROUP BY value
ORDER BY total DESC, value ASC
"""
_PLAIN_SQL = """
SELECT {slot} AS slot, {value} AS value, {amount} AS amount
FROM events WHERE {matches} GROUP BY slot, value
"""
_FIRST_SLOT_SQL = """
SELECT slot, value, count() AS amount
FROM (
    SELECT {actor} AS actor, {value} AS value, min({slot}) AS slot
    FROM events WHERE {matches} GROUP BY actor, value
)
GROUP BY slot, value
"""
_PER_ACTOR_SQL = """
SELECT slot, value, {amount} AS amount
FROM (
    SELECT {slot} AS slot, {value} AS value, person_id AS actor, count() AS events_of_actor
    FROM events WHERE {matches} GROUP BY slot, value, actor
)
GROUP BY slot, value
"""
# The length of a session counts once for each interval and value in which it has an event.
_SESSION_SQL = """
SELECT slot, value, {amount} AS amount
FROM (
    SELECT {slot} AS slot, {value} AS value, lengths.id AS session, any(lengths.seconds) AS seconds
    FROM events
    INNER JOIN (SELECT session_id AS id, `$session_duration` AS seconds FROM sessions) AS lengths
        ON lengths.id = events.`$session_id`
    WHERE {matches} GROUP BY slot, value, session
)
GROUP BY slot, value
"""
_ACTIVE_SQL = """
SELECT {slot} AS slot, value, uniqExact(actor) AS amount
FROM (
    SELECT actor, value, arrayJoin(range({from_unit}, {from_unit} + {width})) AS unit
    FROM (
        SELECT DISTINCT {actor} AS actor, {value} AS value, {active_unit} AS active
        FROM events WHERE {matches}
    )
)
WHERE unit >= {lookback} AND unit < {lookback} + {count} AND {is_slot}
GROUP BY slot, value
"""
_FIRST_TIME_SQL = """
SELECT {slot} AS slot, value, count() AS amount
FROM (
    SELECT person_id AS actor, min(timestamp) AS at, argMin({value}, timestamp) AS value,
        argMin({fits}, timestamp) AS fits
    FROM events WHERE {matches} GROUP BY actor
)
WHERE {within} AND fits
GROUP BY slot, value
"""


_LEAST_SQL = "SELECT min({number}) FROM events WHERE {matches}"
_GREATEST_SQL = "SELECT max({number}) FROM events WHERE {matches}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesQuery:
    """One series in one period. `filters` apply to all series. With `is_total`, the whole period is
    one interval. `excluded` are the values that are not part of Other."""

    series: Series
    period: DateRange
    filters: Expr
    breakdown: Breakdown | None
    is_total: bool
    is_cumulative: bool
    excluded: Sequence[Sequence[str]] = ()

    @property
    def is_other(self) -> bool:
        return bool(self.excluded)


def build_series_query(query: SeriesQuery, context: QueryContext) -> Select:
    """Build a query for rows of value, interval numbers, amounts and total. It has one more row
    than the limit of the breakdown if there are more values."""
    text = _BY_VALUE_SQL
    if query.breakdown is not None and not query.is_other:
        text += f"LIMIT {query.breakdown.limit + 1}"
    return build_select(text, amounts=_build_amounts(query, context))


def bind_bins(query: SeriesQuery, context: QueryContext) -> SeriesQuery:
    """Give the bins of a breakdown the bounds of their numbers in the whole period."""
    if query.breakdown is None or not query.breakdown.has_bins:
        return query
    matches = build_matches(query, context)

    def find_bounds(number: Expr) -> tuple[Expr, Expr]:
        parts = {"number": number, "matches": matches}
        return build_select(_LEAST_SQL, **parts), build_select(_GREATEST_SQL, **parts)

    return replace(query, breakdown=query.breakdown.bind_bins(find_bounds))


def build_actors_query(
    query: SeriesQuery, context: QueryContext, slot: int | None, value: Sequence[str] | None
) -> Select:
    """Build rows of actor and number of events: who is behind the number of one interval, or of
    the whole period, and of one value of the breakdown."""
    period = query.period if slot is None else query.period.narrow_to(slot)
    if query.is_cumulative and query.series.math not in ACTIVE_DAYS:
        # All up to the interval.
        period = replace(period, start=query.period.start)
    if query.series.math in ACTIVE_DAYS:
        period = _widen_to_active(query.series, period)
    narrowed = replace(query, period=period)
    conditions = build_conditions(narrowed, context)
    if value is not None:
        assert query.breakdown is not None
        conditions.append(equals(query.breakdown.build_value(), list(value)))
    actor = field("person_id") if query.series.group_type_index is None else query.series.actor
    if query.series.math in FIRST_TIME:
        conditions.append(is_first_of_person(_match_first_time(narrowed, context)))
    return build_select(
        """
        SELECT {actor} AS actor, count() AS event_count
        FROM events WHERE {matches} GROUP BY actor ORDER BY event_count DESC, actor ASC
        """,
        actor=actor,
        matches=all_of([period.contains(field("timestamp")), *conditions]),
    )


def _widen_to_active(series: Series, period: DateRange) -> DateRange:
    """Return the days up to the end of a period in which its active users are active."""
    if period.interval not in _sliding_intervals(series):
        return period
    days = ACTIVE_DAYS[series.math]
    if period.interval is Interval.HOUR:
        end = period.end.astimezone(UTC) + TICK - timedelta(days=days)
        return replace(period, start=end.astimezone(period.end.tzinfo))
    return replace(period, start=period.end + TICK - timedelta(days=days))


def _match_first_time(query: SeriesQuery, context: QueryContext) -> Expr:
    until = compare(field("timestamp"), Compare.LT_EQ, constant(query.period.end))
    if query.series.math == FIRST_TIME[0]:
        return all_of([until, *match_event(query.series, context)])
    return all_of([until, *build_conditions(query, context)])


def is_unique_math(series: Series) -> bool:
    return series.math in _UNIQUE_MATH


def _build_amounts(query: SeriesQuery, context: QueryContext) -> Select:
    series = query.series
    if series.math in ACTIVE_DAYS and query.period.interval in _sliding_intervals(series):
        return _build_active(query, context)
    if series.math in FIRST_TIME:
        return _build_first_time(query, context)
    parts = {
        "slot": _build_slot(query, field("timestamp")),
        "value": _build_value(query),
        "matches": build_matches(query, context),
    }
    if series.is_actor_math:
        measure = series.math.removesuffix("_count_per_actor")
        return build_select(
            _PER_ACTOR_SQL, amount=_aggregate(measure, field("events_of_actor")), **parts
        )
    if series.math_property == SESSION_DURATION and series.is_property_math:
        return build_select(_SESSION_SQL, amount=_aggregate(series.math, field("seconds")), **parts)
    if query.is_cumulative and is_unique_math(series):
        return build_select(_FIRST_SLOT_SQL, actor=series.actor, **parts)
    return build_select(_PLAIN_SQL, amount=build_amount(series), **parts)


def _build_slot(query: SeriesQuery, timestamp: Expr) -> Expr:
    return constant(0) if query.is_total else query.period.number_interval(timestamp)


def _build_value(query: SeriesQuery) -> Expr:
    if query.breakdown is None or not query.breakdown.properties or query.is_other:
        return parse_expr("['']")
    return query.breakdown.build_value()


def build_conditions(query: SeriesQuery, context: QueryContext) -> list[Expr]:
    """Build the conditions for the events of the series, without the period."""
    found = [match_series(query.series, context, filter_compiler(context)), query.filters]
    found += _match_math(query.series)
    if query.is_other:
        assert query.breakdown is not None
        known = constant([list(each) for each in query.excluded])
        found.append(negate(call("has", known, query.breakdown.build_value())))
    return found


def build_matches(query: SeriesQuery, context: QueryContext) -> Expr:
    return all_of([query.period.contains(field("timestamp")), *build_conditions(query, context)])


def _match_math(series: Series) -> list[Expr]:
    """Events without a group or session do not count as one."""
    if series.group_type_index is not None or series.math == "unique_session":
        return [call("notEmpty", call("ifNull", series.actor, constant("")))]
    return []


def build_amount(series: Series) -> Expr:
    if series.math == "hogql":
        assert series.math_hogql is not None
        return call("ifNull", call("toFloat", parse_expr(series.math_hogql)), constant(0))
    if is_unique_math(series):
        return call("uniqExact", series.actor)
    if not series.is_property_math:
        return call("count")
    number = call("toFloat", series.amount)
    if series.math_multiplier is not None:
        number = call("multiply", number, constant(float(series.math_multiplier)))
    return _aggregate(series.math, number)


def _aggregate(measure: str, number: Expr) -> Expr:
    """Build an aggregation that is 0 without values. Quantiles are exact, and interpolated as
    ClickHouse's `quantile` does."""
    if (level := _QUANTILES.get(measure)) is not None:
        found = replace_placeholders(
            parse_expr(f"quantileExactInclusive({level})({{number}})"), {"number": number}
        )
    else:
        found = call(measure, number)
    return call("ifNotFinite", call("ifNull", found, constant(0)), constant(0))


def _sliding_intervals(series: Series) -> tuple[Interval, ...]:
    """The intervals that are shorter than the window of active users. In longer ones, active users
    are unique users."""
    if series.math == "weekly_active":
        return (Interval.MINUTE, Interval.HOUR, Interval.DAY)
    return (Interval.MINUTE, Interval.HOUR, Interval.DAY, Interval.WEEK)


def _build_active(query: SeriesQuery, context: QueryContext) -> Select:
    """Build the users of the days up to the end of each interval."""
    days = ACTIVE_DAYS[query.series.math]
    period, width = query.period, days
    if query.is_total:
        # The last window alone.
        last = Interval.DAY.start_of(period.end)
        period = replace(period, interval=Interval.DAY, start=last - timedelta(days=days - 1))
        one = replace(query, period=period)
        return build_select(
            _PLAIN_SQL,
            slot=constant(0),
            value=_build_value(one),
            amount=call("uniqExact", query.series.actor),
            matches=build_matches(one, context),
        )
    unit = replace(
        period,
        start=period.first if period.interval is Interval.WEEK else period.start,
        interval=Interval.HOUR if period.interval.has_time_of_day else Interval.DAY,
    )
    if unit.interval is Interval.HOUR:
        width *= 24
    lookback = width - 1
    start = unit.interval.add_to(unit.first, -lookback)
    wide = replace(unit, start=start)
    is_week = period.interval is Interval.WEEK
    position = parse_expr(f"unit - {lookback}")
    return build_select(
        _ACTIVE_SQL,
        actor=query.series.actor,
        value=_build_value(query),
        matches=build_matches(replace(query, period=wide), context),
        active_unit=wide.number_interval(field("timestamp")),
        from_unit=field("active"),
        width=constant(width),
        lookback=constant(lookback),
        count=constant(len(unit.interval_starts)),
        slot=call("intDiv", position, constant(7)) if is_week else position,
        is_slot=parse_expr(_ends_week(lookback, len(unit.interval_starts)) if is_week else "true"),
    )


def _ends_week(lookback: int, days: int) -> str:
    """The last day of a week, or of a period that ends within one."""
    day = f"(unit - {lookback})"
    return f"modulo({day}, 7) = 6 OR {day} = {days - 1}"


def _build_first_time(query: SeriesQuery, context: QueryContext) -> Select:
    """Build the users whose first event of the series is in each interval: their first event of
    all, or the first that matches the filters."""
    fits = all_of(build_conditions(query, context))
    return build_select(
        _FIRST_TIME_SQL,
        slot=_build_slot(query, field("at")),
        value=_build_value(query),
        fits=call("if", fits, constant(1), constant(0)),
        matches=_match_first_time(query, context),
        within=query.period.contains(field("at")),
    )
