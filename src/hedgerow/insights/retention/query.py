"""A parsed RetentionQuery."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.hogql.ast import Expr
from hedgerow.hogql.builders import field
from hedgerow.insights.breakdowns import Breakdown, parse_breakdown
from hedgerow.insights.date_range import (
    DateRange,
    Interval,
    parse_date_range,
    parse_range_end,
)
from hedgerow.insights.groups import parse_group_type
from hedgerow.insights.known_fields import RETENTION_QUERY
from hedgerow.insights.series import Series, parse_entity
from hedgerow.projects.validation import check_storable
from hedgerow.queries.fields import QueryFields

DEFAULT_INTERVALS = 8
MAX_INTERVALS = 100
# First intervals.
MAX_ROWS = 500
MAX_OCCURRENCES = 1_000
PERIODS = ("Hour", "Day", "Week", "Month")
TIME_WINDOW_MODES = ("strict_calendar_dates", "24_hour_windows")
AGGREGATIONS = ("count", "sum", "avg")
MAX_BRACKETS = 30
MAX_BRACKET = 1_000


class RetentionType(StrEnum):
    """Which interval an actor starts in: each with a target event, the one with the first that
    matches the filters of the target, or the one with the first of all, if it matches them."""

    RECURRING = "retention_recurring"
    FIRST_TIME = "retention_first_time"
    FIRST_EVER = "retention_first_ever_occurrence"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionQuery:
    """People who do `target` in an interval, and do `returning` in later ones. Of each interval,
    `interval_count` count: itself and those that follow. `brackets` are how many of those that
    follow each column has. With `has_windows`, intervals begin with the first event of a person.
    `aggregation` is `sum` or `avg` of `amount`."""

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
    has_windows: bool
    brackets: Sequence[int]
    aggregation: str | None
    amount: Expr | None

    @property
    def has_same_events(self) -> bool:
        return self.target.matches_same_events(self.returning)

    @property
    def column_labels(self) -> list[str]:
        """The names of the columns of each row: intervals, or brackets of them."""
        unit = self.interval.capitalize()
        if not self.brackets:
            return [f"{unit} {gap}" for gap in range(self.interval_count)]
        labels, first = [f"{unit} 0"], 1
        for size in self.brackets:
            last = first + size - 1
            labels.append(f"{unit} {first}" if size == 1 else f"{unit} {first}-{last}")
            first = last + 1
        return labels

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
    options.refuse_value("customAggregationTarget", "Tables of a data warehouse are not supported.")
    breakdown = parse_breakdown(fields.mapping("breakdownFilter"), fields.attr("breakdownFilter"))
    has_windows = options.choice("timeWindowMode", TIME_WINDOW_MODES) == TIME_WINDOW_MODES[1]
    aggregation, amount = _parse_aggregation(options)
    is_cumulative = options.boolean("cumulative")
    if is_cumulative and (has_windows or aggregation):
        detail = "Cumulative retention has calendar intervals, and no property to add up."
        raise Invalid(detail, attr=options.attr("cumulative"))
    return RetentionQuery(
        sent=sent,
        target=parse_entity(options, "targetEntity"),
        returning=parse_entity(options, "returningEntity"),
        interval=Interval((options.choice("period", PERIODS) or "Day").lower()),
        interval_count=options.number("totalIntervals", 1, MAX_INTERVALS) or DEFAULT_INTERVALS,
        type=RetentionType(
            options.choice("retentionType", list(RetentionType)) or RetentionType.RECURRING
        ),
        is_cumulative=is_cumulative,
        min_occurrences=options.number("minimumOccurrences", 1, MAX_OCCURRENCES) or 1,
        breakdown=breakdown,
        group_type_index=parse_group_type(fields),
        has_windows=has_windows,
        brackets=_parse_brackets(options),
        aggregation=aggregation,
        amount=amount,
    )


def _parse_brackets(options: QueryFields) -> list[int]:
    """Parse how many intervals each column has, after the first one."""
    attr = options.attr("retentionCustomBrackets")
    found = []
    for each in options.list_field("retentionCustomBrackets"):
        if isinstance(each, bool) or not isinstance(each, int | float) or each % 1:
            raise Invalid("Expected whole numbers.", attr=attr)
        if not 1 <= each <= MAX_BRACKET:
            raise Invalid(f"Expected numbers from 1 to {MAX_BRACKET}.", attr=attr)
        found.append(int(each))
    if len(found) > MAX_BRACKETS:
        raise Invalid(f"Expected at most {MAX_BRACKETS} brackets.", attr=attr)
    return found


def _parse_aggregation(options: QueryFields) -> tuple[str | None, Expr | None]:
    """Parse what is added up beside the number of actors: nothing, or a property."""
    type = options.choice("aggregationType", AGGREGATIONS) or AGGREGATIONS[0]
    place = options.choice("aggregationPropertyType", ("event", "person"))
    name = options.text("aggregationProperty")
    if type == AGGREGATIONS[0]:
        return None, None
    if not name:
        detail = f'The aggregation "{type}" requires the name of a property.'
        raise Invalid(detail, attr=options.attr("aggregationProperty"), code="required")
    return type, field(*(("person",) if place == "person" else ()), "properties", name)


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
        end=query.interval.end_of(last),
        interval=query.interval,
        week_start=time.week_start,
    )
    if len(period.interval_starts) > MAX_ROWS:
        detail = f"The range has more than {MAX_ROWS} intervals of one {query.interval}."
        raise Invalid(detail, attr="query__dateRange__date_from", code="query_limit_exceeded")
    return period
