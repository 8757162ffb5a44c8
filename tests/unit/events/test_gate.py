"""The gate lets so many through, and the others when there is a place."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hedgerow.errors import Throttled
from hedgerow.events.gate import Gate
from hedgerow.projects.model import ProjectId

ONE, OTHER, THIRD = ProjectId(1), ProjectId(2), ProjectId(3)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Visitors:
    """Those who are inside stay until they are told to go."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.inside: list[ProjectId] = []
        self._leave: list[asyncio.Event] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def come(self, project_id: ProjectId) -> asyncio.Task[None]:
        async def visit() -> None:
            async with self._gate.entered(project_id):
                self.inside.append(project_id)
                leave = asyncio.Event()
                self._leave.append(leave)
                await leave.wait()

        self._tasks.append(asyncio.create_task(visit()))
        await settle()
        return self._tasks[-1]

    async def first_leaves(self) -> None:
        self._leave.pop(0).set()
        self.inside.pop(0)
        await settle()


@pytest.fixture
def visitors() -> Callable[[], Visitors]:
    return lambda: Visitors(Gate(of_one_project=2, in_all=3, wait_s=60))


async def test_of_one_project_so_many_are_inside(visitors: Callable[[], Visitors]) -> None:
    inside = visitors()
    for _ in range(3):
        await inside.come(ONE)
    assert inside.inside == [ONE, ONE]
    await inside.come(OTHER)
    assert inside.inside == [ONE, ONE, OTHER]
    await inside.first_leaves()
    assert inside.inside == [ONE, OTHER, ONE]


async def test_of_all_so_many_are_inside(visitors: Callable[[], Visitors]) -> None:
    inside = visitors()
    for project in (ONE, ONE, OTHER, THIRD):
        await inside.come(project)
    assert inside.inside == [ONE, ONE, OTHER]
    await inside.first_leaves()
    assert inside.inside == [ONE, OTHER, THIRD]


async def test_who_goes_away_leaves_their_place(visitors: Callable[[], Visitors]) -> None:
    inside = visitors()
    tasks = [await inside.come(ONE) for _ in range(3)]
    tasks[2].cancel()
    tasks[0].cancel()
    await settle()
    await inside.come(ONE)
    assert inside.inside == [ONE, ONE, ONE]


async def test_who_waits_too_long_is_told_to_come_again() -> None:
    gate = Gate(of_one_project=1, in_all=1, wait_s=0)
    async with gate.entered(ONE):
        with pytest.raises(Throttled):
            await _entered(gate)
    await _entered(gate)


async def _entered(gate: Gate) -> Awaitable[None] | None:
    async with gate.entered(OTHER):
        return None
