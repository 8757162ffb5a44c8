"""Replay: stored events of a time are put into the queue of one destination, some at a time.

What the destination has got, or is about to get, is left out unless it is asked for. Each step is
one transaction: the deliveries, and where to go on.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from hedgerow.events.model import Event
from hedgerow.events.store import AnswerTooLarge
from hedgerow.lib.clock import Clock
from hedgerow.pipelines.deliveries import LogLevel, LogLine, NewDelivery
from hedgerow.pipelines.filters import wants
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.replay_span import Place, Span, span_of
from hedgerow.pipelines.running import Held, Step
from hedgerow.projects.model import ProjectId

# So many events are read at a time, as long as fewer than so many wait in the queue.
STEP = 2500
FULL = 5000
# Where events are large, a step holds so many times fewer of them, and if need be again.
FEWER = 8
LOOK_S, MAX_LOOK_S = 0.05, 1.0
# Clocks of several machines, and moments within one commit, may differ by so much.
MARGIN = timedelta(seconds=1)


class ReplayedEvents(Protocol):
    async def wait_since(self) -> datetime | None:
        """When the oldest event was accepted that is not stored and routed yet."""
        ...

    async def count(self, project_id: ProjectId, span: Span) -> int: ...

    async def some(
        self, project_id: ProjectId, span: Span, after: Place | None, limit: int
    ) -> Sequence[Event]:
        """The first events of a span after a place, by time and uuid. AnswerTooLarge if fewer must
        be asked for."""
        ...


class ReplayQueue(Protocol):
    async def newest(self, record_id: RecordId) -> int:
        """The number of the delivery that was made last."""
        ...

    async def length(self, record_id: RecordId, at_most: int) -> int:
        """How many deliveries were never tried; counting ends at a number."""
        ...

    async def queued(self, record_id: RecordId, newest: int) -> Sequence[str]:
        """The uuids of what is to be sent, of deliveries up to a number."""
        ...

    async def delivered(self, record_id: RecordId, events: Sequence[Event]) -> set[str]:
        """The uuids of those of some events that the destination has got."""
        ...


class _Cursor(msgspec.Struct, frozen=True, kw_only=True):
    span: Span
    newest: int
    place: Place | None = None


class Replay:
    """`wake` hears of records that there is something new for."""

    def __init__(
        self,
        events: ReplayedEvents,
        queue: ReplayQueue,
        wake: Callable[[Iterable[RecordId]], None],
        clock: Clock,
    ) -> None:
        self._events = events
        self._queue = queue
        self._wake = wake
        self._clock = clock

    async def run(self, held: Held) -> None:
        record, job = held.record, held.job
        cursor, total = await self._begun(held)
        wanted = wants(record.config)
        again = bool(job.payload.get("again"))
        done = job.done
        counts = {name: int(job.details.get(name, 0)) for name in ("queued", "skipped", "unwanted")}
        limit = STEP
        while True:
            await self._room(record.id)
            try:
                page = await self._events.some(record.project_id, cursor.span, cursor.place, limit)
            except AnswerTooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // FEWER)
                continue
            if not page:
                break
            now = self._clock()
            fitting = [event for event in page if wanted(event, now)]
            new = await self._new(held, cursor, fitting, again=again)
            done += len(page)
            counts["queued"] += len(new)
            counts["skipped"] += len(fitting) - len(new)
            counts["unwanted"] += len(page) - len(fitting)
            last = page[-1]
            cursor = msgspec.structs.replace(
                cursor, place=Place(timestamp=last.timestamp, uuid=last.uuid)
            )
            await held.save(
                Step(
                    cursor=msgspec.to_builtins(cursor),
                    done=done,
                    total=max(total, done),
                    details=counts,
                    deliveries=[NewDelivery(record_id=record.id, event=event) for event in new],
                )
            )
            self._wake([record.id])
        await held.save(
            Step(
                cursor=msgspec.to_builtins(cursor),
                done=done,
                total=done,
                details=counts,
                logs=[_summary(counts)],
            )
        )

    async def _begun(self, held: Held) -> tuple[_Cursor, int]:
        job = held.job
        if job.cursor is not None:
            return msgspec.convert(job.cursor, _Cursor), job.total or 0
        # Until then, what is on its way might be sent by both ways.
        while (since := await self._events.wait_since()) and since <= job.created_at + MARGIN:
            await asyncio.sleep(LOOK_S)
        span = span_of(job.payload, job.created_at)
        cursor = _Cursor(span=span, newest=await self._queue.newest(held.record.id))
        total = await self._events.count(held.record.project_id, span)
        await held.save(Step(cursor=msgspec.to_builtins(cursor), done=0, total=total))
        return cursor, total

    async def _room(self, record_id: RecordId) -> None:
        """Until there is room in the queue. One that is not emptied is looked at more rarely."""
        pause_s = LOOK_S
        while await self._queue.length(record_id, FULL) >= FULL:
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, MAX_LOOK_S)

    async def _new(
        self, held: Held, cursor: _Cursor, events: Sequence[Event], *, again: bool
    ) -> list[Event]:
        """Those that the destination neither has got nor will get anyway. The queue is looked at
        first: what is sent meanwhile is in the memory of what was delivered by then."""
        queued = set(await self._queue.queued(held.record.id, cursor.newest))
        left = [event for event in events if event.uuid not in queued]
        if again or not left:
            return left
        delivered = await self._queue.delivered(held.record.id, left)
        return [event for event in left if event.uuid not in delivered]


def _summary(counts: dict[str, Any]) -> LogLine:
    return LogLine(
        level=LogLevel.INFO,
        message=f"Replay: {counts['queued']} events to be sent, {counts['skipped']} left out that "
        f"have been or will be, {counts['unwanted']} that the filters do not want.",
    )
