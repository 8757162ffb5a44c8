"""A limit on concurrent queries: in total, so that the event store keeps capacity for ingestion,
and per project. Projects take turns, and the last free slot is for one that runs no query.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from hedgerow.errors import Throttled
from hedgerow.events.query.admission import is_admitted
from hedgerow.lib.fair_queue import Places
from hedgerow.projects.model import ProjectId

MAX_PER_PROJECT = 2
MAX_TOTAL = 3
QUEUE_TIMEOUT_S = 30.0
RETRY_AFTER_S = 5
# How long a project waits after one of its queries could only be ended with the engine, which
# interrupts the queries of all projects.
BLOCK_S = 30.0


class QueryLimiter:
    def __init__(
        self,
        per_project: int = MAX_PER_PROJECT,
        total: int = MAX_TOTAL,
        timeout_s: float = QUEUE_TIMEOUT_S,
    ) -> None:
        self._places = Places[ProjectId](total, per_project)
        self._timeout_s = timeout_s
        self._blocked_until: dict[ProjectId, float] = {}

    @asynccontextmanager
    async def acquire(self, project_id: ProjectId) -> AsyncIterator[Callable[[], None]]:
        """Wait for a free slot. Raises Throttled on timeout, except in a task that is admitted.
        Yields a function that blocks further queries of the project for a while."""
        self._check_block(project_id)
        timeout_s = None if is_admitted() else self._timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._places.acquire(project_id)
        except TimeoutError:
            raise Throttled(RETRY_AFTER_S) from None
        try:
            self._check_block(project_id)
            yield partial(self._block, project_id)
        finally:
            self._places.release(project_id)

    def _block(self, project_id: ProjectId) -> None:
        self._blocked_until[project_id] = time.monotonic() + BLOCK_S

    def _check_block(self, project_id: ProjectId) -> None:
        left_s = self._blocked_until.get(project_id, 0.0) - time.monotonic()
        if left_s > 0:
            if is_admitted():
                return
            raise Throttled(math.ceil(left_s))
        self._blocked_until.pop(project_id, None)
