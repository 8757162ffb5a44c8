"""Those who want to hear at once when definitions of flags change."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

from hedgerow.errors import Throttled
from hedgerow.flags.board import FlagCache
from hedgerow.flags.local import Audience
from hedgerow.flags.local_board import LocalBoard
from hedgerow.flags.snapshot import Snapshot
from hedgerow.projects.model import Project, ProjectId

# A proxy ends a connection on which nothing is said; and a key may have been revoked meanwhile.
HEARTBEAT_S = 15.0
# In this process. A listener costs a connection and a few kilobytes.
MAX_LISTENERS = 1000
MAX_OF_PROJECT = 100
TRY_AGAIN_S = 30


class FlagStreams:
    """Who listens. All end when `stopping` is set."""

    def __init__(self, board: FlagCache, local_board: LocalBoard, stopping: asyncio.Event) -> None:
        self._board = board
        self._local_board = local_board
        self._stopping = stopping
        self._listeners: Counter[ProjectId] = Counter()

    def check_room(self, project: Project) -> None:
        is_full = self._listeners.total() >= MAX_LISTENERS
        if is_full or self._listeners[project.id] >= MAX_OF_PROJECT:
            raise Throttled(TRY_AGAIN_S)

    async def marks(
        self, project: Project, may_listen: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[str | None]:
        """The mark of the definitions at once, so that nothing is missed between asking and
        listening, and again with each change; None is a sign of life in between."""
        self._listeners[project.id] += 1
        try:
            told = ""
            while not self._stopping.is_set():
                seen = await self._board.snapshot(project)
                mark = (await self._local_board.told(project, Audience.CURRENT)).etag
                if mark != told:
                    told = mark
                    yield mark
                if not await self._something_happens(project, seen):
                    if not await may_listen():
                        return
                    yield None
        finally:
            self._listeners[project.id] -= 1

    async def _something_happens(self, project: Project, seen: Snapshot) -> bool:
        """False if nothing does until the next sign of life is due."""
        waiting = [
            asyncio.ensure_future(self._board.changed(project, seen)),
            asyncio.ensure_future(self._stopping.wait()),
        ]
        try:
            done, _ = await asyncio.wait(
                waiting, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in waiting:
                each.cancel()
        return bool(done)
