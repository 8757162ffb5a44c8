"""Deletes the data of deleted projects, in steps that a crash interrupts without harm.

Requests and transactions that began before the deletion may still add data, so deleting begins once
those have ended, and is repeated until nothing is found.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Protocol

from hedgerow.lib.clock import Clock
from hedgerow.lib.threads import consume_exception
from hedgerow.projects.deletion import ProjectDeletion, ProjectDeletions
from hedgerow.projects.model import ProjectId

# Longer than a transaction or an insert that began before the deletion.
SETTLING_TIME = timedelta(seconds=30)
LEASE_RENEW_INTERVAL_S = 10.0
# How long to wait for events that the processor has yet to drop.
DRAIN_TIMEOUT_S = 10.0
DRAIN_POLL_S = 0.2


class ErasableEvents(Protocol):
    """Events and replicas of persons in the event store."""

    async def delete_project(self, project_id: ProjectId) -> int:
        """Delete all rows of a project from the files, and return how many events there were."""
        ...


class ProjectErasure:
    """`purges` remove what is deleted by now from the disk. `settling_time` is how long data may
    arrive after the deletion. `on_purged` is called when all data of a project is gone."""

    def __init__(
        self,
        deletions: ProjectDeletions,
        events: ErasableEvents,
        purges: Sequence[Callable[[], Awaitable[None]]],
        clock: Clock,
        *,
        settling_time: timedelta,
        on_purged: Callable[[ProjectDeletion], None],
    ) -> None:
        self._deletions = deletions
        self._events = events
        self._purges = purges
        self._clock = clock
        self._settling_time = settling_time
        self._on_purged = on_purged

    async def run(self) -> None:
        now = self._clock()
        for deletion in await self._deletions.list_unpurged():
            if now < deletion.requested_at + self._settling_time:
                continue
            async with self._hold(deletion.project_id) as is_held:
                if is_held:
                    await self._erase(deletion)

    @asynccontextmanager
    async def _hold(self, id: ProjectId) -> AsyncIterator[bool]:
        """Hold the lease of a deletion, unless another process does."""
        if not await self._deletions.acquire(id):
            yield False
            return
        renewing = asyncio.create_task(self._renew(id))
        renewing.add_done_callback(consume_exception)
        try:
            yield True
        finally:
            renewing.cancel()
            await self._deletions.release(id)

    async def _renew(self, id: ProjectId) -> None:
        while True:
            await asyncio.sleep(LEASE_RENEW_INTERVAL_S)
            await self._deletions.acquire(id)

    async def _erase(self, deletion: ProjectDeletion) -> None:
        id = deletion.project_id
        newest = await self._deletions.find_newest_processed()
        rows = await self._delete_rows(id)
        events = await self._events.delete_project(id)
        if deletion.events_deleted is None:
            await self._deletions.save_event_count(id, events)
        if rows or events or not await self._wait_until_stored(newest):
            return  # the next run looks for more
        for purge in self._purges:
            await purge()
        await self._deletions.mark_purged(id, self._clock())
        self._on_purged(deletion)

    async def _delete_rows(self, id: ProjectId) -> int:
        """Delete the rows of all tables, with a pause as long as the work after each step, and
        return how many there were."""
        total = 0
        for table in range(self._deletions.table_count):
            count = 1
            while count:
                started = time.monotonic()
                count = await self._deletions.delete_batch(id, table)
                total += count
                await asyncio.sleep(time.monotonic() - started if count else 0)
        return total

    async def _wait_until_stored(self, newest: int) -> bool:
        """Wait until the processor has dropped the events that it had processed before. Return
        False if they still wait."""
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while await self._deletions.has_processed_until(newest):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(DRAIN_POLL_S)
        return True
