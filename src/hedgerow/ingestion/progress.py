"""Tracks how far accepted events have come, so that readers can wait for earlier writes.

The only worker processes and stores the events of a project in the order in which they were
accepted, so counters of each project suffice: its n-th event has its person once n are processed,
and can be queried once n are stored. With several workers the counters are estimates, and readers
wait with `inbox_watch.py`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from hedgerow.ingestion.store import UNKNOWN_PROJECT, InboxBacklog
from hedgerow.lib.eager import ensure_task
from hedgerow.projects.model import ProjectId

Key = tuple[ProjectId, str]


class ProjectProgress:
    """The events of one project. Positions count from its first event."""

    __slots__ = (
        "_last_event",
        "_restored",
        "_restored_from",
        "_unprocessed",
        "accepted",
        "observed",
        "processed",
        "restored_names",
        "stored",
    )

    def __init__(self) -> None:
        self.accepted = self.processed = self.stored = 0
        # The backlog of all processes at the last observation.
        self.observed = 0
        # Where the unprocessed backlog of the previous process begins and ends, and the number of
        # the last of its events that changes a person or group. None until these are known.
        self._restored_from = self._restored = 0
        self.restored_names: Mapping[str, int] | None = {}
        # What unprocessed events change, oldest first, and the last event of each.
        self._unprocessed: deque[tuple[int, str]] = deque()
        self._last_event: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        return max(self.accepted - self.stored, self.observed)

    def restore(self, unprocessed: int, unstored: int) -> None:
        self.processed += unstored
        self.accepted += unprocessed + unstored
        self._restored_from, self._restored = self.processed, self.accepted
        self.restored_names = None if unprocessed else {}

    def add_name(self, name: str) -> None:
        self._unprocessed.append((self.accepted, name))
        self._last_event[name] = self.accepted

    def mark_processed(self, number: int) -> None:
        self.processed += number
        while self._unprocessed and self._unprocessed[0][0] <= self.processed:
            position, name = self._unprocessed.popleft()
            if self._last_event.get(name) == position:
                del self._last_event[name]
        if self.restored_names and self.processed >= self._restored:
            self.restored_names = {}

    def find_last(self, names: Iterable[str], until: int) -> int:
        """Return the position of the last event up to `until` that changes one of these, also of
        the backlog."""
        names = list(names)
        last = max((self._last_event.get(name, 0) for name in names), default=0)
        return max(min(last, until), self._find_last_restored(names))

    def _find_last_restored(self, names: Iterable[str]) -> int:
        if self.restored_names is None:
            return self._restored
        last = max((self.restored_names.get(name, 0) for name in names), default=0)
        return self._restored_from + last if last else 0


class Progress:
    def __init__(self) -> None:
        # Of all projects.
        self.accepted = self.processed = self.stored = 0
        self._observed = 0
        # Stored events whose deliveries are not created yet.
        self._unrouted: Mapping[ProjectId, int] = {}
        self._projects: dict[ProjectId, ProjectProgress] = {}
        # How many readers wait for events to be processed or stored.
        self._readers = 0
        # Set at the next change; None while no task waits for it.
        self._advanced: asyncio.Event | None = None

    @property
    def waiting(self) -> int:
        """How many accepted events are not stored, or their deliveries not created."""
        unstored = max(self.accepted - self.stored, self._observed)
        return unstored + sum(self._unrouted.values())

    def count_waiting(self, project_id: ProjectId) -> int:
        """The same for a project."""
        own = self._projects.get(project_id)
        return (own.waiting if own else 0) + self._unrouted.get(project_id, 0)

    def observe_unrouted(self, numbers: Mapping[ProjectId, int]) -> None:
        """Update how many events wait for their deliveries to be created."""
        self._unrouted = numbers

    def count_accepted(self, project_id: ProjectId) -> int:
        """Return how many events of a project were accepted: the position of its last one."""
        own = self._projects.get(project_id)
        return own.accepted if own else 0

    def count_processed(self, project_id: ProjectId) -> int:
        own = self._projects.get(project_id)
        return own.processed if own else 0

    def is_all_processed(self, project_id: ProjectId) -> bool:
        own = self._projects.get(project_id)
        return own is None or own.processed >= own.accepted

    def is_all_stored(self, project_id: ProjectId | None) -> bool:
        """Whether all events of a project, or of all, can be queried."""
        return all(each.stored >= each.accepted for each in self._select(project_id))

    def restore(self, backlog: InboxBacklog) -> None:
        """Add the backlog that the previous process left. Its unprocessed events may change any
        person of their project until `restore_names`."""
        for project_id in backlog.unprocessed.keys() | backlog.unstored.keys():
            unprocessed = backlog.unprocessed.get(project_id, 0)
            unstored = backlog.unstored.get(project_id, 0)
            self._get(project_id).restore(unprocessed, unstored)
            self.processed += unstored
            self.accepted += unprocessed + unstored
        self._notify()

    @property
    def has_unknown_names(self) -> bool:
        """Whether `restore_names` is to be called before further events are processed."""
        return any(each.restored_names is None for each in self._projects.values())

    def restore_names(self, names: Mapping[ProjectId, Mapping[str, int]]) -> None:
        """Set what the unprocessed events of the backlog change: for each project the number of the
        last event of each name, from 1 for its first unprocessed event."""
        for project_id, each in self._projects.items():
            if each.restored_names is None:
                each.restored_names = names.get(project_id, {})
        self._notify()

    def accept(self, project_id: ProjectId, distinct_ids: Iterable[str]) -> None:
        own = self._get(project_id)
        for distinct_id in distinct_ids:
            self.accepted += 1
            own.accepted += 1
            own.add_name(distinct_id)
        self._notify()

    def accept_together(self, project_id: ProjectId, number: int, names: Iterable[str]) -> None:
        """Count `number` events that change these distinct ids and groups."""
        own = self._get(project_id)
        self.accepted += number
        own.accepted += number
        for name in names:
            own.add_name(name)
        self._notify()

    def add_name(self, project_id: ProjectId, name: str) -> None:
        """Register another distinct id or group that the last accepted event changes."""
        self._get(project_id).add_name(name)

    def mark_processed(self, numbers: Mapping[ProjectId, int]) -> None:
        for project_id, number in numbers.items():
            self.processed += number
            self._get(project_id).mark_processed(number)
        self._notify()

    def mark_stored(self, numbers: Mapping[ProjectId, int]) -> None:
        for project_id, number in numbers.items():
            self.stored += number
            self._get(project_id).stored += number
        self._notify()

    def list_unstored(self) -> Mapping[ProjectId, int]:
        """Return the last position of each project with events that are not stored."""
        return {id: own.accepted for id, own in self._projects.items() if own.waiting > 0}

    def observe(self, accepted: Mapping[ProjectId, int], backlog: InboxBacklog) -> None:
        """Update the counters from the backlog of all processes, which may include all events of
        this process. `accepted` is what `list_unstored` returned before the backlog was counted:
        later events may be missing from it."""
        self._observed = backlog.total_unprocessed + backlog.total_unstored
        for project_id in accepted.keys() | backlog.unprocessed.keys() | backlog.unstored.keys():
            own, until = self._get(project_id), accepted.get(project_id, 0)
            unprocessed = backlog.unprocessed.get(project_id, 0)
            waiting = unprocessed + backlog.unstored.get(project_id, 0)
            own.observed = waiting
            # Any of the events of unknown projects may be of this one.
            unprocessed += backlog.unprocessed.get(UNKNOWN_PROJECT, 0)
            waiting += backlog.unprocessed.get(UNKNOWN_PROJECT, 0)
            waiting += backlog.unstored.get(UNKNOWN_PROJECT, 0)
            processed = max(0, until - unprocessed - own.processed)
            stored = max(0, until - waiting - own.stored)
            self.processed += processed
            self.stored += stored
            own.mark_processed(processed)
            own.stored += stored
        self._notify()

    def is_processed(self, project_id: ProjectId, names: Iterable[str]) -> bool:
        """Return whether no accepted event that changes one of these is unprocessed."""
        own = self._projects.get(project_id)
        return own is None or own.processed >= own.find_last(names, own.accepted)

    async def wait_until_processed(
        self, project_id: ProjectId, names: Sequence[str], *, until: int, timeout_s: float
    ) -> bool:
        """Wait until those of the first `until` accepted events of the project that change these
        are processed, or for the timeout. Return whether they are."""
        own = self._get(project_id)
        last = own.find_last(names, until)

        def is_met() -> bool:
            # The names of the backlog may become known meanwhile.
            return own.processed >= min(last, own.find_last(names, until))

        await self._wait_as_reader(is_met, timeout_s)
        return is_met()

    async def wait_until_all_processed(self, project_id: ProjectId, *, timeout_s: float) -> bool:
        """Wait until all events of the project accepted by now are processed, or for the timeout.
        Return whether they are."""
        own = self._get(project_id)
        target = own.accepted
        await self._wait_as_reader(lambda: own.processed >= target, timeout_s)
        return own.processed >= target

    async def wait_until_stored(self, project_id: ProjectId | None, *, timeout_s: float) -> bool:
        """Wait until all events of the project, or of all, accepted by now are stored, or for the
        timeout. Return whether they are."""
        targets = [(each, each.accepted) for each in self._select(project_id)]

        def is_met() -> bool:
            return all(each.stored >= target for each, target in targets)

        await self._wait_as_reader(is_met, timeout_s)
        return is_met()

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

    async def wait_for_storing(self, max_unstored: int, *, timeout_s: float) -> None:
        """Wait until fewer processed events than this wait to be stored, or for the timeout."""
        await self._wait(lambda: self.processed - self.stored < max_unstored, timeout_s)

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

    def _get(self, project_id: ProjectId) -> ProjectProgress:
        own = self._projects.get(project_id)
        if own is None:
            own = self._projects[project_id] = ProjectProgress()
        return own

    def _select(self, project_id: ProjectId | None) -> Iterable[ProjectProgress]:
        """Return a project, with the events of unknown projects, or all."""
        if project_id is None:
            return self._projects.values()
        ids = (project_id, UNKNOWN_PROJECT)
        return [own for id in ids if (own := self._projects.get(id)) is not None]

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
