"""The limits on concurrent queries."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hedgerow.errors import Throttled
from hedgerow.events.query.limiter import QueryLimiter
from hedgerow.projects.model import ProjectId

ONE, OTHER, THIRD = ProjectId(1), ProjectId(2), ProjectId(3)


async def run_pending_tasks() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class RunningQueries:
    """Queries that run until they are finished by the test."""

    def __init__(self, limiter: QueryLimiter) -> None:
        self._gate = limiter
        self.inside: list[ProjectId] = []
        self._leave: list[asyncio.Event] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, project_id: ProjectId) -> asyncio.Task[None]:
        async def run() -> None:
            async with self._gate.acquire(project_id):
                self.inside.append(project_id)
                leave = asyncio.Event()
                self._leave.append(leave)
                await leave.wait()

        self._tasks.append(asyncio.create_task(run()))
        await run_pending_tasks()
        return self._tasks[-1]

    async def finish_first(self) -> None:
        self._leave.pop(0).set()
        self.inside.pop(0)
        await run_pending_tasks()


@pytest.fixture
def make_queries() -> Callable[[], RunningQueries]:
    return lambda: RunningQueries(QueryLimiter(per_project=2, total=3, timeout_s=60))


async def test_queries_per_project_are_limited(make_queries: Callable[[], RunningQueries]) -> None:
    inside = make_queries()
    for _ in range(3):
        await inside.start(ONE)
    assert inside.inside == [ONE, ONE]
    await inside.start(OTHER)
    assert inside.inside == [ONE, ONE, OTHER]
    await inside.finish_first()
    assert inside.inside == [ONE, OTHER, ONE]


async def test_queries_in_total_are_limited(make_queries: Callable[[], RunningQueries]) -> None:
    inside = make_queries()
    for project in (ONE, ONE, OTHER, THIRD):
        await inside.start(project)
    assert inside.inside == [ONE, ONE, OTHER]
    await inside.finish_first()
    assert inside.inside == [ONE, OTHER, THIRD]


async def test_cancelled_query_frees_its_slot(make_queries: Callable[[], RunningQueries]) -> None:
    inside = make_queries()
    tasks = [await inside.start(ONE) for _ in range(3)]
    tasks[2].cancel()
    tasks[0].cancel()
    await run_pending_tasks()
    await inside.start(ONE)
    assert inside.inside == [ONE, ONE, ONE]


async def test_long_wait_is_throttled() -> None:
    limiter = QueryLimiter(per_project=1, total=1, timeout_s=0)
    async with limiter.acquire(ONE):
        with pytest.raises(Throttled):
            await _acquire(limiter)
    await _acquire(limiter)


async def _acquire(limiter: QueryLimiter) -> Awaitable[None] | None:
    async with limiter.acquire(OTHER):
        return None
