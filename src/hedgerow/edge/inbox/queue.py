"""Stores requests for the event loop: all that arrive during one write share the next one."""

import asyncio
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import structlog

from hedgerow.edge.inbox.file import FOLDER, InboxFile, InboxFileError, Lane, WaitingRequest
from hedgerow.errors import OperatorError, Unavailable
from hedgerow.lib.threads import ThreadLimiter
from hedgerow.projects.model import ProjectId

FULL = "The origin is not available, and the inbox of this edge process is full. Try again later."
NOT_WRITABLE = (
    "The origin is not available, and this edge process cannot store events. Try again later."
)
RETRY_AFTER_S = 10
# Requests that are sent on together.
WINDOW_REQUESTS = 64
WINDOW_BYTES = 4 << 20

T = TypeVar("T")
_log = structlog.get_logger("hedgerow.edge")


class Inbox:
    """`max_bytes` limits what waits and the dead letters, `min_free_bytes` what is left of the
    disk. Counts include requests that are being written, so that later ones wait behind them."""

    def __init__(self, data_dir: Path, *, max_bytes: int, min_free_bytes: int) -> None:
        self._data_dir = data_dir
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self._thread = ThreadLimiter(1)
        self._file: InboxFile | None = None
        self._lock = -1
        self._version = 0
        self._pending: list[tuple[WaitingRequest, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._problem = ""
        self._changed: dict[ProjectId, asyncio.Event] = {}
        self._has_grown = False
        self.lanes: dict[ProjectId, Lane] = {}
        self.dead = Lane()
        self.stored = 0

    @property
    def size(self) -> int:
        return self.dead.size + sum(each.size for each in self.lanes.values())

    @property
    def number(self) -> int:
        return sum(each.number for each in self.lanes.values())

    @property
    def oldest_us(self) -> int:
        """The receipt of the request that has waited longest, 0 if none waits."""
        return min((each.oldest_us for each in self.lanes.values() if each.number), default=0)

    async def open(self) -> None:
        """Read what waits. Without a usable disk, requests are refused until there is one. Raises
        OperatorError if another process has the inbox."""
        self._take_lock()
        try:
            await self._run(InboxFile.find_version)
            await self.reload()
        except InboxFileError as error:
            self._report(str(error))

    def has_waiting(self, project_id: ProjectId) -> bool:
        lane = self.lanes.get(project_id)
        return lane is not None and lane.number > 0

    def get_changed(self, project_id: ProjectId) -> asyncio.Event:
        """Return the event that is set when a request of the project begins to wait."""
        return self._changed.setdefault(project_id, asyncio.Event())

    async def add(self, request: WaitingRequest) -> None:
        """Store a request. It is on the disk when this returns. Raises Unavailable."""
        if self.size + request.size > self._max_bytes:
            raise Unavailable(FULL, retry_after_s=RETRY_AFTER_S)
        self._count(request, 1)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append((request, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        # A client that disconnects does not stop the write, which others share.
        await asyncio.shield(written)

    async def fetch(self, project_id: ProjectId) -> Sequence[WaitingRequest]:
        """Return the first requests of a project. Raises InboxFileError."""
        return await self._run(
            lambda file: file.fetch(project_id, at_most=WINDOW_REQUESTS, max_bytes=WINDOW_BYTES)
        )

    async def finish(
        self, sent: Sequence[WaitingRequest], refused: Sequence[tuple[WaitingRequest, str]]
    ) -> None:
        """Remove what the origin has or has refused for good. Raises InboxFileError."""
        sent_ids = [each.id for each in sent]
        refused_ids = [(each.id, reason) for each, reason in refused]
        await self._run(lambda file: file.finish(sent_ids, refused_ids))
        for each in sent:
            self._count(each, -1)
        for each, _ in refused:
            self._count(each, -1)
            self.dead.number += 1
            self.dead.size += each.size
        if self._has_grown and not self.number:
            self._has_grown = False
            while await self._run(InboxFile.shrink):
                pass

    def set_oldest(self, project_id: ProjectId, received_us: int) -> None:
        self.lanes[project_id].oldest_us = received_us

    async def reload(self) -> None:
        """Count anew if a command has changed the file. Raises InboxFileError."""
        version = await self._run(InboxFile.find_version)
        if version == self._version or self._pending or self._writing is not None:
            return
        lanes, dead = await self._run(InboxFile.count)
        if self._pending or self._writing is not None:
            return  # next time
        self._version, self.lanes, self.dead = version, lanes, dead
        self._has_grown = self._has_grown or bool(self.size)
        for project_id in lanes:
            self.get_changed(project_id).set()

    async def close(self) -> None:
        """Finish the last write."""
        if self._writing is not None:
            await self._writing
        if self._file is not None:
            await self._run(InboxFile.close)
        os.close(self._lock)

    async def _write(self) -> None:
        while self._pending:
            taken, self._pending = self._pending, []
            requests = [request for request, _ in taken]
            try:
                await self._run(lambda file: self._add(file, requests))  # noqa: B023 - awaited
            except (InboxFileError, OSError) as error:
                self._report(str(error))
                self._refuse(taken)
            else:
                self._problem = ""
                self._has_grown = True
                self.stored += len(taken)
                for request, written in taken:
                    if not written.done():
                        written.set_result(None)
                    self.get_changed(request.project_id).set()
        self._writing = None

    def _add(self, file: InboxFile, requests: Sequence[WaitingRequest]) -> None:
        free = shutil.disk_usage(self._data_dir).free
        if free - sum(each.size for each in requests) < self._min_free_bytes:
            raise InboxFileError(f"only {free} bytes of the disk are free")
        file.add(requests)

    def _refuse(self, taken: Iterable[tuple[WaitingRequest, "asyncio.Future[None]"]]) -> None:
        for request, written in taken:
            self._count(request, -1)
            if not written.done():
                written.set_exception(Unavailable(NOT_WRITABLE, retry_after_s=RETRY_AFTER_S))

    def _count(self, request: WaitingRequest, by: int) -> None:
        lane = self.lanes.setdefault(request.project_id, Lane())
        if by > 0 and not lane.number:
            lane.oldest_us = request.receipt.received_us
        lane.number += by
        lane.size += by * request.size

    async def _run(self, work: Callable[[InboxFile], T]) -> T:
        return await self._thread.run(lambda: work(self._open()))

    def _open(self) -> InboxFile:
        if self._file is None:
            self._file = InboxFile(self._data_dir)
            if self._file.moved_to is not None:
                _log.error("the inbox was damaged and is moved away", path=str(self._file.moved_to))
        return self._file

    def _take_lock(self) -> None:
        folder = self._data_dir / FOLDER
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperatorError(
                f"Another edge process uses {folder}. Give each its own --data, or turn the inbox "
                "off with HEDGEROW_EDGE_INBOX_MAX_MB=0."
            ) from None
        except OSError as error:
            raise OperatorError(f"Cannot use {folder}: {error.strerror}.") from None

    def _report(self, problem: str) -> None:
        """Log each problem once, not with each request."""
        if problem != self._problem:
            self._problem = problem
            _log.error("the inbox cannot be used", reason=problem)
