"""Replicate persons, groups and cohorts to the event store, where queries join them with events.

Every step can be repeated, and several processes can replicate at once: a replica carries the
number of the change that it shows, and the greatest number wins.
"""

import asyncio

from hedgerow.lib.stale_reads import report_stale_read
from hedgerow.persons.replicas import Replica
from hedgerow.persons.store import ReplicaTables, ReplicationQueue

# Rows are read in small pages, so that other tasks run in between, and written together.
READ_PAGE_SIZE = 250
WRITE_BATCH_SIZE = 5_000
MAX_BATCH_BYTES = 16 * 1024 * 1024
BACKFILL_STEP_SIZE = 2_000
# With fewer changes than this, replication waits until a query opens the event store.
MAX_DEFERRED_CHANGES = 20_000


class Replicator:
    def __init__(self, queue: ReplicationQueue, tables: ReplicaTables) -> None:
        self._queue = queue
        self._tables = tables
        self._lock = asyncio.Lock()
        self._is_checked = False
        self._running: set[asyncio.Task[None]] = set()

    async def replicate_changes(self) -> None:
        """Replicate the queued changes. A periodic task calls this. A few changes are deferred
        while the event store is closed."""
        if self._tables.is_open or await self._queue.estimate_length() > MAX_DEFERRED_CHANGES:
            await self._replicate_all()

    async def wait_until_replicated(self, *, timeout_s: float) -> None:
        """Wait until all changes made by now can be queried. Report a stale read after the
        timeout."""
        work = asyncio.create_task(self._replicate_all())
        # The task continues after the timeout: the next caller needs its work as well.
        self._running.add(work)
        work.add_done_callback(self._discard_task)
        await asyncio.wait({work}, timeout=timeout_s)
        if work.done():
            work.result()
        else:
            report_stale_read()

    def _discard_task(self, work: asyncio.Task[None]) -> None:
        self._running.discard(work)
        if not work.cancelled():
            work.exception()  # retrieved, so that asyncio does not log it

    async def _replicate_all(self) -> None:
        if not self._is_checked:
            async with self._lock:
                await self._queue.restart_backfill(await self._tables.newest_version())
                self._is_checked = True
        newest = await self._queue.newest()
        if newest is None:
            return
        async with self._lock:
            while (oldest := await self._queue.oldest()) is not None and oldest <= newest:
                await self._replicate_batch()

    async def _replicate_batch(self) -> None:
        ids: list[int] = []
        replicas: list[Replica] = []
        after = size = 0
        while len(ids) < WRITE_BATCH_SIZE and size < MAX_BATCH_BYTES:
            changes = await self._queue.read_changes(
                after=after, limit=READ_PAGE_SIZE, max_size=MAX_BATCH_BYTES - size
            )
            if not changes.ids:
                break
            ids += changes.ids
            replicas += changes.replicas
            size += changes.size
            after = changes.ids[-1]
            # Reading may complete without suspending: let other tasks run.
            await asyncio.sleep(0)
        if ids:
            await self._tables.append(replicas)
            await self._queue.remove(ids)
        finished = await self._queue.backfill_step(BACKFILL_STEP_SIZE)
        if finished is not None:
            await self._tables.delete_older(finished.kind, finished.id)
            await self._queue.remove([finished.id])
