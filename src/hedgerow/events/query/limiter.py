"""A limit on concurrent queries: in total, so that the event store keeps capacity for ingestion,
and per project. Projects take turns, and the last free slot is for one that runs no query.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from hedgerow.errors import Throttled
from hedgerow.events.query.admission import is_admitted
from hedgerow.events.query.blocks import ProjectBlocks
from hedgerow.lib.workers.fair_queue import Places
from hedgerow.projects.model import ProjectId

MAX_PER_PROJECT = 2
MAX_TOTAL = 3
QUEUE_TIMEOUT_S = 30.0
RETRY_AFTER_S = 5


class QueryLimiter:
    def __init__(
        self,
        per_project: int = MAX_PER_PROJECT,
        total: int = MAX_TOTAL,
        timeout_s: float = QUEUE_TIMEOUT_S,
    ) -> None:
        self._places = Places[ProjectId](total, per_project)
        self._timeout_s = timeout_s
        self._blocks = ProjectBlocks()

    @asynccontextmanager
    async def acquire(self, project_id: ProjectId) -> AsyncIterator[Callable[[], None]]:
        """Wait for a free slot. Raises Throttled on timeout, except in a task that is admitted.
        Yields a function that blocks further queries of the project: see `ProjectBlocks`."""
        self._check_block(project_id)
        timeout_s = None if is_admitted() else self._timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._places.acquire(project_id)
        except TimeoutError:
            raise Throttled(RETRY_AFTER_S) from None
        try:
            self._check_block(project_id)
            yield partial(self._blocks.add, project_id)
        finally:
            self._places.release(project_id)

    def _check_block(self, project_id: ProjectId) -> None:
        if not is_admitted():
            self._blocks.check(project_id)
