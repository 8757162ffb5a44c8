"""The time of a project's first event, for `date_from: "all"`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hedgerow.events.query.context import QueryContext
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.hogql.parser.parse import parse_select
from hedgerow.insights.date_range import ALL_TIME

# Events from before are from clients whose clock is wrong. PostHog begins with 2015 as well.
_SQL = """
SELECT toUnixTimestamp(min(timestamp)) FROM events WHERE timestamp >= toDateTime('2015-01-01')
"""


async def find_earliest(
    executor: QueryExecutor, context: QueryContext, *date_ranges: Mapping[str, Any] | None
) -> datetime | None:
    """Return the time of the first event since 2015 if one of the ranges begins with it."""
    if all(not each or each.get("date_from") != ALL_TIME for each in date_ranges):
        return None
    found = await executor.execute(context, lambda: parse_select(_SQL))
    seconds = found.rows[0][0] if found.rows else 0
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
