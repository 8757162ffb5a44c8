"""Deletes events that no delivery needs any more.

A segment, the events of one transaction, is examined when one of its batches has ended: as soon as
it has none, its events are deleted, but those of deliveries that are retried or dead. All segments
are examined now and then, for what a process that was killed has left, and for segments that a few
events of a paused destination keep.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection

from hedgerow.storage.deliveries.batches import decode_ids
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database

# Segments whose events are deleted in one transaction. Most have up to a thousand events.
SEGMENTS_PER_WRITE = 8
READ_SEGMENTS = 100
SEGMENTS_PER_PAGE = 200
DELETED_ROWS = 1000
# Beyond this the segments are left to the examination of all.
MAX_RELEASED = 100_000

_SELECT_UNUSED_SEGMENTS = (
    "SELECT DISTINCT segment FROM delivery_events AS e WHERE segment IN ({numbers})"
    " AND NOT EXISTS (SELECT 1 FROM delivery_batches AS b WHERE b.segment = e.segment)"
)
_DELETE_OF_SEGMENTS = (
    "DELETE FROM delivery_events WHERE segment IN ({numbers})"
    " AND NOT EXISTS (SELECT 1 FROM deliveries AS d WHERE d.event_id = delivery_events.id)"
)
_COUNT_EVENTS = (
    "SELECT segment, count(*) FROM delivery_events WHERE segment > ?"
    " GROUP BY segment ORDER BY segment LIMIT ?"
)
_FIND_LARGEST_BATCHES = (
    "SELECT segment, max(number) FROM delivery_batches WHERE segment IN ({numbers})"
    " GROUP BY segment"
)
_SELECT_BATCHES = "SELECT event_ids FROM delivery_batches WHERE segment IN ({numbers})"
_SELECT_WITHOUT_FAILED = (
    "SELECT id FROM delivery_events AS e WHERE segment IN ({numbers})"
    " AND NOT EXISTS (SELECT 1 FROM deliveries AS d WHERE d.event_id = e.id)"
)
_DELETE_EVENTS = "DELETE FROM delivery_events WHERE id IN ({numbers})"


class EventSweep:
    """An event that nothing needs is never needed again, so what was found is deleted later."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._released: set[int] = set()

    def add(self, segments: Collection[int]) -> None:
        """Examine these segments with the next run. Call this after the transaction that ended
        batches of them: whichever process commits last then finds none left."""
        if len(self._released) < MAX_RELEASED:
            self._released.update(segments)

    async def run(self) -> None:
        """Delete the events of the segments that were added and have no batch."""
        while self._released:
            some = [self._released.pop() for _ in range(min(len(self._released), READ_SEGMENTS))]
            is_done = False
            try:
                await self._delete_unused(some)
                is_done = True
            finally:
                if not is_done:
                    self._released.update(some)

    async def _delete_unused(self, segments: list[int]) -> None:
        unused = await self._database.read(lambda connection: _find_unused(connection, segments))
        for start in range(0, len(unused), SEGMENTS_PER_WRITE):
            await self._delete_segments(unused[start : start + SEGMENTS_PER_WRITE])

    async def _delete_segments(self, segments: Sequence[int]) -> None:
        await self._database.write(
            lambda connection: bulk.execute(connection, _DELETE_OF_SEGMENTS, list(segments))
        )

    async def run_for_all(self) -> None:
        """Examine all segments. A segment of which one destination needs all events, such as each
        one behind a paused destination, costs two rows of an index for each event."""
        after: int | None = 0
        while after is not None:
            counts = await self._read_page(after)
            after = max(counts) if len(counts) == SEGMENTS_PER_PAGE else None
            await self._sweep_page(counts)
            await asyncio.sleep(0)

    async def _read_page(self, after: int) -> Mapping[int, int]:
        return await self._database.read_in_background(
            lambda connection: dict(
                bulk.select(connection, _COUNT_EVENTS, after, SEGMENTS_PER_PAGE)
            )
        )

    async def _sweep_page(self, counts: Mapping[int, int]) -> None:
        """`counts` are the numbers of events by segment."""
        largest: Mapping[int, int] = await self._database.read_in_background(
            lambda connection: dict(bulk.select(connection, _FIND_LARGEST_BATCHES, list(counts)))
        )
        unused = await self._find_unused_events([each for each in counts if each not in largest])
        for segment, number in largest.items():
            if number < counts[segment]:
                unused += await self._find_unused_events([segment])
        for start in range(0, len(unused), DELETED_ROWS):
            await self._delete_events(unused[start : start + DELETED_ROWS])

    async def _find_unused_events(self, segments: list[int]) -> list[int]:
        def find(connection: Connection) -> list[int]:
            used: set[int] = set()
            for (event_ids,) in bulk.select(connection, _SELECT_BATCHES, segments):
                used.update(decode_ids(event_ids))
            rows = bulk.select(connection, _SELECT_WITHOUT_FAILED, segments)
            return [id for (id,) in rows if id not in used]

        return await self._database.read_in_background(find)

    async def _delete_events(self, ids: list[int]) -> None:
        await self._database.write(lambda connection: bulk.execute(connection, _DELETE_EVENTS, ids))


def _find_unused(connection: Connection, segments: list[int]) -> list[int]:
    rows = bulk.select(connection, _SELECT_UNUSED_SEGMENTS, segments)
    return [segment for (segment,) in rows]
