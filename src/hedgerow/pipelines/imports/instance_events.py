"""Reads the events of another instance, oldest first, in windows of a year and page by page.

Newer PostHog versions refuse to search more than a year. Their next page begins after the timestamp
of the last event, so that timestamp is read again; one that fills whole pages is read by offset.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock
from hedgerow.lib.dates import EARLIEST
from hedgerow.lib.text import truncate
from hedgerow.pipelines.imports.files import download
from hedgerow.pipelines.imports.instance import (
    PostHogInstance,
    ResponseTooLarge,
    fetch_fitting,
    parse_page,
    query_parameters,
    with_query_parameters,
)
from hedgerow.pipelines.imports.reading import EventsSummary, PreparedBatch
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.imports import BadRow, ImportBatch, ImportContext, JobError, SourceRow
from hedgerow.projects.validation import parse_date_parameter

PAGE_SIZE = 1000
MAX_PAGE_BYTES = 16 * 1024 * 1024
MAX_TIMESTAMP_CHARACTERS = 64
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsPage:
    rows: Sequence[SourceRow]
    bad: Sequence[BadRow]
    summary: EventsSummary


# Requests and parses a page, in a worker process or here.
ReadPage = Callable[[str], Awaitable[tuple[EventsSummary, ImportBatch]]]


async def read_events(
    instance: PostHogInstance, since: str, cursor: Any, clock: Clock, read_page: ReadPage
) -> AsyncGenerator[ImportBatch]:
    """Yield events, oldest first. The next run begins a little before the end of this one."""
    newest = cursor["newest"] if cursor else ""
    url = (cursor or {}).get("next") or await _first_url(instance, since, newest, clock)
    while url:
        page, batch = await read_page(url)
        newest = max(newest, page.newest)
        lost: Sequence[BadRow] = ()
        if page.following:
            following, lost = _next_page(url, instance.rebase_url(page.following), page)
            if following == url:
                raise JobError("The instance names the same page as its next one.")
            url = following
        else:
            url = _next_window(instance, url, clock())
        yield replace(batch, bad=[*batch.bad, *lost], cursor={"newest": newest, "next": url})


async def read_page_here(instance: PostHogInstance, url: str) -> tuple[EventsSummary, ImportBatch]:
    """Parse a page in this process, for commands."""
    items, following, _ = await instance.page(url)
    page = _summarize_page(items, following, str(urlsplit(url).hostname))
    return page.summary, ImportBatch(rows=page.rows, bad=page.bad, cursor=None)


async def read_page_in_worker(
    instance: PostHogInstance, ctx: ImportContext, url: str
) -> tuple[EventsSummary, ImportBatch]:
    async def fetch(url: str) -> tuple[EventsSummary, ImportBatch]:
        too_large = ResponseTooLarge(MAX_PAGE_BYTES)
        async with (
            instance.open_page(url) as stream,
            download(stream, ctx, MAX_PAGE_BYTES, too_large) as file,
        ):
            page = await ctx.reader.parse_events(file, str(urlsplit(url).hostname))
        return page.events, PreparedBatch(prepared=page.rows, cursor=None)

    return await fetch_fitting(url, fetch)


def parse_events_page(body: bytes, host: str) -> EventsPage:
    try:
        items, following, _ = parse_page(jsonio.parse(body))
    except jsonio.JsonError as error:
        raise JobError(f"The response is not a page of events. {error}.") from None
    if len(items) > PAGE_SIZE:
        raise JobError(
            f"The instance returned {len(items):,} events for a page of at most {PAGE_SIZE:,}."
        )
    return _summarize_page(items, following, host)


def _summarize_page(items: Sequence[Any], following: str, host: str) -> EventsPage:
    events = [each for each in items if isinstance(each, dict)]
    good = [each for each in events if each.get("id")]
    no_id = BadRow(location=f"an event of {host}", reason="It has no id.")
    no_object = BadRow(location=f"an event of {host}", reason="It is not a JSON object.")
    bad = [no_id] * (len(events) - len(good)) + [no_object] * (len(items) - len(events))
    moments = [
        moment if isinstance(moment, str) and len(moment) <= MAX_TIMESTAMP_CHARACTERS else ""
        for moment in (each.get("timestamp") for each in events)
    ]
    summary = EventsSummary(
        count=len(items),
        first=next(iter(moments), ""),
        newest=max(moments, default=""),
        following=following,
    )
    return EventsPage(rows=[_build_row(each) for each in good], bad=bad, summary=summary)


def _next_page(url: str, following: str, page: EventsSummary) -> tuple[str, Sequence[BadRow]]:
    """Return the URL of the next page, and events that cannot be read.

    A next page that begins after the last timestamp would skip other events of that timestamp, so
    it starts a little earlier. If that leads back to the start of this page, the offset grows.
    """
    parameters = query_parameters(following)
    if "cursor" in parameters:
        return following, ()
    try:
        start, after = (
            datetime.fromisoformat(page.first),
            datetime.fromisoformat(parameters["after"]),
        )
        advances = after - TIME_RESOLUTION > start
    except (KeyError, TypeError, ValueError, OverflowError):
        return following, ()
    if advances:
        return with_query_parameters(
            following, after=(after - TIME_RESOLUTION).isoformat(), offset=None
        ), ()
    offset = int(query_parameters(url).get("offset", 0)) + page.count
    if offset <= MAX_OFFSET:
        return with_query_parameters(url, offset=offset), ()
    reason = f"The source returns at most {MAX_OFFSET:,} events with the same timestamp."
    lost = BadRow(location=f"events of {page.first}", reason=reason)
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
    place = f"event {truncate(str(event['id']))}"
    return SourceRow(identity=str(event["id"]), location=place, values=values)
