"""A parsed TrendsQuery, and the queries that answer it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.query.context import QueryContext
from hedgerow.hogql.builders import all_of
from hedgerow.insights.breakdowns import Breakdown, parse_breakdown
from hedgerow.insights.date_range import (
    DateRange,
    Interval,
    parse_date_range,
    parse_interval,
    shift_to_previous,
)
from hedgerow.insights.filters import build_query_filters, list_cohorts, match_cohort
from hedgerow.insights.known_fields import TRENDS_QUERY
from hedgerow.insights.series import Series, name_action, parse_series_list
from hedgerow.insights.trends.aggregation import ACTIVE_DAYS, SeriesQuery, bind_bins
from hedgerow.insights.trends.formulas import Formula, parse_formula
from hedgerow.lib.text import truncate
from hedgerow.persons.model import CohortId
from hedgerow.projects.validation import check_storable, parse_date_parameter
from hedgerow.queries.fields import QueryFields

CUMULATIVE = "ActionsLineGraphCumulative"
# How PostHog's clients draw a series: by interval, or as one number.
SERIES_DISPLAYS = (
    "ActionsLineGraph", CUMULATIVE, "ActionsAreaGraph", "ActionsBar", "ActionsUnstackedBar",
    "ActionsStackedBar", "Auto", "Metric",
)  # fmt: skip
TOTAL_DISPLAYS = (
    "ActionsTable", "ActionsPie", "ActionsBarValue", "WorldMap", "BoldNumber", "CalendarHeatmap",
)  # fmt: skip
MAX_FORMULAS = 10
MAX_SMOOTHING = 100
MAX_QUERIES = 60
# Numbers in a result.
MAX_POINTS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFormula:
    text: str
    name: str | None
    apply: Formula


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendsQuery:
    """`sent` is the query as it was sent, with known fields only."""

    sent: Mapping[str, Any]
    series: Sequence[Series]
    interval: Interval
    display: str
    breakdown: Breakdown | None
    formulas: Sequence[NamedFormula]
    smoothing: int
    is_compared: bool
    compare_to: str | None

    @property
    def is_total(self) -> bool:
        return self.display in TOTAL_DISPLAYS

    @property
    def is_cumulative(self) -> bool:
        return self.display == CUMULATIVE

    @property
    def date_range(self) -> Mapping[str, Any]:
        return self.sent.get("dateRange") or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSeries:
    """One series, in one period and for one cohort of a breakdown by cohorts."""

    query: SeriesQuery
    order: int
    is_previous: bool
    cohort: CohortId | None = None
    cohort_name: str | None = None


def parse_trends_query(sent: Mapping[str, Any]) -> TrendsQuery:
    fields = QueryFields(sent)
    fields.check_known(TRENDS_QUERY)
    check_storable(sent, "query")
    if sent.get("conversionGoal") is not None:
        raise Invalid("Conversion goals are not supported.", attr=fields.attr("conversionGoal"))
    heatmap = QueryFields(
        fields.mapping("calendarHeatmapFilter"), fields.attr("calendarHeatmapFilter")
    )
    heatmap.refuse_value("bucketBySessionStart", "A heatmap counts each event at its own time.")
    fields.mapping("dateRange")
    fields.boolean("filterTestAccounts")
    options = QueryFields(fields.mapping("trendsFilter"), fields.attr("trendsFilter"))
    options.refuse_value(
        "breakdown_histogram_bin_count", "Use the field of this name in breakdownFilter."
    )
    comparison = QueryFields(fields.mapping("compareFilter"), fields.attr("compareFilter"))
    series = parse_series_list(fields)
    interval = parse_interval(fields)
    _check_intervals(series, interval)
    is_compared = comparison.boolean("compare")
    return TrendsQuery(
        sent=sent,
        series=series,
        interval=interval,
        display=_parse_display(options),
        breakdown=parse_breakdown(
            fields.mapping("breakdownFilter"), fields.attr("breakdownFilter")
        ),
        formulas=_parse_formulas(options, len(series)),
        smoothing=options.number("smoothingIntervals", 1, MAX_SMOOTHING) or 1,
        is_compared=is_compared and fields.mapping("dateRange").get("date_from") != "all",
        compare_to=comparison.text("compare_to") or None,
    )


def _check_intervals(series: Sequence[Series], interval: Interval) -> None:
    for each in series:
        is_short = interval in (Interval.SECOND, Interval.MINUTE)
        if is_short and each.math in ACTIVE_DAYS:
            detail = f'The math "{each.math}" needs intervals of an hour or more.'
            raise Invalid(detail, attr=f"{each.attr}__math")


def _parse_display(options: QueryFields) -> str:
    display = options.text("display") or SERIES_DISPLAYS[0]
    known = (*SERIES_DISPLAYS, *TOTAL_DISPLAYS)
    if display not in known:
        detail = f'"{truncate(display)}" is not supported. Expected one of: {", ".join(known)}.'
        raise Invalid(detail, attr=options.attr("display"), code="invalid_choice")
    return display


def _parse_formulas(options: QueryFields, series_count: int) -> list[NamedFormula]:
    texts: list[tuple[str, str | None, str]] = []
    for number, each in enumerate(options.list_field("formulaNodes")):
        node = QueryFields(each if isinstance(each, dict) else {}, options.attr("formulaNodes"))
        attr = f"{options.attr('formulaNodes')}__{number}__formula"
        texts.append((node.text("formula"), node.text("custom_name") or None, attr))
    if not texts:
        attr = options.attr("formulas")
        texts = [(each, None, attr) for each in options.text_list("formulas")]
    if not texts and (single := options.text("formula")):
        texts = [(single, None, options.attr("formula"))]
    if len(texts) > MAX_FORMULAS:
        detail = f"Expected at most {MAX_FORMULAS} formulas."
        raise Invalid(detail, attr=options.attr("formulas"))
    return [
        NamedFormula(text=text, name=name, apply=parse_formula(text, series_count, attr))
        for text, name, attr in texts
        if text.strip()
    ]


def plan_periods(
    query: TrendsQuery, context: QueryContext, earliest: datetime | None
) -> list[DateRange]:
    """Return the period, and the one that it is compared with."""
    interval = Interval.DAY if query.is_total else query.interval
    current = parse_date_range(query.date_range, interval, context.time, earliest)
    if not query.is_compared:
        return [current]
    if query.compare_to is None:
        return [current, shift_to_previous(current, query.date_range)]
    return [current, _shift_by(current, query.compare_to)]


def _shift_by(current: DateRange, text: str) -> DateRange:
    """Shift the start by a relative date such as `-1w`. As in PostHog, the length stays."""
    attr = "query__compareFilter__compare_to"
    zone = current.start.tzinfo
    assert zone is not None
    start = parse_date_parameter(text, current.start, zone, attr).astimezone(zone)
    if start >= current.start:
        raise Invalid("Expected a relative date in the past, such as -1w.", attr=attr)
    return replace(current, start=start, end=start + (current.end - current.start))


def plan_series(
    query: TrendsQuery, context: QueryContext, periods: Sequence[DateRange]
) -> list[PlannedSeries]:
    filters = build_query_filters(query.sent, context)
    # A whole year before this one is longer than what there is of it.
    points = 1 if query.is_total else max(len(each.interval_starts) for each in periods)
    points *= query.breakdown.limit if query.breakdown else 1
    if points * len(query.series) * len(periods) > MAX_POINTS:
        detail = f"The result has more than {MAX_POINTS} values. Use fewer intervals or values."
        raise Invalid(detail, attr="query__breakdownFilter", code="query_limit_exceeded")
    planned = [
        PlannedSeries(
            query=bind_bins(
                SeriesQuery(
                    series=name_action(series, context),
                    period=period,
                    filters=all_of([filters, match_cohort(cohort, context)]),
                    breakdown=query.breakdown,
                    is_total=query.is_total,
                    is_cumulative=query.is_cumulative,
                ),
                context,
            ),
            order=order,
            is_previous=period is not periods[0],
            cohort=cohort,
            cohort_name=name,
        )
        for period in periods
        for cohort, name in list_cohorts(query.breakdown, context)
        for order, series in enumerate(query.series)
    ]
    if len(planned) > MAX_QUERIES:
        raise Invalid(f"Expected at most {MAX_QUERIES} series in all.", attr="query__series")
    return planned
