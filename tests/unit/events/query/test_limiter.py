"""The limits on concurrent queries."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from hedgerow.errors import Throttled, Unavailable
from hedgerow.events.query import admission
from hedgerow.events.query.admission import admit_task, dismiss_task
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
    # The last place is for another project.
    await inside.finish_first()
    assert inside.inside == [ONE, OTHER]
    await inside.start(THIRD)
    assert inside.inside == [ONE, OTHER, THIRD]


async def test_a_project_that_is_alone_has_all_its_places(
    make_queries: Callable[[], RunningQueries],
) -> None:
    inside = make_queries()
    for project in (OTHER, ONE, ONE):
        await inside.start(project)
    assert inside.inside == [OTHER, ONE]
    await inside.finish_first()
    assert inside.inside == [ONE, ONE]


async def test_projects_that_wait_take_turns(make_queries: Callable[[], RunningQueries]) -> None:
    inside = make_queries()
    for project in (ONE, OTHER, THIRD, *[ONE] * 5, ProjectId(4)):
        await inside.start(project)
    await inside.finish_first()
    assert inside.inside == [OTHER, THIRD, ProjectId(4)]


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


async def test_admitted_export_goes_on_when_its_project_is_blocked() -> None:
    limiter = QueryLimiter()
    async with limiter.acquire(OTHER) as block:
        block()
    with pytest.raises(Throttled):
        await _acquire(limiter)
    admit_task()
    await _acquire(limiter)
    # The other queries of the project wait for the rest of the time.
    dismiss_task()
    with pytest.raises(Throttled):
        await _acquire(limiter)


async def test_admitted_export_waits_for_a_slot() -> None:
    limiter = QueryLimiter(per_project=1, total=1, timeout_s=0)
    admit_task()
    async with limiter.acquire(ONE):
        waiting = asyncio.create_task(_acquire(limiter))
        await run_pending_tasks()
        assert not waiting.done()
    await waiting


async def test_admitted_fetch_is_repeated_while_the_store_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "RETRY_PAUSE_S", 0)
    answers: Iterator[int | Unavailable] = iter([Unavailable(), Unavailable(), 5])

    async def fetch() -> int:
        answer = next(answers)
        if isinstance(answer, Unavailable):
            raise answer
        return answer

    with pytest.raises(Unavailable):
        await admission.retry_if_admitted(fetch)
    admit_task()
    assert await admission.retry_if_admitted(fetch) == 5


async def _acquire(limiter: QueryLimiter) -> Awaitable[None] | None:
    async with limiter.acquire(OTHER):
        return None
