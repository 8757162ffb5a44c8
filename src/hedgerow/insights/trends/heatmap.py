"""The calendar heatmap of a trend: its amounts by day of the week and hour of the day."""

from collections.abc import Sequence
from typing import Any

from hedgerow.events.query.context import QueryContext
from hedgerow.hogql.ast import Select
from hedgerow.hogql.builders import field
from hedgerow.hogql.templates import build_select
from hedgerow.insights.trends.aggregation import SeriesQuery, build_amount, build_matches

DISPLAY = "CalendarHeatmap"
MATH = ("total", "dau")
# A day of the week is from 1, and this one stands for all; so does an hour of -1.
_ALL_DAYS, _ALL_HOURS = 0, -1


def build_heatmap_query(query: SeriesQuery, context: QueryContext) -> Select:
    """Build rows of day, hour and amount, and of those of all days and hours. Persons count once
    in each."""
    return build_select(
        f"""
        SELECT arrayJoin([
            tuple(toDayOfWeek({{at}}), toHour({{at}})), tuple(toDayOfWeek({{at}}), {_ALL_HOURS}),
            tuple({_ALL_DAYS}, toHour({{at}})), tuple({_ALL_DAYS}, {_ALL_HOURS})
        ]) AS cell, {{amount}} AS amount
        FROM events WHERE {{matches}} GROUP BY cell ORDER BY cell ASC
        """,  # noqa: S608 - ours
        at=field("timestamp"),
        amount=build_amount(query.series),
        matches=build_matches(query, context),
    )


def describe_heatmap(rows: Sequence[Any]) -> dict[str, Any]:
    """Return the cells in PostHog's shape."""
    cells = [(day, hour, amount) for (day, hour), amount in rows]
    return {
        "data": [
            {"row": day, "column": hour, "value": amount}
            for day, hour, amount in cells
            if day != _ALL_DAYS and hour != _ALL_HOURS
        ],
        "rowAggregations": [
            {"row": day, "value": amount}
            for day, hour, amount in cells
            if day != _ALL_DAYS and hour == _ALL_HOURS
        ],
        "columnAggregations": [
            {"column": hour, "value": amount}
            for day, hour, amount in cells
            if day == _ALL_DAYS and hour != _ALL_HOURS
        ],
        "allAggregations": sum(
            amount for day, hour, amount in cells if (day, hour) == (_ALL_DAYS, _ALL_HOURS)
        ),
    }
