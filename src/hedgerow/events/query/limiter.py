"""A limit on concurrent queries: per project, so that projects do not block each other, and in
total, so that the event store keeps capacity for ingestion.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from hedgerow.errors import Throttled
from hedgerow.events.query.admission import is_admitted
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
        self._per_project = per_project
        self._total = total
        self._timeout_s = timeout_s
        self._running: Counter[ProjectId] = Counter()
        self._slot_freed = asyncio.Condition()
        self._blocked_until: dict[ProjectId, float] = {}

    @asynccontextmanager
    async def acquire(self, project_id: ProjectId) -> AsyncIterator[Callable[[], None]]:
        """Wait for a free slot. Raises Throttled on timeout, except in a task that is admitted.
        Yields a function that blocks further queries of the project for a while."""
        self._check_block(project_id)
        timeout_s = None if is_admitted() else self._timeout_s
        try:
            async with asyncio.timeout(timeout_s), self._slot_freed:
                await self._slot_freed.wait_for(lambda: self._has_free_slot(project_id))
                self._running[project_id] += 1
        except TimeoutError:
            raise Throttled(RETRY_AFTER_S) from None
        try:
            self._check_block(project_id)
            yield partial(self._block, project_id)
        finally:
            self._running[project_id] -= 1
            if not self._running[project_id]:
                del self._running[project_id]
            async with self._slot_freed:
                self._slot_freed.notify_all()

    def _has_free_slot(self, project_id: ProjectId) -> bool:
        return self._running[project_id] < self._per_project and self._running.total() < self._total

    def _block(self, project_id: ProjectId) -> None:
        self._blocked_until[project_id] = time.monotonic() + BLOCK_S

    def _check_block(self, project_id: ProjectId) -> None:
        left_s = self._blocked_until.get(project_id, 0.0) - time.monotonic()
        if left_s > 0:
            if is_admitted():
                return
            raise Throttled(math.ceil(left_s))
        self._blocked_until.pop(project_id, None)
