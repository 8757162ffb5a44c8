"""Queries under way, by id: to be awaited, asked about, or cancelled. They are this process's."""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hedgerow.errors import AppError, Conflict, Invalid, Throttled, Unexpected
from hedgerow.lib.clock import Clock
from hedgerow.projects.model import ProjectId
from hedgerow.queries.model import Answered, QueryStatus

KEPT_FOR = timedelta(minutes=10)
MAX_RUNNING = 50
MAX_OF_PROJECT = 30
MAX_KEPT_BYTES = 32 << 20
TRY_AGAIN_S = 5
END_WAIT_S = 1.0

Key = tuple[ProjectId, str]


@dataclass(slots=True, eq=False, kw_only=True)
class Run:
    id: str
    project_id: ProjectId
    task: asyncio.Task[Answered]
    started_at: datetime
    is_kept: bool
    # How many bytes the query is, which the answer holds as well.
    asked_bytes: int
    ended_at: datetime | None = field(default=None)

    async def answer(self) -> Answered:
        """Who stops waiting does not stop the query."""
        await asyncio.wait({self.task})
        if self.task.cancelled():
            raise Invalid("The query was cancelled.", code="query_cancelled")
        return self.task.result()

    @property
    def size(self) -> int:
        if not self.task.done() or self.task.cancelled() or self.task.exception():
            return 0
        return self.asked_bytes + self.task.result().size

    def status(self) -> QueryStatus:
        is_done = self.task.done()
        problem = _problem(self.task) if is_done else None
        return QueryStatus(
            id=self.id,
            team_id=self.project_id,
            complete=is_done,
            error=problem is not None,
            error_message=problem,
            results=self.task.result() if is_done and problem is None else None,
            start_time=self.started_at,
            end_time=self.ended_at,
            expiration_time=self.ended_at and self.ended_at + KEPT_FOR,
        )


class Runs:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._runs: OrderedDict[Key, Run] = OrderedDict()

    def start(
        self,
        project_id: ProjectId,
        id: str,
        work: Coroutine[Any, Any, Answered],
        *,
        is_kept: bool,
        asked_bytes: int = 0,
    ) -> Run:
        """`is_kept`: whether its answer is kept for somebody who comes for it later."""
        key = (project_id, id)
        try:
            self._check_room(key)
        except AppError:
            work.close()
            raise
        task = asyncio.create_task(work)
        run = Run(
            id=id,
            project_id=project_id,
            task=task,
            started_at=self._clock(),
            is_kept=is_kept,
            asked_bytes=asked_bytes,
        )
        self._runs[key] = run
        task.add_done_callback(lambda _: self._end(key, run))
        return run

    def find(self, project_id: ProjectId, id: str) -> Run | None:
        self._forget()
        return self._runs.get((project_id, id))

    def cancel(self, run: Run) -> None:
        run.task.cancel()

    async def end(self) -> None:
        """Cancel all, and give them a moment to end."""
        left = [run.task for run in self._runs.values() if not run.task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=END_WAIT_S)

    def _check_room(self, key: Key) -> None:
        self._forget()
        there = self._runs.get(key)
        if there is not None and not there.task.done():
            raise Conflict("A query with this client_query_id is under way.")
        running = [run for run in self._runs.values() if not run.task.done()]
        of_project = sum(run.project_id == key[0] for run in running)
        if len(running) >= MAX_RUNNING or of_project >= MAX_OF_PROJECT:
            raise Throttled(TRY_AGAIN_S)

    def _end(self, key: Key, run: Run) -> None:
        run.ended_at = self._clock()
        if not run.task.cancelled():
            run.task.exception()  # looked at, so that asyncio does not complain
        if not run.is_kept and self._runs.get(key) is run:
            del self._runs[key]

    def _forget(self) -> None:
        """Those whose time is over, and the oldest where there are too many."""
        now = self._clock()
        done = [(key, run) for key, run in self._runs.items() if run.ended_at is not None]
        size = sum(run.size for _, run in done)
        for key, run in done:
            assert run.ended_at is not None
            if now - run.ended_at > KEPT_FOR or size > MAX_KEPT_BYTES or len(done) > 1000:
                size -= run.size
                del self._runs[key]


def _problem(task: asyncio.Task[Answered]) -> str | None:
    if task.cancelled():
        return "The query was cancelled."
    error = task.exception()
    if error is None:
        return None
    return error.detail if isinstance(error, AppError) else Unexpected.default_detail
