"""Keeping the copies of persons, groups and cohorts beside the events like what they are copies of.

Every step may be repeated, and may be done by several processes at once: a copy carries the number
of the change that it shows, and the greatest counts.
"""

import asyncio

from hedgerow.persons.mirrored import Copy
from hedgerow.persons.store import MirrorQueue, MirrorTables

# Rows are read in small portions, between which others have their turn, and stored together.
READ_AT_ONCE = 250
COPIED_AT_ONCE = 5_000
MAX_SIZE = 16 * 1024 * 1024
WALKED_AT_ONCE = 2_000
# So many changes may wait for whoever asks for the first query.
ENOUGH_TO_OPEN = 20_000


class Mirror:
    def __init__(self, queue: MirrorQueue, tables: MirrorTables) -> None:
        self._queue = queue
        self._tables = tables
        self._turn = asyncio.Lock()
        self._is_checked = False
        self._under_way: set[asyncio.Task[None]] = set()

    async def keep_up(self) -> None:
        """One turn of the background loop. Where nobody has asked for events yet, the event store
        is not opened for a few changes."""
        if self._tables.is_open or await self._queue.length() > ENOUGH_TO_OPEN:
            await self._copy_all_by_now()

    async def arrived(self, *, at_most_s: float) -> None:
        """Until all that has changed by now can be queried, or the time is over."""
        work = asyncio.create_task(self._copy_all_by_now())
        # It goes on when the time is over: what it has begun is of use to the next.
        self._under_way.add(work)
        work.add_done_callback(self._end)
        await asyncio.wait({work}, timeout=at_most_s)
        if work.done():
            work.result()

    def _end(self, work: asyncio.Task[None]) -> None:
        self._under_way.discard(work)
        if not work.cancelled():
            work.exception()  # looked at, so that asyncio does not complain where nobody waits

    async def _copy_all_by_now(self) -> None:
        if not self._is_checked:
            async with self._turn:
                await self._queue.begin_again(await self._tables.newest_version())
                self._is_checked = True
        newest = await self._queue.newest()
        if newest is None:
            return
        async with self._turn:
            while (oldest := await self._queue.oldest()) is not None and oldest <= newest:
                await self._copy_some()

    async def _copy_some(self) -> None:
        ids: list[int] = []
        copies: list[Copy] = []
        after = size = 0
        while len(ids) < COPIED_AT_ONCE and size < MAX_SIZE:
            taken = await self._queue.take(
                after=after, limit=READ_AT_ONCE, max_size=MAX_SIZE - size
            )
            if not taken.ids:
                break
            ids += taken.ids
            copies += taken.copies
            size += taken.size
            after = taken.ids[-1]
            # Reading may not have waited for anything: let others have their turn.
            await asyncio.sleep(0)
        if ids:
            await self._tables.append(copies)
            await self._queue.done(ids)
        finished = await self._queue.walk_on(WALKED_AT_ONCE)
        if finished is not None:
            await self._tables.forget_older(finished.kind, finished.id)
            await self._queue.done([finished.id])
