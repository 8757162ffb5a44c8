"""What becomes of accepted events: they are transformed and get their persons, then they go to the
event store.

Each of the two steps ends in a durable row and is safe to repeat from any point. What cannot be
done with an event, for a reason of its own, keeps nobody else's events: it is set aside.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from hedgerow.errors import Unavailable
from hedgerow.events.elements import without_elements
from hedgerow.events.model import Event, EventKey, PersonMode
from hedgerow.events.store import EventStore
from hedgerow.ingestion.care import Blames, Careful, Note
from hedgerow.ingestion.model import Accepted, Arrived, IngestionWarning
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.repeats import KnownEvents, Repeats
from hedgerow.ingestion.store import (
    SETTLED_AT_ONCE,
    STORED_AT_ONCE,
    InboxStore,
    Ready,
    Settled,
)
from hedgerow.ingestion.transform import Transformed, Transforming
from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock
from hedgerow.persons.changes import Placed
from hedgerow.persons.known import Known
from hedgerow.persons.process import process
from hedgerow.pipelines.routing import Routing
from hedgerow.projects.model import ProjectId

FLAG_CALLED = "$feature_flag_called"
# How long to wait for so many that a transaction, or a block of the event store, is worth it.
LINGER_TO_SETTLE_S = 0.05
LINGER_TO_STORE_S = 0.5
LOOK_S = 0.5
# How much longer than it worked a worker leaves the field to a rush of senders.
GIVE_WAY = 4
# Whoever stops does not wait for a database that hangs: leases end by themselves.
LET_GO_S = 0.5
# What is known of the place of an address.
Place = Callable[[str], Mapping[str, Any]]


class Processor:
    """One worker. One that `is_alone` knows how far events have come by counting; others have to
    look (`watch`). `idle_s` is how long it waits to be woken."""

    def __init__(  # noqa: PLR0913 - what it works with, all named
        self,
        *,
        inbox: InboxStore,
        events: EventStore,
        progress: Progress,
        is_alone: bool,
        idle_s: float,
        place: Place,
        transforming: Transforming,
        routing: Routing,
        blames: Blames,
        note: Note,
        clock: Clock,
    ) -> None:
        self._inbox = inbox
        self._events = events
        self._progress = progress
        self._is_alone = is_alone
        self._idle_s = idle_s
        self._place = place
        self._transforming = transforming
        self._routing = routing
        self._clock = clock
        self._settling = Careful("settle", SETTLED_AT_ONCE, blames, note, self._set_aside_accepted)
        self._storing = Careful("store", STORED_AT_ONCE, blames, note, self._set_aside_ready)
        self._repeats = Repeats(events, is_alone=is_alone)
        # How many events this process has brought how far.
        self.settled = self.stored = 0
        # Whether something may still be on its way to the event store that we know no end of.
        self._is_storing = False
        self._is_appending = False

    @property
    def set_aside(self) -> int:
        """How many events this process had to set aside."""
        return self._settling.number + self._storing.number

    async def _set_aside_accepted(self, bucket: int, row: Accepted, reason: str) -> bool:
        return await self._inbox.set_aside_accepted(bucket, row, reason, self._clock())

    async def _set_aside_ready(self, bucket: int, row: Ready, reason: str) -> bool:
        await self._inbox.set_aside_ready(bucket, row, reason, self._clock())
        return True

    async def begin(self) -> None:
        """Learn what the process before left behind."""
        if not self._is_alone:
            return
        self._repeats.settled(await self._inbox.on_the_way())
        left = await self._inbox.waiting()
        self._progress.begin(unsettled=left.unsettled, unstored=left.unstored)

    async def end(self) -> None:
        """Leave to others at once what this process would have stored. After a failure they wait
        instead: the event store may be about to store what it was sent."""
        if self._is_alone or self._is_storing:
            return
        with suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(LET_GO_S):
                await self._inbox.let_go()

    async def settle(self) -> None:
        """Wait for events to settle, transform some of them and give them their persons."""
        if not self._settling.is_searching:
            await self._progress.wait_for_unsettled(
                SETTLED_AT_ONCE, idle_s=self._idle_s, linger_s=LINGER_TO_SETTLE_S
            )
        accepted, settled, began = self._progress.accepted, self.settled, time.monotonic()
        buckets = await self._inbox.unsettled_buckets()
        self._settling.look_at(buckets)
        found = {
            bucket: self._settling.some_of(bucket, await self._inbox.oldest(bucket))
            for bucket in buckets
        }
        if not any(found.values()):
            return
        every = [row for rows in found.values() for row in rows]
        known = await self._repeats.known(every)
        await self._transforming.refresh(every)
        for bucket, rows in found.items():
            work = partial(self._settle, bucket, known)
            if rows and await self._settling.attempt(bucket, rows, work):
                number = sum(row.number for row in rows)
                self.settled += number
                if self._is_alone:
                    self._progress.settle(number)
        if self._progress.accepted - accepted > self.settled - settled:
            # More come than go. Whoever sends waits for an answer, so they go first.
            spent = time.monotonic() - began
            await self._progress.wait_for_readers(idle_s=GIVE_WAY * spent)

    async def _settle(self, bucket: int, known: KnownEvents, rows: Sequence[Accepted]) -> bool:
        transformed = await self._transforming.transformed(rows, known)
        on_their_way: set[EventKey] = set()
        decide = partial(self._settled, known, transformed, on_their_way)
        if not await self._inbox.settle(bucket, transformed.rows, decide, self._clock()):
            return False
        # What was dropped or came again is on no way, and nobody would hear of its end.
        self._repeats.settled(on_their_way)
        return True

    async def store(self) -> None:
        """Wait for what is ready for the event store, and bring some of it there."""
        if not self._storing.is_searching:
            await self._progress.wait_for_unstored(
                STORED_AT_ONCE, idle_s=self._idle_s, linger_s=LINGER_TO_STORE_S
            )
        buckets = await self._inbox.unstored_buckets()
        self._storing.look_at(buckets)
        for bucket in buckets:
            rows = self._storing.some_of(bucket, await self._inbox.ready(bucket))
            if not rows:
                continue
            # No event is to blame if destinations cannot be read.
            await self._routing.refresh()
            if await self._storing.attempt(bucket, rows, self._store):
                self._repeats.stored(_keys(rows))
                number = sum(row.number for row in rows)
                self.stored += number
                if self._is_alone:
                    self._progress.store(number)

    async def _store(self, rows: Sequence[Ready]) -> bool:
        await self._append([event for row in rows for event in row.events])
        new = await self._routing.routed({row.id: row.events for row in rows})
        await self._inbox.stored(rows, new, self._clock())
        self._routing.made(new)
        return True

    async def _append(self, events: Sequence[Event]) -> None:
        self._is_storing = self._is_appending = True
        try:
            await self._events.append(events)
        finally:
            self._is_appending = False
        self._is_storing = False

    async def keep_leases(self) -> None:
        """Whoever takes long to store something has not died over it."""
        if self._is_appending:
            await self._inbox.keep_leases()

    async def watch(self) -> None:
        """See how far events have come that others work on: often while somebody waits for them.
        Where so much waits that looking takes long, most of the time goes by without it."""
        await self._progress.wait_for_readers(idle_s=LOOK_S)
        accepted, began = self._progress.accepted, time.monotonic()
        left = await self._inbox.waiting()
        self._progress.observe(accepted, unsettled=left.unsettled, unstored=left.unstored)
        await asyncio.sleep(4 * (time.monotonic() - began))

    def _settled(
        self,
        before: KnownEvents,
        transformed: Transformed,
        on_their_way: set[EventKey],
        project_id: ProjectId,
        sent: Sequence[Arrived],
        known: Known,
    ) -> Settled:
        arrived = before.without_repeats(project_id, sent)
        processed = process(project_id, known, arrived, self._place)
        events = [
            _event(project_id, event, placed)
            for event, placed in zip(arrived, processed.placed, strict=True)
            if placed is not None
        ]
        on_their_way.update((project_id, event.uuid) for event in events)
        return Settled(
            events=events,
            changes=processed.changes,
            warnings=[
                IngestionWarning(
                    type=each.type,
                    detail=each.detail,
                    event=each.event,
                    uuid=each.uuid,
                    distinct_id=each.distinct_id,
                )
                for each in processed.changes.warnings
            ],
            flag_calls=Counter(
                _call(event.properties) for event in arrived if event.event == FLAG_CALLED
            ),
            tallies=transformed.tallies.get(project_id, ()),
        )


def _keys(rows: Iterable[Ready]) -> Iterator[EventKey]:
    return ((event.project_id, event.uuid) for row in rows for event in row.events)


def _event(project_id: ProjectId, arrived: Arrived, placed: Placed) -> Event:
    elements_chain, properties = without_elements(placed.properties)
    return Event(
        project_id=project_id,
        uuid=arrived.uuid,
        event=arrived.event,
        distinct_id=placed.distinct_id,
        properties=jsonio.encode(properties).decode(),
        elements_chain=elements_chain,
        timestamp=arrived.timestamp,
        created_at=arrived.accepted_at,
        person_id=placed.person_uuid,
        person_created_at=placed.person_created_at,
        person_properties=placed.person_properties,
        person_mode=PersonMode(placed.mode),
        historical_migration=arrived.historical_migration,
    )


def _call(properties: Mapping[str, Any]) -> tuple[str, str]:
    """Which flag was called, and what it answered."""
    response = properties.get("$feature_flag_response")
    flag = properties.get("$feature_flag")
    return _short(flag), _short(response)


def _short(value: Any) -> str:
    return (value if isinstance(value, str) else jsonio.encode(value).decode())[:400]
