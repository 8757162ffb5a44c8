"""Projects take turns at work that is due."""

import asyncio
from collections import Counter

import pytest

from hedgerow.lib.workers.sender import current_sender
from hedgerow.projects.model import ProjectId
from hedgerow.queries.due_work import DueWork

A, B, C = ProjectId(1), ProjectId(2), ProjectId(3)


class _Due:
    """Numbers of pieces of work by project. Those of slow projects end when the test says so."""

    def __init__(self, *slow: ProjectId, **due: int) -> None:
        self.left = Counter({ProjectId("abc".index(name) + 1): n for name, n in due.items()})
        self.slow = slow
        self.can_end = asyncio.Event()
        self.begun: list[ProjectId] = []
        self.senders: set[str] = set()
        self.most_running = self._running = 0
        self.failing: ProjectId | None = None
        self.work = DueWork(self._list, self._run, max_running=2)

    async def _list(self) -> list[ProjectId]:
        return [id for id, number in self.left.items() if number]

    async def _run(self, project_id: ProjectId) -> None:
        self.left[project_id] -= 1
        self.begun.append(project_id)
        self.senders.add(current_sender.get())
        self._running += 1
        self.most_running = max(self.most_running, self._running)
        try:
            await asyncio.sleep(0)
            if project_id in self.slow:
                await self.can_end.wait()
            if project_id == self.failing:
                raise ValueError
        finally:
            self._running -= 1


async def test_all_work_is_done_a_few_at_a_time() -> None:
    due = _Due(a=5, b=3, c=2)
    await due.work.run()
    assert Counter(due.begun) == {A: 5, B: 3, C: 2}
    assert due.most_running == 2
    assert due.senders == {"project 1", "project 2", "project 3"}
    assert current_sender.get() == ""


async def test_slow_work_of_a_project_delays_no_other() -> None:
    due = _Due(A, a=100, b=2, c=2)
    running = asyncio.create_task(due.work.run())
    while due.left[B] or due.left[C]:
        await asyncio.sleep(0)
    assert due.begun.count(A) == 1
    # What becomes due meanwhile is not late either.
    due.left[B] += 1
    while due.left[B]:
        await asyncio.sleep(0.01)
    assert due.begun.count(A) == 1
    due.can_end.set()
    await running
    assert due.begun.count(A) == 100


async def test_an_error_ends_a_run_after_what_runs() -> None:
    due = _Due(A, a=1, b=3)
    due.failing = B
    running = asyncio.create_task(due.work.run())
    while B not in due.begun:
        await asyncio.sleep(0)
    due.can_end.set()
    with pytest.raises(ValueError):  # noqa: PT011 - the error of the work
        await running
    assert due.most_running == 2
    # Another run goes on.
    due.failing = None
    await due.work.run()
    assert due.left.total() == 0


async def test_a_cancelled_run_cancels_its_work() -> None:
    due = _Due(A, a=1)
    running = asyncio.create_task(due.work.run())
    while not due.begun:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert due._running == 0
