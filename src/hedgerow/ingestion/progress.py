"""Tracks how far accepted events have come, so that readers can wait for earlier writes.

Events are processed and stored in the order in which they were accepted, so counters suffice: the
n-th event has its person once n are processed, and can be queried once n are stored.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from hedgerow.lib.eager import ensure_task
from hedgerow.projects.model import ProjectId

DistinctIdKey = tuple[ProjectId, str]


class Progress:
    def __init__(self) -> None:
        self.accepted = self.processed = self.stored = 0
        # The end of the backlog of the previous process, whose distinct ids are unknown.
        self._restored = 0
        # The backlog of all processes at the last observation.
        self._observed = 0
        # The distinct ids of unprocessed events, oldest first, and the last event of each.
        self._unprocessed: deque[tuple[int, DistinctIdKey]] = deque()
        self._last_event: dict[DistinctIdKey, int] = {}
        # How many readers wait for events to be processed or stored.
        self._readers = 0
        # Set at the next change; None while nobody waits.
        self._advanced: asyncio.Event | None = None

    @property
    def waiting(self) -> int:
        return max(self.accepted - self.stored, self._observed)

    @property
    def is_all_stored(self) -> bool:
        return self.stored >= self.accepted

    def restore(self, *, unprocessed: int, unstored: int) -> None:
        """Add the backlog that the previous process left."""
        self.processed += unstored
        self.accepted += unprocessed + unstored
        self._restored = self.accepted
        self._notify()

    def accept(self, project_id: ProjectId, distinct_ids: Iterable[str]) -> None:
        for distinct_id in distinct_ids:
            self.accepted += 1
            key = (project_id, distinct_id)
            self._unprocessed.append((self.accepted, key))
            self._last_event[key] = self.accepted
        self._notify()

    def accept_together(
        self, project_id: ProjectId, number: int, distinct_ids: Iterable[str]
    ) -> None:
        """Count `number` events that have or change these distinct ids."""
        self.accepted += number
        for distinct_id in distinct_ids:
            self.add_distinct_id(project_id, distinct_id)
        self._notify()

    def add_distinct_id(self, project_id: ProjectId, distinct_id: str) -> None:
        """Register another distinct id that the last accepted event changes."""
        key = (project_id, distinct_id)
        self._unprocessed.append((self.accepted, key))
        self._last_event[key] = self.accepted

    def mark_processed(self, number: int) -> None:
        self.processed += number
        while self._unprocessed and self._unprocessed[0][0] <= self.processed:
            position, key = self._unprocessed.popleft()
            if self._last_event.get(key) == position:
                del self._last_event[key]
        self._notify()

    def mark_stored(self, number: int) -> None:
        self.stored += number
        self._notify()

    def observe(self, accepted: int, *, unprocessed: int, unstored: int) -> None:
        """Update the counters from the backlog of all processes, which may include all events of
        this process. `accepted` is this process's counter before the backlog was counted: later
        events may be missing from it."""
        self._observed = unprocessed + unstored
        self.mark_processed(max(0, accepted - unprocessed - self.processed))
        self.mark_stored(max(0, accepted - unprocessed - unstored - self.stored))

    def is_processed(self, key: DistinctIdKey) -> bool:
        return key not in self._last_event and self.processed >= self._restored

    async def wait_until_processed(self, key: DistinctIdKey, *, timeout_s: float) -> None:
        """Wait until the accepted events of a distinct id are processed, or for the timeout."""
        target = self._last_event.get(key, self._restored)
        await self._wait_as_reader(lambda: self.processed >= target, timeout_s)
        if self.processed < target == self._restored:
            # The restored backlog takes longer than the timeout: only one reader waits for it.
            self._restored = 0

    async def wait_until_all_processed(self, *, timeout_s: float) -> None:
        """Wait until all events accepted by now are processed, or for the timeout."""
        target = self.accepted
        await self._wait_as_reader(lambda: self.processed >= target, timeout_s)

    async def wait_until_stored(self, *, timeout_s: float) -> None:
        """Wait until all events accepted by now are stored, or for the timeout."""
        target = self.accepted
        await self._wait_as_reader(lambda: self.stored >= target, timeout_s)

    async def wait_for_readers(self, *, idle_s: float) -> bool:
        """Wait until a reader waits, or for `idle_s`. Return whether one waits."""
        await self._wait(lambda: self._has_readers, idle_s)
        return self._has_readers

    async def wait_for_unprocessed(self, enough: int, *, idle_s: float, linger_s: float) -> None:
        """Wait for an unprocessed event, then a little longer for more: a batch costs little more
        than one event. Does not linger while a reader waits."""
        await self._wait(lambda: self.accepted > self.processed, idle_s)
        await self._wait(
            lambda: self.accepted - self.processed >= enough or self._has_readers, linger_s
        )

    async def wait_for_unstored(self, enough: int, *, idle_s: float, linger_s: float) -> None:
        """The same for processed events that are not stored."""
        await self._wait(lambda: self.processed > self.stored, idle_s)
        await self._wait(
            lambda: self.processed - self.stored >= enough or self._has_readers, linger_s
        )

    @property
    def _has_readers(self) -> bool:
        return self._readers > 0

    async def _wait_as_reader(self, is_met: Callable[[], bool], timeout_s: float) -> None:
        self._readers += 1
        self._notify()
        try:
            await self._wait(is_met, timeout_s)
        finally:
            self._readers -= 1

    async def _wait(self, is_met: Callable[[], bool], timeout_s: float) -> None:
        if is_met():
            return
        await ensure_task()
        try:
            async with asyncio.timeout(timeout_s):
                while not is_met():
                    self._advanced = self._advanced or asyncio.Event()
                    await self._advanced.wait()
        except TimeoutError:
            return

    def _notify(self) -> None:
        """Wake all waiters. Those that go on waiting wait for the next event object."""
        if self._advanced is not None:
            self._advanced.set()
            self._advanced = None
