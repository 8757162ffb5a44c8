"""Reads the events of another instance, oldest first, in windows of a year and page by page.

Newer PostHog versions refuse to search more than a year. Their next page begins after the timestamp
of the last event, so that timestamp is read again; one that fills whole pages is read by offset.
"""

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from hedgerow.lib.clock import Clock
from hedgerow.lib.dates import EARLIEST
from hedgerow.pipelines.imports.instance import (
    PostHogInstance,
    query_parameters,
    with_query_parameters,
)
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.imports import BadRow, ImportBatch, JobError, SourceRow
from hedgerow.projects.validation import parse_date_parameter

PAGE_SIZE = 1000
# Events may arrive late, so the next run starts this much before the last event.
OVERLAP = timedelta(hours=1)
# The resolution of timestamps in sources.
TIME_RESOLUTION = timedelta(milliseconds=1)
WINDOW = timedelta(days=365)
# Sources may return the first timestamp in their own time zone, without naming it.
TIME_ZONE_MARGIN = timedelta(days=1)
# The largest offset that sources accept.
MAX_OFFSET = 50_000
OLDEST_EVENT_QUERY = {"query": {"kind": "HogQLQuery", "query": "SELECT min(timestamp) FROM events"}}


async def read_events(
    instance: PostHogInstance, since: str, cursor: Any, clock: Clock
) -> AsyncGenerator[ImportBatch]:
    """Yield events, oldest first. The next run begins a little before the end of this one."""
    newest = cursor["newest"] if cursor else ""
    url = (cursor or {}).get("next") or await _first_url(instance, since, newest, clock)
    while url:
        results, following, _ = await instance.page(url)
        rows = [_build_row(each) for each in results if each.get("id")]
        bad = [
            BadRow(location=f"an event of {urlsplit(url).hostname}", reason="It has no id.")
            for each in results
            if not each.get("id")
        ]
        moments = [each.get("timestamp") for each in results]
        newest = max([newest, *(each for each in moments if isinstance(each, str))])
        if following:
            url, lost = _next_page(url, following, moments)
            bad += lost
        else:
            url = _next_window(instance, url, clock())
        yield ImportBatch(rows=rows, bad=bad, cursor={"newest": newest, "next": url})


def _next_page(url: str, following: str, moments: Sequence[Any]) -> tuple[str, Sequence[BadRow]]:
    """Return the URL of the next page, and events that cannot be read.

    A next page that begins after the last timestamp would skip other events of that timestamp, so
    it starts a little earlier. If that leads back to the start of this page, the offset grows.
    """
    parameters = query_parameters(following)
    if "cursor" in parameters:
        return following, ()
    try:
        start, after = (
            datetime.fromisoformat(moments[0]),
            datetime.fromisoformat(parameters["after"]),
        )
        advances = after - TIME_RESOLUTION > start
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        return following, ()
    if advances:
        return with_query_parameters(
            following, after=(after - TIME_RESOLUTION).isoformat(), offset=None
        ), ()
    offset = int(query_parameters(url).get("offset", 0)) + len(moments)
    if offset <= MAX_OFFSET:
        return with_query_parameters(url, offset=offset), ()
    reason = f"The source returns at most {MAX_OFFSET:,} events with the same timestamp."
    lost = BadRow(location=f"events of {moments[0]}", reason=reason)
    return with_query_parameters(following, offset=None), (lost,)


def _next_window(instance: PostHogInstance, url: str, now: datetime) -> str:
    """Return the URL of the window after that of a URL; "" if there is none."""
    before = query_parameters(url).get("before")
    # An event at exactly that time is neither before nor after it.
    return (
        _window_url(instance, datetime.fromisoformat(before) - TIME_RESOLUTION, now)
        if before
        else ""
    )


def _window_url(instance: PostHogInstance, after: datetime, now: datetime) -> str:
    """Return the URL of a window. The last one has no end: the source's clock decides."""
    before = after + WINDOW
    end = {"before": before.isoformat()} if before < now else {}
    order = '["timestamp"]'
    return instance.url("events/", limit=PAGE_SIZE, orderBy=order, after=after.isoformat(), **end)


async def _first_url(instance: PostHogInstance, since: str, newest: str, clock: Clock) -> str:
    now = clock()
    if newest:
        # A wrong clock of the source must not hide later events.
        after = min(datetime.fromisoformat(newest), now) - OVERLAP
    elif since:
        # An event at exactly that time is not after it.
        after = parse_date_parameter(since, now, UTC, "config__date_from") - TIME_RESOLUTION
    else:
        after = await _find_oldest(instance, now)
    return _window_url(instance, after, now)


async def _find_oldest(instance: PostHogInstance, now: datetime) -> datetime:
    """Ask for the first timestamp, so that empty years are skipped; EARLIEST if that fails."""
    try:
        answer = await instance.post(instance.url("query/"), OLDEST_EVENT_QUERY)
        value = answer["results"][0][0]
        if value is None:
            return now - WINDOW
        moment = datetime.fromisoformat(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(moment.astimezone(UTC) - TIME_ZONE_MARGIN, EARLIEST)
    except (JobError, TransportError, LookupError, TypeError, ValueError, OverflowError):
        return EARLIEST


def _build_row(event: dict[str, Any]) -> SourceRow:
    properties = event.get("properties")
    values = {
        "uuid": event["id"],
        "event": event.get("event"),
        "distinct_id": event.get("distinct_id"),
        "timestamp": event.get("timestamp"),
        "properties": properties if isinstance(properties, dict) else {},
        "elements_chain": event.get("elements_chain"),
    }
    place = f"event {event['id']}"
    return SourceRow(identity=str(event["id"]), location=place, values=values)
