"""The numbers of insights that an ActorsQuery can ask about, and the SQL of the actors behind them.

Each builds rows of actor and one more column: the number of events, or the intervals in which a
retained actor was there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.query.context import QueryContext
from hedgerow.hogql.ast import Expr, Select
from hedgerow.hogql.builders import all_of, constant
from hedgerow.hogql.parser.parse import parse_expr
from hedgerow.hogql.templates import build_select
from hedgerow.hogql.traversal import replace_placeholders
from hedgerow.insights.breakdowns import (
    ALL_USERS,
    NULL_LABEL,
    OTHER_LABEL,
    PLAIN_OTHER_LABEL,
    Breakdown,
    parse_breakdown,
)
from hedgerow.insights.date_range import DateRange, Interval, parse_date_range
from hedgerow.insights.filters import build_query_filters, match_cohort
from hedgerow.insights.funnels.query import FunnelsQuery, FunnelView, parse_funnels_query
from hedgerow.insights.funnels.sql import (
    Funnel,
    build_actors,
    build_attempts,
    build_steps_query,
    is_reached,
    number_attempt,
)
from hedgerow.insights.known_fields import FUNNELS_ACTORS, INSIGHT_ACTORS
from hedgerow.insights.paths.query import build_path_actors, parse_paths_query
from hedgerow.insights.retention.query import parse_retention_query, plan_period
from hedgerow.insights.retention.sql import build_retained_actors
from hedgerow.insights.trends.aggregation import build_actors_query, build_series_query
from hedgerow.insights.trends.query import (
    PlannedSeries,
    TrendsQuery,
    parse_trends_query,
    plan_periods,
    plan_series,
)
from hedgerow.lib.text import truncate
from hedgerow.persons.model import CohortId
from hedgerow.queries.fields import QueryFields

INSIGHT, FUNNELS = "InsightActorsQuery", "FunnelsActorsQuery"
KINDS = (INSIGHT, FUNNELS)
# The columns in which an actor of a retention was there.
APPEARANCES = "appearances"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorSource:
    """`query` is the insight, and `kind` its kind. `column` is what the second column holds."""

    sent: Mapping[str, Any]
    query: Mapping[str, Any]
    kind: str
    column: str
    group_type_index: int | None
    attr: str

    @property
    def value(self) -> Any:
        """The value of the breakdown that the source asks about."""
        return self.sent.get("breakdown", self.sent.get("funnelStepBreakdown"))

    @property
    def date_ranges(self) -> list[Mapping[str, Any]]:
        if self.kind == "PathsQuery":
            return parse_paths_query(self.query).date_ranges
        return [self.query.get("dateRange") or {}]

    def number_columns(self) -> dict[str, int]:
        """Return the columns of a retention by name, such as `day_1`."""
        if self.kind != "RetentionQuery":
            return {}
        query = parse_retention_query(self.query)
        return {f"{query.interval}_{number}": number for number in range(len(query.column_labels))}

    @property
    def is_other(self) -> bool:
        values = self.value if isinstance(self.value, list) else [self.value]
        other = OTHER_LABEL if self.kind != "FunnelsQuery" else PLAIN_OTHER_LABEL
        return other in values

    @property
    def shown_values(self) -> int:
        """How many values of the breakdown are not part of Other."""
        breakdown = parse_breakdown(self.query.get("breakdownFilter"), f"{self.attr}__source")
        return breakdown.limit if breakdown else 0


def parse_source(sent: Mapping[str, Any], attr: str) -> ActorSource:
    fields = QueryFields(sent, attr)
    kind = fields.text("kind")
    if kind not in KINDS:
        detail = f'"{truncate(kind)}" is not supported. Expected one of: {", ".join(KINDS)}.'
        raise Invalid(detail, attr=fields.attr("kind"), code="invalid_choice")
    fields.check_known(INSIGHT_ACTORS if kind == INSIGHT else FUNNELS_ACTORS)
    query = fields.mapping("source")
    insight = str(query.get("kind"))
    expected = (
        ("TrendsQuery", "RetentionQuery", "PathsQuery") if kind == INSIGHT else ("FunnelsQuery",)
    )
    if insight not in expected:
        detail = f'"{truncate(insight)}" is not supported. Expected: {" or ".join(expected)}.'
        raise Invalid(detail, attr=f"{fields.attr('source')}__kind", code="invalid_choice")
    return ActorSource(
        sent=sent,
        query=query,
        kind=insight,
        column=APPEARANCES if insight == "RetentionQuery" else "event_count",
        group_type_index=_PARSERS[insight](sent, query),
        attr=attr,
    )


def _parse_trends(sent: Mapping[str, Any], query: Mapping[str, Any]) -> int | None:
    parsed = parse_trends_query(query)
    return parsed.series[_read_series(sent, parsed)].group_type_index


def _parse_retention(_: Mapping[str, Any], query: Mapping[str, Any]) -> int | None:
    return parse_retention_query(query).group_type_index


def _parse_funnels(_: Mapping[str, Any], query: Mapping[str, Any]) -> int | None:
    parsed = parse_funnels_query(query)
    if parsed.actor_hogql:
        detail = "A funnel of an expression has no persons."
        raise Invalid(detail, attr="query__source__source__funnelsFilter")
    return parsed.group_type_index


def _parse_paths(_: Mapping[str, Any], query: Mapping[str, Any]) -> int | None:
    return parse_paths_query(query).group_type_index


_PARSERS: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], int | None]] = {
    "TrendsQuery": _parse_trends,
    "RetentionQuery": _parse_retention,
    "FunnelsQuery": _parse_funnels,
    "PathsQuery": _parse_paths,
}


def _read_series(sent: Mapping[str, Any], query: TrendsQuery) -> int:
    number = QueryFields(sent, "query__source").integer("series") or 0
    if not 0 <= number < len(query.series):
        detail = f"A series from 0 to {len(query.series) - 1} is required."
        raise Invalid(detail, attr="query__source__series")
    return number


def build_source(
    source: ActorSource,
    context: QueryContext,
    earliest: datetime | None,
    shown: Sequence[Sequence[str]],
) -> Select:
    """Build the query of the actors. `shown` are the values of a breakdown that are not Other."""
    match source.kind:
        case "TrendsQuery":
            return _build_trends(source, context, earliest, shown)
        case "RetentionQuery":
            return _build_retention(source, context, earliest, shown)
        case "PathsQuery":
            return _build_paths(source, context, earliest)
    return _build_funnels(source, context, earliest, shown)


def build_values(
    source: ActorSource, context: QueryContext, earliest: datetime | None
) -> Select | None:
    """Build the query of the values that a breakdown shows, if the source asks about Other."""
    if not source.is_other:
        return None
    if source.kind == "TrendsQuery":
        _, planned = _plan_trends(source, context, earliest)
        return build_series_query(planned.query, context)
    if source.kind == "RetentionQuery":
        query = parse_retention_query(source.query)
        period = plan_period(query, context.time, earliest)
        return build_select(
            """
            SELECT value, count() AS starts FROM {actors} AS actors
            GROUP BY value ORDER BY starts DESC, value ASC
            """,
            actors=build_retained_actors(query, context, period),
        )
    return build_steps_query(_plan_funnel(source, context, earliest), context)


def _plan_trends(
    source: ActorSource, context: QueryContext, earliest: datetime | None
) -> tuple[TrendsQuery, PlannedSeries]:
    query = parse_trends_query(source.query)
    number = _read_series(source.sent, query)
    periods = plan_periods(query, context, earliest)
    is_previous = source.sent.get("compare") == "previous"
    if is_previous and len(periods) == 1:
        raise Invalid("The query has no comparison.", attr=f"{source.attr}__compare")
    cohort = _read_cohort(source.sent.get("breakdown"), query.breakdown)
    for planned in plan_series(query, context, periods):
        if (planned.order, planned.is_previous) == (number, is_previous) and (
            cohort == planned.cohort
        ):
            return query, planned
    raise Invalid("The query has no such cohort.", attr=f"{source.attr}__breakdown")


def _read_cohort(value: Any, breakdown: Breakdown | None) -> Any:
    if breakdown is None or not breakdown.cohorts:
        return None
    sent = value[0] if isinstance(value, list) and value else value
    if sent in (None, ALL_USERS) or str(sent) == "0":
        return None
    return int(sent) if str(sent).isdecimal() else sent


def _find_cohort(source: ActorSource, breakdown: Breakdown | None) -> CohortId | None:
    """Return the cohort that the source asks about. None for all users."""
    cohort = _read_cohort(source.value, breakdown)
    if breakdown is not None and breakdown.cohorts and cohort not in breakdown.cohorts:
        raise Invalid("The query has no such cohort.", attr=f"{source.attr}__breakdown")
    return None if cohort is None else CohortId(cohort)


def _build_trends(
    source: ActorSource,
    context: QueryContext,
    earliest: datetime | None,
    shown: Sequence[Sequence[str]],
) -> Select:
    query, planned = _plan_trends(source, context, earliest)
    series = planned.query
    value = _read_value(source, query.breakdown)
    if shown:
        series, value = replace(series, excluded=shown), None
    slot = None if query.is_total else _find_slot(source, series.period)
    return build_actors_query(series, context, slot, value)


def _read_value(source: ActorSource, breakdown: Breakdown | None) -> list[str] | None:
    sent = source.value
    if sent is None or breakdown is None or not breakdown.properties:
        return None
    values = sent if isinstance(sent, list) else [sent]
    if len(values) != len(breakdown.properties):
        detail = f"Expected {len(breakdown.properties)} values."
        raise Invalid(detail, attr=f"{source.attr}__breakdown")
    # Funnels and retention show a missing value as empty text.
    return [str(each) or NULL_LABEL for each in values]


def _find_slot(source: ActorSource, period: DateRange, name: str = "day") -> int | None:
    day = source.sent.get(name)
    if day is None:
        return None
    text = str(day).replace("T", " ")
    for number, start in enumerate(period.days):
        if text.startswith(start):
            return number
    detail = f'"{truncate(text)}" is not an interval of the query.'
    raise Invalid(detail, attr=f"{source.attr}__{name}")


def _build_retention(
    source: ActorSource,
    context: QueryContext,
    earliest: datetime | None,
    shown: Sequence[Sequence[str]],
) -> Select:
    query = parse_retention_query(source.query)
    period = plan_period(query, context.time, earliest)
    count = len(period.interval_starts)
    number = QueryFields(source.sent, source.attr).integer("interval") or 0
    if not 0 <= number < count:
        detail = f"An interval from 0 to {count - 1} is required."
        raise Invalid(detail, attr=f"{source.attr}__interval")
    cohort = _find_cohort(source, query.breakdown)
    return build_select(
        f"""
        SELECT actor, arraySort(arrayDistinct(arrayMap(
            point -> tupleElement(point, 1), arrayFlatten(groupArray(points))
        ))) AS appearances
        FROM {{actors}} AS actors
        WHERE base = {number} AND {{is_value}} GROUP BY actor
        ORDER BY length(appearances) DESC, actor ASC
        """,  # noqa: S608 - ours
        actors=build_retained_actors(query, context, period, cohort),
        is_value=_match_value(source, query.breakdown, shown),
    )


def _plan_funnel(source: ActorSource, context: QueryContext, earliest: datetime | None) -> Funnel:
    query = parse_funnels_query(source.query)
    period = parse_date_range(query.date_range, query.interval, context.time, earliest)
    cohort = _find_cohort(source, query.breakdown)
    filters = [build_query_filters(query.sent, context), match_cohort(cohort, context)]
    return Funnel(query=query, period=period, filters=all_of(filters))


def _build_funnels(
    source: ActorSource,
    context: QueryContext,
    earliest: datetime | None,
    shown: Sequence[Sequence[str]],
) -> Select:
    funnel = _plan_funnel(source, context, earliest)
    query = funnel.query
    if query.view is FunnelView.TRENDS:
        return _build_rate(source, funnel, context)
    return build_select(
        f"""
        SELECT actor, reached AS event_count FROM {{actors}} AS actors
        WHERE {_match_step(source, query)} AND {{is_value}}
        ORDER BY actor ASC
        """,  # noqa: S608 - ours
        actors=build_actors(funnel, context),
        is_value=_match_value(source, query.breakdown, shown),
    )


def _build_paths(source: ActorSource, context: QueryContext, earliest: datetime | None) -> Select:
    query = parse_paths_query(source.query)
    period = parse_date_range(query.date_range, Interval.DAY, context.time, earliest)
    return build_path_actors(query, context, period, earliest)


def _build_rate(source: ActorSource, funnel: Funnel, context: QueryContext) -> Select:
    """Build who begins in an interval of a rate over time, and converts or drops off."""
    fields = QueryFields(source.sent, source.attr)
    name = "funnelTrendsEntrancePeriodStart"
    if not fields.text(name):
        raise Invalid("This field is required.", attr=fields.attr(name), code="required")
    first, last = funnel.query.from_step + 1, funnel.query.to_step + 1
    having = f"event_count >= {last}"
    if fields.boolean("funnelTrendsDropOff"):
        having = f"event_count >= {first} AND event_count < {last}"
    return build_select(
        f"""
        SELECT actor, max(level) AS event_count FROM {{attempts}} AS attempts
        WHERE (level > 0 OR ended > 0) AND {{is_value}}
            AND {{slot}} = {_find_slot(source, funnel.period, name)}
        GROUP BY actor HAVING event_count >= max(ended) AND {having} ORDER BY actor ASC
        """,  # noqa: S608 - ours
        attempts=build_attempts(funnel, context),
        slot=number_attempt(funnel),
        is_value=_match_value(source, funnel.query.breakdown),
    )


def _match_step(source: ActorSource, query: FunnelsQuery) -> str:
    """Step 2 are those who reach the second step, and -2 those who reach the required step before
    it alone."""
    step = QueryFields(source.sent, source.attr).integer("funnelStep")
    count = len(query.steps)
    if step is None or not (1 <= step <= count or 2 <= -step <= count):
        detail = f"A step from 1 to {count}, or from -2 to -{count} for those who drop off."
        raise Invalid(detail, attr=f"{source.attr}__funnelStep")
    if step > 0:
        return is_reached(query, step - 1)
    before = is_reached(query, query.find_required_before(-step - 1))
    return f"{before} AND NOT {is_reached(query, -step - 1)}"


def _match_value(
    source: ActorSource, breakdown: Breakdown | None, shown: Sequence[Sequence[str]] = ()
) -> Expr:
    if shown:
        known = constant([list(each) for each in shown])
        return replace_placeholders(parse_expr("NOT has({known}, value)"), {"known": known})
    value = _read_value(source, breakdown)
    if value is None:
        return constant(True)
    return replace_placeholders(parse_expr("value = {value}"), {"value": constant(value)})
