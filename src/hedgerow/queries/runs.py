"""Running queries of this process by id: wait, status and cancellation."""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hedgerow.errors import AppError, Conflict, InternalError, Invalid, Throttled
from hedgerow.lib.clock import Clock
from hedgerow.projects.model import ProjectId
from hedgerow.queries.model import QueryResponse, QueryStatus

RESULT_RETENTION = timedelta(minutes=10)
# A project gets as many as it leaves for others.
MAX_RUNNING = 50
MAX_RETAINED_BYTES = 32 << 20
RETRY_AFTER_S = 5
STOP_TIMEOUT_S = 1.0

Key = tuple[ProjectId, str]


@dataclass(slots=True, eq=False, kw_only=True)
class QueryRun:
    id: str
    project_id: ProjectId
    task: asyncio.Task[QueryResponse]
    started_at: datetime
    is_retained: bool
    # The size of the query, which the response contains as well.
    query_bytes: int
    ended_at: datetime | None = field(default=None)

    async def wait(self) -> QueryResponse:
        """Wait for the response. Cancelling the wait does not cancel the query."""
        await asyncio.wait({self.task})
        if self.task.cancelled():
            raise Invalid("The query was cancelled.", code="query_cancelled")
        return self.task.result()

    @property
    def size(self) -> int:
        if not self.task.done() or self.task.cancelled() or self.task.exception():
            return 0
        return self.query_bytes + self.task.result().size

    def status(self) -> QueryStatus:
        is_done = self.task.done()
        failure = _describe_failure(self.task) if is_done else None
        return QueryStatus(
            id=self.id,
            team_id=self.project_id,
            complete=is_done,
            error=failure is not None,
            error_message=failure,
            results=self.task.result() if is_done and failure is None else None,
            start_time=self.started_at,
            end_time=self.ended_at,
            expiration_time=self.ended_at and self.ended_at + RESULT_RETENTION,
        )


class QueryRuns:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._runs: OrderedDict[Key, QueryRun] = OrderedDict()

    def start(
        self,
        project_id: ProjectId,
        id: str,
        work: Coroutine[Any, Any, QueryResponse],
        *,
        is_retained: bool,
        query_bytes: int = 0,
    ) -> QueryRun:
        """Start a query. With `is_retained`, its response stays available for later requests."""
        key = (project_id, id)
        try:
            self._check_capacity(key)
        except AppError:
            work.close()
            raise
        task = asyncio.create_task(work)
        run = QueryRun(
            id=id,
            project_id=project_id,
            task=task,
            started_at=self._clock(),
            is_retained=is_retained,
            query_bytes=query_bytes,
        )
        self._runs[key] = run
        task.add_done_callback(lambda _: self._finish(key, run))
        return run

    def find(self, project_id: ProjectId, id: str) -> QueryRun | None:
        self._evict()
        return self._runs.get((project_id, id))

    def cancel(self, run: QueryRun) -> None:
        run.task.cancel()

    async def stop(self) -> None:
        """Cancel all queries and give them a moment to end."""
        running = [run.task for run in self._runs.values() if not run.task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=STOP_TIMEOUT_S)

    def _check_capacity(self, key: Key) -> None:
        self._evict()
        existing = self._runs.get(key)
        if existing is not None and not existing.task.done():
            raise Conflict("A query with this client_query_id is already running.")
        running = [run for run in self._runs.values() if not run.task.done()]
        in_project = sum(run.project_id == key[0] for run in running)
        if in_project >= MAX_RUNNING - len(running):
            raise Throttled(RETRY_AFTER_S)

    def _finish(self, key: Key, run: QueryRun) -> None:
        run.ended_at = self._clock()
        if not run.task.cancelled():
            run.task.exception()  # retrieved, so that asyncio does not warn
        if not run.is_retained and self._runs.get(key) is run:
            del self._runs[key]

    def _evict(self) -> None:
        """Drop expired responses, and the oldest if there are too many."""
        now = self._clock()
        done = [(key, run) for key, run in self._runs.items() if run.ended_at is not None]
        size = sum(run.size for _, run in done)
        for key, run in done:
            assert run.ended_at is not None
            if (
                now - run.ended_at > RESULT_RETENTION
                or size > MAX_RETAINED_BYTES
                or len(done) > 1000
            ):
                size -= run.size
                del self._runs[key]


def _describe_failure(task: asyncio.Task[QueryResponse]) -> str | None:
    if task.cancelled():
        return "The query was cancelled."
    error = task.exception()
    if error is None:
        return None
    return error.detail if isinstance(error, AppError) else InternalError.default_detail
