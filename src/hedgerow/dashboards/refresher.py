"""Computes the queued results of insights, a few at a time. Projects take turns. Several processes
share one queue, and each result is computed by one of them.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

from hedgerow.dashboards.kept_result import encode_error, encode_response
from hedgerow.dashboards.result_store import Computation, NewResult, ResultStore
from hedgerow.errors import AppError, Invalid, Throttled, Unavailable
from hedgerow.events.query.executor import PassBarriers
from hedgerow.lib.clock import Clock
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.call_limits import TokenBuckets
from hedgerow.projects.model import Project, ProjectId
from hedgerow.queries.model import QueryResponse
from hedgerow.queries.queries import Queries, Refresh

# In one process. Other queries keep a place (`events/query/limiter.py`).
MAX_RUNNING = 2
MAX_PER_PROJECT = 1
# A burst of BURST_S (`projects/call_limits.py`) times as many starts at once. A longer queue is
# computed at this rate: each result takes 10 to 20 ms of the event loop, which requests need.
STARTS_PER_S = 3.0
# A process that was killed leaves its claims until then.
CLAIM = timedelta(seconds=120)
TIMEOUT_S = 100.0
# While nothing wakes it, the queue is read this often, for requests of other processes.
IDLE_INTERVAL_S = 2.0
# Results that are in use are computed again after this time if something changed.
WARM_AGE = timedelta(minutes=30)
WARM_USE = timedelta(days=1)
WARM_NUMBER = 100

_DEFECT = "The result could not be computed. The log of the service has the cause."

FindProject = Callable[[ProjectId], Project | None]


class Refresher:
    def __init__(
        self,
        store: ResultStore,
        queries: Queries,
        pass_barriers: PassBarriers,
        find_project: FindProject,
        on_error: Callable[[BaseException], None],
        clock: Clock,
    ) -> None:
        self._store = store
        self._queries = queries
        self._pass_barriers = pass_barriers
        self._find_project = find_project
        self._on_error = on_error
        self._clock = clock
        self._starts = TokenBuckets(STARTS_PER_S)
        self._woken = asyncio.Event()
        self._ended = asyncio.Event()
        self._running: dict[asyncio.Task[None], Computation] = {}
        # What could not be stored while the database was away.
        self._abandoned: list[Computation] = []
        self._last = ProjectId(0)

    def wake(self) -> None:
        self._woken.set()

    async def wait_for_end(self, timeout_s: float) -> None:
        """Wait until this process has ended a computation, or for the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()

    async def run(self) -> None:
        """Wait for queued computations, and start as many as may run."""
        with suppress(TimeoutError):
            async with asyncio.timeout(IDLE_INTERVAL_S):
                await self._woken.wait()
        self._woken.clear()
        while self._abandoned:
            await self._store.release(self._abandoned[-1])
            self._abandoned.pop()
        while len(self._running) < MAX_RUNNING and self._may_start():
            now = self._clock()
            found = await self._store.claim(self._list_busy(), self._last, now, now + CLAIM)
            if found is None:
                return
            self._last = found.project_id
            task = asyncio.create_task(self._run_or_abandon(found))
            self._running[task] = found
            task.add_done_callback(self._finish)

    async def stop(self) -> None:
        """Cancel what runs, and leave it to other processes."""
        running = dict(self._running)
        for task, work in running.items():
            task.cancel()
            with suppress(AppError):  # while the database is away: the claim expires
                await self._store.release(work)
        if running:
            await asyncio.wait(running, timeout=1.0)

    async def request_outdated(self) -> None:
        """Queue results that are in use and lack something."""
        now = self._clock()
        found = await self._store.list_outdated(
            used_since=now - WARM_USE, computed_before=now - WARM_AGE, limit=WARM_NUMBER
        )
        for project_id in {each[0] for each in found}:
            state = await self._store.fetch_state(project_id)
            queries = {k: q for id, k, q, of in found if id == project_id and of != state.text}
            if queries:
                with suppress(Throttled):
                    await self._store.request(project_id, queries, now)

    def _may_start(self) -> bool:
        wait_s = self._starts.take("", time.monotonic())
        if wait_s:
            asyncio.get_running_loop().call_later(wait_s, self._woken.set)
        return not wait_s

    def _list_busy(self) -> list[ProjectId]:
        running = Counter(each.project_id for each in self._running.values())
        return [id for id, number in running.items() if number >= MAX_PER_PROJECT]

    async def _run_or_abandon(self, work: Computation) -> None:
        try:
            await self._run_one(work)
        except Unavailable:
            self._abandoned.append(work)

    async def _run_one(self, work: Computation) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                new = await self._compute(work)
        except TimeoutError:
            late = Invalid("The query took too long.", code="query_limit_exceeded")
            await self._store.record_failure(work, encode_error(late))
        except AppError as error:
            await self._store.record_failure(work, encode_error(error))
        except Exception as error:  # noqa: BLE001 - those who wait for this result must learn of it
            self._on_error(error)
            await self._store.record_failure(work, encode_error(Invalid(_DEFECT)))
        else:
            await self._store.save(work, new, self._clock())

    async def _compute(self, work: Computation) -> NewResult:
        project = self._find_project(work.project_id)
        if project is None:
            raise Invalid("The project does not exist.")
        computed_at = self._clock()
        async with self._pass_barriers(project.id):
            # What changes from here on is not in the result, or makes it stale too early.
            state = await self._store.fetch_state(project.id)
            response = await self._queries.execute(project, work.query, Refresh.FORCE_BLOCKING, "")
        assert isinstance(response, QueryResponse)
        result = await run_in_thread(partial(encode_response, response))
        return NewResult(result=result, state=state.text, computed_at=computed_at)

    def _finish(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._woken.set()
        ended, self._ended = self._ended, asyncio.Event()
        ended.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(error)
