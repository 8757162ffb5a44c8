"""Requests wait in queues that take turns; a queue that is too long refuses."""

import asyncio
from collections.abc import Callable

import pytest

from hedgerow.http.server import request_queues
from hedgerow.http.server.request_queues import (
    MAX_RUNNING,
    MIN_LIMIT,
    SLICE_S,
    WINDOW_S,
    RequestQueue,
    RequestQueues,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(request_queues, "perf_counter", clock)
    return clock


class Request:
    def __init__(self, start: Callable[[], object]) -> None:
        self.start = start


def _add(queues: RequestQueues, queue: RequestQueue, number: int, start: object) -> None:
    for _ in range(number):
        queues.add(queue, Request(start))  # type: ignore[arg-type]


async def _run_slice() -> None:
    await asyncio.sleep(0)


async def test_probes_go_first_and_the_queues_take_turns() -> None:
    queues, started = RequestQueues(), []
    for queue, number in ((queues.capture, 3), (queues.flags, 1), (queues.probes, 1)):
        _add(queues, queue, number, lambda name=queue.name: started.append(name))
    await _run_slice()
    assert started == ["probes", "capture", "flags", "capture", "capture"]


async def test_a_slice_ends_and_the_next_iteration_continues(clock: Clock) -> None:
    queues, started = RequestQueues(), list[str]()

    def start() -> None:
        started.append("request")
        clock.now += 0.6 * SLICE_S

    _add(queues, queues.flags, 5, start)
    await _run_slice()
    assert len(started) == 2
    _add(queues, queues.probes, 1, lambda: started.append("probe"))
    await _run_slice()
    assert started[2] == "probe"
    await _run_slice()
    assert (len(started), queues.waiting) == (6, 0)


async def test_a_queue_that_does_not_become_empty_gets_a_limit_and_refuses(clock: Clock) -> None:
    refused: list[tuple[str, int]] = []
    queues = RequestQueues(lambda name, number: refused.append((name, number)))

    def start() -> None:
        clock.now += SLICE_S

    _add(queues, queues.flags, 1000, start)
    assert not queues.is_refusing, "a burst is not refused"
    while clock.now < 2 * WINDOW_S:
        await _run_slice()
    assert (queues.flags.limit, queues.flags.is_refusing) == (MIN_LIMIT, True)
    assert (queues.is_refusing, queues.capture.is_refusing) == (True, False)
    queues.flags.refused += 7
    await _run_slice()
    assert refused == [("flags", 7)]
    while queues.waiting >= MIN_LIMIT:
        await _run_slice()
    assert not queues.is_refusing
    _add(queues, queues.flags, MIN_LIMIT - queues.waiting, start)
    assert queues.is_refusing, "as soon as the limit is reached again"


async def test_a_pause_of_the_process_refuses_no_short_queue(clock: Clock) -> None:
    queues = RequestQueues()

    def pause() -> None:
        clock.now += 10.0

    _add(queues, queues.flags, MIN_LIMIT - 1, pause)
    for _ in range(MIN_LIMIT // 2):
        await _run_slice()
        assert not queues.is_refusing


async def test_handlers_that_wait_for_the_database_hold_back_the_others() -> None:
    queues = RequestQueues()
    _add(queues, queues.capture, MAX_RUNNING + 1, lambda: queues.begin(queues.capture))
    await _run_slice()
    assert (queues.capture.running, queues.waiting) == (MAX_RUNNING, 1)
    queues.end(queues.capture)
    await _run_slice()
    assert (queues.capture.running, queues.waiting) == (MAX_RUNNING, 0)
