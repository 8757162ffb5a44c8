"""A project that fills the inbox of an edge process leaves space, memory and turns to others."""

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from hedgerow.edge.inbox import queue as queue_module
from hedgerow.edge.inbox.queue import Inbox
from hedgerow.edge.inbox.requests import WaitingRequest
from hedgerow.edge.inbox.store import EdgeInboxStore
from hedgerow.errors import Unavailable
from hedgerow.http.sdk.edge_receipt import Receipt
from hedgerow.projects.model import ProjectId
from tests.support.edge import LiveEdge, Origin
from tests.support.live import PROJECT_KEY, Installation, wait_for

A, B = ProjectId(1), ProjectId(2)
MAX_BYTES = 1_000_000
BODY_BYTES = 100_000
TIMEOUT_S = 120


def _build_request(project_id: ProjectId) -> WaitingRequest:
    return WaitingRequest(
        project_id=project_id,
        method="POST",
        path="/e/",
        headers=[],
        receipt=Receipt(received_us=1, randomness=bytes(10), ip="192.0.2.1"),
    )


async def _add(inbox: Inbox, project_id: ProjectId, size: int = BODY_BYTES) -> None:
    await inbox.add(_build_request(project_id), b"x" * size)


async def _fill(inbox: Inbox, project_id: ProjectId, size: int = BODY_BYTES) -> int:
    """Add requests until one is refused, and return their number."""
    for number in range(100):
        try:
            await _add(inbox, project_id, size)
        except Unavailable:
            return number
    raise AssertionError("the inbox has no end")


@pytest.fixture
async def build_inbox(tmp_path: Path) -> AsyncIterator[Callable[[bool], Any]]:
    opened: list[Inbox] = []

    async def build(is_shared: bool) -> Inbox:
        inbox = Inbox(tmp_path, max_bytes=MAX_BYTES, min_free_bytes=0, is_shared=is_shared)
        opened.append(inbox)
        await inbox.open()
        return inbox

    yield build
    for each in opened:
        await each.close()


async def test_a_project_gets_as_much_as_it_leaves(build_inbox: Callable[[bool], Any]) -> None:
    inbox = await build_inbox(True)
    assert await _fill(inbox, A) == 5
    assert await _fill(inbox, B) == 2
    assert await _fill(inbox, ProjectId(3)) == 1


async def test_the_only_project_fills_the_inbox(build_inbox: Callable[[bool], Any]) -> None:
    assert await _fill(await build_inbox(False), A) == 9


async def test_dead_letters_belong_to_the_share(
    build_inbox: Callable[[bool], Any], tmp_path: Path
) -> None:
    inbox = await build_inbox(True)
    assert await _fill(inbox, A) == 5
    await inbox.bury(A, [(each, "400") for each in await inbox.fetch(A)])
    assert (inbox.number, inbox.dead_number) == (0, 5)
    assert await _fill(inbox, A) == 0
    # After a start, too.
    store = EdgeInboxStore(tmp_path)
    assert {id: lane.number for id, lane in store.dead.items()} == {A: 5}
    store.close()


async def test_a_project_leaves_space_on_a_small_disk(
    build_inbox: Callable[[bool], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = await build_inbox(True)

    def measure_disk(_: Path) -> SimpleNamespace:
        return SimpleNamespace(free=500_000 - inbox.size)

    monkeypatch.setattr(shutil, "disk_usage", measure_disk)
    await inbox.run_commands()
    assert await _fill(inbox, A) == 2
    await _add(inbox, B)


class _SlowDisk:
    """Writes wait until the test lets them go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.can_write = threading.Event()
        self.written: list[tuple[ProjectId, int]] = []
        write = EdgeInboxStore.add

        def write_later(
            store: EdgeInboxStore, project_id: ProjectId, contents: Sequence[bytes]
        ) -> None:
            assert self.can_write.wait(60)
            self.written.append((project_id, len(contents)))
            write(store, project_id, contents)

        monkeypatch.setattr(EdgeInboxStore, "add", write_later)


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[_SlowDisk]:
    disk = _SlowDisk(monkeypatch)
    yield disk
    disk.can_write.set()


async def test_a_project_leaves_memory_while_the_disk_is_slow(
    build_inbox: Callable[[bool], Any], slow_disk: _SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "MAX_PENDING_BYTES", 4 * BODY_BYTES)
    inbox = await build_inbox(True)
    waiting = [asyncio.create_task(_add(inbox, A)) for _ in range(4)]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert [each.done() for each in waiting].count(True) == 2
    other = asyncio.create_task(_add(inbox, B))
    await asyncio.sleep(0)
    slow_disk.can_write.set()
    await other
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in ends] == [type(None)] * 2 + [Unavailable] * 2
    # The memory is free again.
    await _add(inbox, A)


async def test_projects_take_turns_when_the_disk_is_slow(
    build_inbox: Callable[[bool], Any], slow_disk: _SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "WRITE_BYTES", BODY_BYTES)
    inbox = await build_inbox(True)
    async with asyncio.TaskGroup() as group:
        for _ in range(9):
            group.create_task(_add(inbox, A, BODY_BYTES // 3))
        await asyncio.sleep(0)
        group.create_task(_add(inbox, B))
        await asyncio.sleep(0)
        slow_disk.can_write.set()
    assert slow_disk.written[1] == (B, 1)
    assert sum(number for _, number in slow_disk.written) == 10


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[Origin]:
    made = Origin(Installation(data=tmp_path / "origin", settings={}))
    try:
        yield made
    finally:
        made.server.stop()


def test_a_project_that_fills_the_inbox_takes_nothing_from_another(
    origin: Origin, tmp_path: Path
) -> None:
    keys = origin.secret, origin.second_secret
    with LiveEdge(tmp_path / "edge", origin.address, *keys, edge_inbox_max_mb="1") as edge:

        def capture(key: str, size: int) -> httpx.Response:
            event = {"event": "e", "distinct_id": "ann", "properties": {"text": "x" * size}}
            body = {"api_key": key, **event}
            return httpx.post(f"{edge.address}/e/", json=body, timeout=TIMEOUT_S, verify=False)

        origin.server.kill()
        answers = [capture(PROJECT_KEY, 50_000) for _ in range(30)]
        refused = answers[-1]
        assert answers[0].status_code == 200
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
        assert "this project has filled its share" in refused.text
        for _ in range(5):
            assert capture(origin.second_token, 50_000).status_code == 200
        origin.start()
        wait_for(lambda: _count_waiting(edge) == 0, TIMEOUT_S)
        assert capture(PROJECT_KEY, 50_000).status_code == 200


def _count_waiting(edge: LiveEdge) -> int:
    found: int = httpx.get(f"{edge.address}/_readiness", verify=False).json()["inbox"]["requests"]
    return found
