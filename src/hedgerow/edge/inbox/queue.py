"""Stores requests for the event loop: all of a project that arrive during one write share the next
one.

If there are several projects, they take turns, and none may fill the inbox, the disk or the memory
for the others: a project may use as many bytes as it leaves free. So one gets at most half.
"""

import asyncio
import math
import os
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import structlog

from hedgerow.edge.inbox.requests import Lane, StoredRequest, WaitingRequest, encode_request
from hedgerow.edge.inbox.store import (
    FOLDER,
    CommandResult,
    EdgeInboxError,
    EdgeInboxStore,
    lock_folder,
    measure,
)
from hedgerow.errors import OperatorError, Unavailable
from hedgerow.lib.threads import ThreadLimiter
from hedgerow.lib.workers.fair_queue import Turns
from hedgerow.projects.model import ProjectId

FULL = "The origin is not available, and the inbox of this edge process is full. Try again later."
FULL_SHARE = (
    "The origin is not available, and this project has filled its share of the inbox of this edge "
    "process. Try again later."
)
NOT_WRITABLE = (
    "The origin is not available, and this edge process cannot store events. Try again later."
)
RETRY_AFTER_S = 10
# Requests that are in memory until they are written: all, and those of one write.
MAX_PENDING_BYTES = 64 << 20
WRITE_BYTES = 4 << 20
# Requests that are sent on together.
WINDOW_REQUESTS = 64
WINDOW_BYTES = 4 << 20

T = TypeVar("T")
_log = structlog.get_logger("hedgerow.edge")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    """A request that is being written. It counts as `lane`."""

    project_id: ProjectId
    content: bytes
    lane: Lane
    written: asyncio.Future[None]


class Inbox:
    """`max_bytes` limits what waits and the dead letters, `min_free_bytes` what is left of the
    disk. Counts include requests that are being written, so that later ones wait behind them.
    `is_shared` says whether there are several projects."""

    def __init__(
        self, data_dir: Path, *, max_bytes: int, min_free_bytes: int, is_shared: bool
    ) -> None:
        self._data_dir = data_dir
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self._is_shared = is_shared
        # What the disk had left above `min_free_bytes` when it was last looked at.
        self._disk_left: float = math.inf
        self._thread = ThreadLimiter(1)
        self._store: EdgeInboxStore | None = None
        self._is_counted = False
        self._lock = -1
        self._pending: dict[ProjectId, deque[_Pending]] = {}
        # With those that are being written.
        self._pending_bytes: Counter[ProjectId] = Counter()
        self._turns = Turns[ProjectId]()
        self._writing: asyncio.Task[None] | None = None
        self._problem = ""
        self._changed: dict[ProjectId, asyncio.Event] = {}
        self.lanes: dict[ProjectId, Lane] = {}
        self.dead: dict[ProjectId, Lane] = {}
        self.stored = self.lost = 0

    @property
    def size(self) -> int:
        return sum(each.size for lanes in (self.lanes, self.dead) for each in lanes.values())

    @property
    def number(self) -> int:
        return sum(each.number for each in self.lanes.values())

    @property
    def dead_number(self) -> int:
        return sum(each.number for each in self.dead.values())

    @property
    def oldest_us(self) -> int:
        """The receipt of the request that has waited longest, 0 if none waits."""
        return min((each.oldest_us for each in self.lanes.values() if each.number), default=0)

    async def open(self) -> None:
        """Read what waits. Without a usable disk, requests are refused until there is one. Raises
        OperatorError if another process has the inbox."""
        self._take_lock()
        try:
            await self.run_commands()
        except EdgeInboxError as error:
            self._report(str(error))

    def has_waiting(self, project_id: ProjectId) -> bool:
        lane = self.lanes.get(project_id)
        return lane is not None and lane.number > 0

    def get_changed(self, project_id: ProjectId) -> asyncio.Event:
        """Return the event that is set when a request of the project begins to wait."""
        return self._changed.setdefault(project_id, asyncio.Event())

    async def add(self, request: WaitingRequest, body: bytes) -> None:
        """Store a request. It is on the disk when this returns. Raises Unavailable."""
        content = encode_request(request, body)
        lane = Lane(number=1, size=measure(content), oldest_us=request.receipt.received_us)
        self._check_space(request.project_id, lane.size)
        self._get_lane(request.project_id).add(lane)
        self._pending_bytes[request.project_id] += lane.size
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.setdefault(request.project_id, deque()).append(
            _Pending(project_id=request.project_id, content=content, lane=lane, written=written)
        )
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        # A client that disconnects does not stop the write, which others share.
        await asyncio.shield(written)

    async def fetch(self, project_id: ProjectId) -> Sequence[StoredRequest]:
        """Return the first requests of a project. Raises EdgeInboxError."""
        found, lost = await self._run(
            lambda store: store.fetch(project_id, at_most=WINDOW_REQUESTS, max_bytes=WINDOW_BYTES)
        )
        if lost:
            self._remove(project_id, lost, 0)
        return found

    async def finish(self, project_id: ProjectId, sent: Sequence[StoredRequest]) -> None:
        """Remove what the origin has. Raises EdgeInboxError."""
        ids = [each.id for each in sent]
        await self._run(lambda store: store.finish(project_id, ids))
        self._remove(project_id, len(sent), sum(each.size for each in sent))

    async def bury(
        self, project_id: ProjectId, refused: Sequence[tuple[StoredRequest, str]]
    ) -> None:
        """Keep what the origin has refused for good as dead letters. Raises EdgeInboxError."""
        sizes = await self._run(lambda store: store.bury(project_id, refused))
        self._remove(project_id, len(refused), sum(each.size for each, _ in refused))
        dead = self.dead.setdefault(project_id, Lane())
        dead.add(Lane(number=len(sizes), size=sum(sizes)))

    def set_oldest(self, project_id: ProjectId, received_us: int) -> None:
        self.lanes[project_id].oldest_us = received_us

    async def run_commands(self) -> None:
        """Do what the commands for dead letters have left to do. Raises EdgeInboxError."""
        for result in await self._run(self._run_commands):
            self.dead = dict(result.dead)
            self._count(result.retried)

    async def close(self) -> None:
        """Finish the last write."""
        if self._writing is not None:
            await self._writing
        if self._store is not None:
            await self._run(EdgeInboxStore.close)
        os.close(self._lock)

    def _check_space(self, project_id: ProjectId, size: int) -> None:
        total = self.size
        if total + size > self._max_bytes:
            raise Unavailable(FULL, retry_after_s=RETRY_AFTER_S)
        if not self._is_shared:
            return
        own, pending = self._pending_bytes[project_id], self._pending_bytes.total()
        stored = self._get_lane(project_id).size + self.dead.get(project_id, Lane()).size
        free = min(self._max_bytes - total, self._disk_left - pending)
        if stored + size > free or own + size > MAX_PENDING_BYTES - pending:
            raise Unavailable(FULL_SHARE, retry_after_s=RETRY_AFTER_S)

    async def _write(self) -> None:
        while self._pending:
            project_id = self._turns.choose(self._pending)
            self._turns.charge(project_id, 1)
            group = self._take_group(project_id)
            await self._write_group(project_id, group)
            self._pending_bytes[project_id] -= sum(each.lane.size for each in group)
            self._pending_bytes += Counter()  # without those that are 0
        self._writing = None

    def _take_group(self, project_id: ProjectId) -> Sequence[_Pending]:
        pending = self._pending[project_id]
        group: list[_Pending] = []
        size = 0
        while pending and (not group or size + pending[0].lane.size <= WRITE_BYTES):
            size += pending[0].lane.size
            group.append(pending.popleft())
        if not pending:
            del self._pending[project_id]
        return group

    async def _write_group(self, project_id: ProjectId, group: Sequence[_Pending]) -> None:
        contents = [each.content for each in group]
        try:
            await self._run(lambda store: self._add(store, project_id, contents))
        except (EdgeInboxError, OSError) as error:
            self._report(str(error))
            self._refuse(group)
            return
        self._problem = ""
        self.stored += len(group)
        for each in group:
            if not each.written.done():
                each.written.set_result(None)
        self.get_changed(project_id).set()

    def _add(self, store: EdgeInboxStore, project_id: ProjectId, contents: Sequence[bytes]) -> None:
        self._look_at_disk()
        if self._disk_left < sum(map(measure, contents)):
            raise EdgeInboxError("the disk is nearly full")
        store.add(project_id, contents)

    def _run_commands(self, store: EdgeInboxStore) -> Sequence[CommandResult]:
        # Sending makes space, too.
        self._look_at_disk()
        return store.run_commands()

    def _look_at_disk(self) -> None:
        self._disk_left = shutil.disk_usage(self._data_dir).free - self._min_free_bytes

    def _refuse(self, group: Iterable[_Pending]) -> None:
        for each in group:
            self._remove(each.project_id, 1, each.lane.size)
            if not each.written.done():
                each.written.set_exception(Unavailable(NOT_WRITABLE, retry_after_s=RETRY_AFTER_S))

    def _get_lane(self, project_id: ProjectId) -> Lane:
        return self.lanes.setdefault(project_id, Lane())

    def _remove(self, project_id: ProjectId, number: int, size: int) -> None:
        lane = self._get_lane(project_id)
        lane.number -= number
        lane.size = lane.size - size if lane.number else 0

    def _count(self, more: Mapping[ProjectId, Lane]) -> None:
        for project_id, lane in more.items():
            self._get_lane(project_id).add(lane)
            self.get_changed(project_id).set()

    async def _run(self, work: Callable[[EdgeInboxStore], T]) -> T:
        result = await self._thread.run(lambda: work(self._open()))
        assert self._store is not None
        self.lost = self._store.lost
        if not self._is_counted:
            self._is_counted = True
            self.dead = dict(self._store.dead)
            self._count(self._store.lanes)
        return result

    def _open(self) -> EdgeInboxStore:
        if self._store is None:
            self._store = EdgeInboxStore(self._data_dir)
        return self._store

    def _take_lock(self) -> None:
        folder = self._data_dir / FOLDER
        try:
            lock = lock_folder(self._data_dir)
        except OSError as error:
            raise OperatorError(f"Cannot use {folder}: {error.strerror}.") from None
        if lock is None:
            raise OperatorError(
                f"Another edge process uses {folder}. Give each its own --data, or turn the inbox "
                "off with HEDGEROW_EDGE_INBOX_MAX_MB=0."
            )
        self._lock = lock

    def _report(self, problem: str) -> None:
        """Log each problem once, not with each request."""
        if problem != self._problem:
            self._problem = problem
            _log.error("the inbox cannot be used", reason=problem)
