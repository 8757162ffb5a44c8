"""How many queries may run at once: of one project, so that no project waits long for another, and
in all, so that the event store has time for what arrives.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hedgerow.errors import Throttled
from hedgerow.projects.model import ProjectId

OF_ONE_PROJECT = 2
IN_ALL = 3
WAIT_S = 30.0
TRY_AGAIN_S = 5


class Gate:
    def __init__(
        self, of_one_project: int = OF_ONE_PROJECT, in_all: int = IN_ALL, wait_s: float = WAIT_S
    ) -> None:
        self._of_one_project = of_one_project
        self._in_all = in_all
        self._wait_s = wait_s
        self._running: Counter[ProjectId] = Counter()
        self._left = asyncio.Condition()

    @asynccontextmanager
    async def entered(self, project_id: ProjectId) -> AsyncIterator[None]:
        """Wait for a place; Throttled when none becomes free in time."""
        try:
            async with asyncio.timeout(self._wait_s), self._left:
                await self._left.wait_for(lambda: self._has_place(project_id))
                self._running[project_id] += 1
        except TimeoutError:
            raise Throttled(TRY_AGAIN_S) from None
        try:
            yield
        finally:
            self._running[project_id] -= 1
            if not self._running[project_id]:
                del self._running[project_id]
            async with self._left:
                self._left.notify_all()

    def _has_place(self, project_id: ProjectId) -> bool:
        return (
            self._running[project_id] < self._of_one_project
            and self._running.total() < self._in_all
        )
