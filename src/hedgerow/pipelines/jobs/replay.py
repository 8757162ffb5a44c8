"""The replay job: queues the stored events of a time range for one destination again.

Events that the destination already has, or that are queued, are skipped unless the payload says
`again`. Each step stores new deliveries and the cursor in one transaction.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

import msgspec

from hedgerow.errors import Invalid
from hedgerow.events.model import Event
from hedgerow.events.store import ResultTooLarge
from hedgerow.lib.clock import Clock
from hedgerow.lib.threads import run_in_thread
from hedgerow.pipelines.deliveries.model import LogLevel, LogLine, NewDelivery
from hedgerow.pipelines.event_filters import EventPredicate, compile_event_filter
from hedgerow.pipelines.jobs.running import JobContext, JobStep
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.model import ProjectId
from hedgerow.projects.validation import parse_date_parameter

# Events per step; the job waits while the queue is longer than its maximum.
PAGE_SIZE = 2500
MAX_QUEUE_LENGTH = 5000
# A page that is too large is divided by this, repeatedly if needed.
PAGE_SIZE_DIVISOR = 8
POLL_INTERVAL_S, MAX_POLL_INTERVAL_S = 0.05, 1.0
# Clocks of machines, and times within one commit, may differ by this much.
CLOCK_SKEW = timedelta(seconds=1)
DEFAULT_RANGE = timedelta(hours=24)
MAX_NAMES = 1000
ATTR = "job__payload__"


class ReplayRange(msgspec.Struct, frozen=True, kw_only=True):
    """Events from `after` until before `before`, of these names if there are any. Events accepted
    later than `as_of` are delivered by normal routing. Stored in the cursor of jobs."""

    after: datetime
    before: datetime
    as_of: datetime
    names: Sequence[str] = ()


class EventPosition(msgspec.Struct, frozen=True, kw_only=True):
    """The last event that was processed. Stored in the cursor of jobs."""

    timestamp: datetime
    uuid: str


def check_replay_payload(payload: Mapping[str, Any], now: datetime) -> None:
    """Raise Invalid unless the payload describes a time range."""
    parse_replay_range(payload, now)


def parse_replay_range(payload: Mapping[str, Any], now: datetime) -> ReplayRange:
    """Parse the payload of a replay; relative dates count from `now`."""
    names = payload.get("events") or ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise Invalid("A list of event names is required.", attr=f"{ATTR}events")
    if len(names) > MAX_NAMES:
        raise Invalid(f"No more than {MAX_NAMES} names.", attr=f"{ATTR}events")
    before = _parse_date(payload, "date_to", now) or now
    after = _parse_date(payload, "date_from", now) or before - DEFAULT_RANGE
    if after >= before:
        raise Invalid("`date_to` must be after `date_from`.", attr=f"{ATTR}date_to")
    return ReplayRange(after=after, before=before, as_of=now, names=names)


def _parse_date(payload: Mapping[str, Any], name: str, now: datetime) -> datetime | None:
    value = payload.get(name)
    return parse_date_parameter(value, now, UTC, ATTR + name) if value else None


class ReplaySource(Protocol):
    async def wait_since(self) -> datetime | None:
        """Return when the oldest event that is not stored and routed yet was accepted."""
        ...

    async def count(self, project_id: ProjectId, span: ReplayRange) -> int: ...

    async def read_page(
        self, project_id: ProjectId, span: ReplayRange, after: EventPosition | None, limit: int
    ) -> Sequence[Event]:
        """Return the first events of a range after a position, by time and uuid. Raises
        ResultTooLarge if the limit must be smaller."""
        ...


class ReplayQueue(Protocol):
    async def end_pause(self, record_id: RecordId) -> None:
        """Let a paused destination get its next request now."""
        ...

    async def newest(self) -> int:
        """Return the id of the newest event that any destination gets."""
        ...

    async def length(self, record_id: RecordId, at_most: int) -> int:
        """Count the deliveries that were never attempted, up to a maximum."""
        ...

    async def queued(self, record_id: RecordId, newest: int) -> Sequence[str]:
        """Return the uuids of the events that wait or are retried, up to the id of an event."""
        ...

    async def delivered(self, record_id: RecordId, events: Sequence[Event]) -> set[str]:
        """Return the uuids of those events that the destination already has."""
        ...


class _ReplayCursor(msgspec.Struct, frozen=True, kw_only=True):
    span: ReplayRange
    newest: int
    place: EventPosition | None = None


class ReplayJob:
    """`wake` receives the records that have new deliveries."""

    def __init__(
        self,
        events: ReplaySource,
        queue: ReplayQueue,
        wake: Callable[[Iterable[RecordId]], None],
        clock: Clock,
    ) -> None:
        self._events = events
        self._queue = queue
        self._wake = wake
        self._clock = clock

    async def run(self, context: JobContext) -> None:
        record, job = context.record, context.job
        cursor, total = await self._start(context)
        matches = compile_event_filter(record.config)
        again = bool(job.payload.get("again"))
        done = job.done
        counts = {name: int(job.details.get(name, 0)) for name in ("queued", "skipped", "unwanted")}
        limit = PAGE_SIZE
        while True:
            await self._wait_for_space(record.id)
            try:
                page = await self._events.read_page(
                    record.project_id, cursor.span, cursor.place, limit
                )
            except ResultTooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // PAGE_SIZE_DIVISOR)
                continue
            if not page:
                break
            now = self._clock()
            # In a thread, because users write the filters.
            matching = await run_in_thread(partial(_select_events, page, matches, now))
            new = await self._select_new(context, cursor, matching, again=again)
            done += len(page)
            counts["queued"] += len(new)
            counts["skipped"] += len(matching) - len(new)
            counts["unwanted"] += len(page) - len(matching)
            last = page[-1]
            cursor = msgspec.structs.replace(
                cursor, place=EventPosition(timestamp=last.timestamp, uuid=last.uuid)
            )
            await context.save(
                JobStep(
                    cursor=msgspec.to_builtins(cursor),
                    done=done,
                    total=max(total, done),
                    details=counts,
                    deliveries=[NewDelivery(event=event, record_ids=[record.id]) for event in new],
                )
            )
            self._wake([record.id])
        await context.save(
            JobStep(
                cursor=msgspec.to_builtins(cursor),
                done=done,
                total=done,
                details=counts,
                logs=[_summarize(counts)],
            )
        )

    async def _start(self, context: JobContext) -> tuple[_ReplayCursor, int]:
        job = context.job
        if job.cursor is not None:
            return msgspec.convert(job.cursor, _ReplayCursor), job.total or 0
        # Events still in the inbox would be delivered twice: by routing and by this replay.
        while (since := await self._events.wait_since()) and since <= job.created_at + CLOCK_SKEW:
            await asyncio.sleep(POLL_INTERVAL_S)
        span = parse_replay_range(job.payload, job.created_at)
        cursor = _ReplayCursor(span=span, newest=await self._queue.newest())
        total = await self._events.count(context.record.project_id, span)
        await self._queue.end_pause(context.record.id)
        await context.save(JobStep(cursor=msgspec.to_builtins(cursor), done=0, total=total))
        return cursor, total

    async def _wait_for_space(self, record_id: RecordId) -> None:
        """Wait until the queue has space, polling less often if it does not shrink."""
        pause_s = POLL_INTERVAL_S
        while await self._queue.length(record_id, MAX_QUEUE_LENGTH) >= MAX_QUEUE_LENGTH:
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, MAX_POLL_INTERVAL_S)

    async def _select_new(
        self, context: JobContext, cursor: _ReplayCursor, events: Sequence[Event], *, again: bool
    ) -> list[Event]:
        """Return the events that the destination neither has nor will get. The queue is read first:
        an event that is delivered in between is then found among the delivered ones."""
        queued = set(await self._queue.queued(context.record.id, cursor.newest))
        left = [event for event in events if event.uuid not in queued]
        if again or not left:
            return left
        delivered = await self._queue.delivered(context.record.id, left)
        return [event for event in left if event.uuid not in delivered]


def _summarize(counts: dict[str, Any]) -> LogLine:
    return LogLine(
        level=LogLevel.INFO,
        message=f"Replay: {counts['queued']} events queued, {counts['skipped']} already delivered "
        f"or queued, {counts['unwanted']} excluded by the filters.",
    )


def _select_events(
    events: Sequence[Event], matches: EventPredicate, now: datetime
) -> Sequence[Event]:
    return [event for event in events if matches(event, now)]
