"""The events of another instance from the oldest on: a year after the other, page by page.

Newer PostHogs refuse to look through more than a year at once. Their next page is what comes after
the moment of the last event, so that moment is looked at again, and one that fills whole pages is
counted through.
"""

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from hedgerow.events.dates import EARLIEST, asked_moment
from hedgerow.lib.clock import Clock
from hedgerow.pipelines.imports.instance import Instance, asked_in, asking
from hedgerow.pipelines.imports.model import BadRow, Portion, SourceRow
from hedgerow.pipelines.model import JobProblem
from hedgerow.pipelines.sending import CannotSend

AT_ONCE = 1000
# Events may arrive late: what happened so long before the last one is asked for again.
OVERLAP = timedelta(hours=1)
# The shortest time that sources tell apart.
INSTANT = timedelta(milliseconds=1)
WINDOW = timedelta(days=365)
# Sources may tell the first moment in a time zone of theirs, without saying so.
LEEWAY = timedelta(days=1)
# So many can be passed over.
MAX_OFFSET = 50_000
OLDEST = {"query": {"kind": "HogQLQuery", "query": "SELECT min(timestamp) FROM events"}}


async def events_of(
    instance: Instance, since: str, cursor: Any, clock: Clock
) -> AsyncGenerator[Portion]:
    """Oldest first, page after page. The next run begins a little before where this one ended."""
    newest = cursor["newest"] if cursor else ""
    url = (cursor or {}).get("next") or await _first(instance, since, newest, clock)
    while url:
        results, following, _ = await instance.page(url)
        rows = [_row(each) for each in results if each.get("id")]
        bad = [
            BadRow(place=f"an event of {urlsplit(url).hostname}", reason="It has no id.")
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
        yield Portion(rows=rows, bad=bad, cursor={"newest": newest, "next": url})


def _next_page(url: str, following: str, moments: Sequence[Any]) -> tuple[str, Sequence[BadRow]]:
    """Where a next page is all that comes after the moment of the last event, others of that moment
    would be left out: it begins a little before. Where that is back where this one began, this one
    is asked for again without those that it gave."""
    asked = asked_in(following)
    if "cursor" in asked:
        return following, ()
    try:
        begun, after = datetime.fromisoformat(moments[0]), datetime.fromisoformat(asked["after"])
        is_on = after - INSTANT > begun
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        return following, ()
    if is_on:
        return asking(following, after=(after - INSTANT).isoformat(), offset=None), ()
    offset = int(asked_in(url).get("offset", 0)) + len(moments)
    if offset <= MAX_OFFSET:
        return asking(url, offset=offset), ()
    reason = f"The source tells of no more than some {MAX_OFFSET:,} events of one moment."
    lost = BadRow(place=f"events of {moments[0]}", reason=reason)
    return asking(following, offset=None), (lost,)


def _next_window(instance: Instance, url: str, now: datetime) -> str:
    """The year after that of an address; "" if there is none."""
    before = asked_in(url).get("before")
    # What happened at that very moment is neither before nor after it.
    return _window(instance, datetime.fromisoformat(before) - INSTANT, now) if before else ""


def _window(instance: Instance, after: datetime, now: datetime) -> str:
    """The last one has no end: sources know best what is now."""
    before = after + WINDOW
    end = {"before": before.isoformat()} if before < now else {}
    order = '["timestamp"]'
    return instance.url("events/", limit=AT_ONCE, orderBy=order, after=after.isoformat(), **end)


async def _first(instance: Instance, since: str, newest: str, clock: Clock) -> str:
    now = clock()
    if newest:
        # A clock that is wrong there must not hide what comes after.
        after = min(datetime.fromisoformat(newest), now) - OVERLAP
    elif since:
        # What happened at that very moment is not after it.
        after = asked_moment(since, now, UTC, "config__date_from") - INSTANT
    else:
        after = await _oldest(instance, now)
    return _window(instance, after, now)


async def _oldest(instance: Instance, now: datetime) -> datetime:
    """From when on there are events, if the source tells, so that no empty years are asked for."""
    try:
        answer = await instance.post(instance.url("query/"), OLDEST)
        said = answer["results"][0][0]
        if said is None:
            return now - WINDOW
        moment = datetime.fromisoformat(said)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(moment.astimezone(UTC) - LEEWAY, EARLIEST)
    except (JobProblem, CannotSend, LookupError, TypeError, ValueError, OverflowError):
        return EARLIEST


def _row(event: dict[str, Any]) -> SourceRow:
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
    return SourceRow(identity=str(event["id"]), place=place, values=values)
