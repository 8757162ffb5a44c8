"""Who listens hears of every change, of nothing else, and is let go in the end."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hedgerow.errors import Throttled
from hedgerow.flags import streams as module
from hedgerow.flags.board import FlagCache
from hedgerow.flags.local_board import LocalBoard
from hedgerow.flags.streams import FlagStreams
from hedgerow.lib.threads import in_daemon_thread
from tests.unit.flags.stores import ListFlags
from tests.unit.flags.world import a_flag
from tests.unit.projects.world import TWO, a_project

PROJECT = a_project()
SOON_S = 30.0


class World:
    def __init__(self) -> None:
        self.store = ListFlags(a_flag())
        self.board = FlagCache(self.store, in_daemon_thread)
        self.stopping = asyncio.Event()
        local = LocalBoard(self.board, in_daemon_thread)
        self.streams = FlagStreams(self.board, local, self.stopping)
        self.may_listen = True

    async def may(self) -> bool:
        return self.may_listen

    def listen(self) -> AsyncIterator[str | None]:
        return self.streams.marks(PROJECT, self.may)


async def heard(listening: AsyncIterator[str | None]) -> str | None:
    return await asyncio.wait_for(anext(listening), SOON_S)


async def test_a_mark_comes_at_once_and_with_each_change() -> None:
    world = World()
    listening = world.listen()
    first = await heard(listening)
    waiting = asyncio.ensure_future(heard(listening))
    world.store.put(a_flag(active=False))
    await world.board.watch()
    second = await waiting
    assert None not in (first, second)
    assert first != second
    await listening.aclose()  # type: ignore[attr-defined]


async def test_what_changes_nothing_for_sdks_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.01)
    world = World()
    listening = world.listen()
    await heard(listening)
    world.store.put(a_flag(tags=("new",)))
    await world.board.watch()
    assert [await heard(listening) for _ in range(3)] == [None] * 3


async def test_who_may_no_longer_listen_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.01)
    world = World()
    listening = world.listen()
    await heard(listening)
    assert await heard(listening) is None
    world.may_listen = False
    with pytest.raises(StopAsyncIteration):
        await heard(listening)


async def test_a_stop_ends_all_at_once() -> None:
    world = World()
    listeners = [world.listen() for _ in range(3)]
    waiting = []
    for listening in listeners:
        await heard(listening)
        waiting.append(asyncio.ensure_future(heard(listening)))
    await asyncio.sleep(0)
    world.stopping.set()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in ended] == [StopAsyncIteration] * 3


async def test_listeners_are_few_for_each_project_and_their_places_are_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_OF_PROJECT", 2)
    monkeypatch.setattr(module, "MAX_LISTENERS", 3)
    world = World()
    listeners = [world.listen() for _ in range(2)]
    for listening in listeners:
        world.streams.check_room(PROJECT)
        await heard(listening)
    with pytest.raises(Throttled):
        world.streams.check_room(PROJECT)
    other = a_project(TWO, token="phc_another")
    world.streams.check_room(other)
    await listeners[0].aclose()  # type: ignore[attr-defined]
    world.streams.check_room(PROJECT)
