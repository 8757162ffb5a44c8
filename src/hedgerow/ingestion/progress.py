"""Tracks how far accepted events have come, so that readers can wait for earlier writes.

The only worker processes and stores events in the order in which they were accepted, so counters
suffice: the n-th event has its person once n are processed, and can be queried once n are stored.
With several workers the counters are estimates, and readers wait with `inbox_watch.py`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from hedgerow.lib.eager import ensure_task
from hedgerow.projects.model import ProjectId

Key = tuple[ProjectId, str]


class Progress:
    def __init__(self) -> None:
        self.accepted = self.processed = self.stored = 0
        # Where the unprocessed backlog of the previous process begins and ends, and the number of
        # the last of its events that changes a person or group. None until these are known.
        self._restored_from = self._restored = 0
        self._restored_names: Mapping[Key, int] | None = {}
        # The backlog of all processes at the last observation.
        self._observed = 0
        # What unprocessed events change, oldest first, and the last event of each.
        self._unprocessed: deque[tuple[int, Key]] = deque()
        self._last_event: dict[Key, int] = {}
        # How many readers wait for events to be processed or stored.
        self._readers = 0
        # Set at the next change; None while no task waits for it.
        self._advanced: asyncio.Event | None = None

    @property
    def waiting(self) -> int:
        return max(self.accepted - self.stored, self._observed)

    @property
    def is_all_processed(self) -> bool:
        return self.processed >= self.accepted

    @property
    def is_all_stored(self) -> bool:
        return self.stored >= self.accepted

    def restore(self, *, unprocessed: int, unstored: int) -> None:
        """Add the backlog that the previous process left. Its unprocessed events may change any
        person until `restore_names`."""
        self.processed += unstored
        self.accepted += unprocessed + unstored
        self._restored_from, self._restored = self.processed, self.accepted
        self._restored_names = None if unprocessed else {}
        self._notify()

    @property
    def has_unknown_names(self) -> bool:
        """Whether `restore_names` is to be called before further events are processed."""
        return self._restored_names is None

    def restore_names(self, names: Mapping[Key, int]) -> None:
        """Set what the unprocessed events of the backlog change: the number of the last event of
        each, from 1 for the first unprocessed event."""
        self._restored_names = names
        self._notify()

    def accept(self, project_id: ProjectId, distinct_ids: Iterable[str]) -> None:
        for distinct_id in distinct_ids:
            self.accepted += 1
            key = (project_id, distinct_id)
            self._unprocessed.append((self.accepted, key))
            self._last_event[key] = self.accepted
        self._notify()

    def accept_together(self, project_id: ProjectId, number: int, names: Iterable[str]) -> None:
        """Count `number` events that change these distinct ids and groups."""
        self.accepted += number
        for name in names:
            self.add_name(project_id, name)
        self._notify()

    def add_name(self, project_id: ProjectId, name: str) -> None:
        """Register another distinct id or group that the last accepted event changes."""
        key = (project_id, name)
        self._unprocessed.append((self.accepted, key))
        self._last_event[key] = self.accepted

    def mark_processed(self, number: int) -> None:
        self.processed += number
        while self._unprocessed and self._unprocessed[0][0] <= self.processed:
            position, key = self._unprocessed.popleft()
            if self._last_event.get(key) == position:
                del self._last_event[key]
        if self._restored_names and self.processed >= self._restored:
            self._restored_names = {}
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

    def is_processed(self, project_id: ProjectId, names: Iterable[str]) -> bool:
        """Return whether no accepted event that changes one of these is unprocessed."""
        keys = [(project_id, name) for name in names]
        return self.processed >= self._find_last_restored(keys) and not any(
            key in self._last_event for key in keys
        )

    def _find_last_restored(self, keys: Iterable[Key]) -> int:
        """Return the position of the last event of the backlog that changes one of these."""
        if self._restored_names is None:
            return self._restored
        last = max((self._restored_names.get(key, 0) for key in keys), default=0)
        return self._restored_from + last if last else 0

    async def wait_until_processed(
        self, project_id: ProjectId, names: Sequence[str], *, until: int, timeout_s: float
    ) -> bool:
        """Wait until those of the first `until` accepted events that change these are processed, or
        for the timeout. Return whether they are."""
        keys = [(project_id, name) for name in names]
        last = min(max(self._last_event.get(key, 0) for key in keys), until)

        def is_met() -> bool:
            return self.processed >= max(last, self._find_last_restored(keys))

        await self._wait_as_reader(is_met, timeout_s)
        return is_met()

    async def wait_until_all_processed(self, *, timeout_s: float) -> bool:
        """Wait until all events accepted by now are processed, or for the timeout. Return whether
        they are."""
        target = self.accepted
        await self._wait_as_reader(lambda: self.processed >= target, timeout_s)
        return self.processed >= target

    async def wait_until_stored(self, *, timeout_s: float) -> bool:
        """Wait until all events accepted by now are stored, or for the timeout. Return whether they
        are."""
        target = self.accepted
        await self._wait_as_reader(lambda: self.stored >= target, timeout_s)
        return self.stored >= target

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

    @contextmanager
    def register_reader(self) -> Iterator[None]:
        """Make workers of this process hurry during the block."""
        self._readers += 1
        self._notify()
        try:
            yield
        finally:
            self._readers -= 1

    async def _wait_as_reader(self, is_met: Callable[[], bool], timeout_s: float) -> None:
        with self.register_reader():
            await self._wait(is_met, timeout_s)

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
