"""Requests wait in queues that take turns; a queue that is too long refuses."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from hedgerow.http.server import request_queues
from hedgerow.http.server.request_queues import (
    CROWD,
    MAX_LIMIT,
    MAX_RUNNING,
    MIN_LIMIT,
    READING_S,
    REFUSING_SLICE_S,
    SLICE_S,
    WINDOW_S,
    RequestQueue,
    RequestQueues,
    Sender,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Transport(asyncio.Transport):
    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(request_queues, "perf_counter", clock)
    return clock


def _add(
    queues: RequestQueues,
    queue: RequestQueue,
    number: int,
    start: Callable[[], object],
    *,
    sender: Sender = None,
) -> None:
    for _ in range(number):
        queues.add(queue, sender, start)  # type: ignore[arg-type]


async def _run_slice() -> None:
    await asyncio.sleep(0)


async def test_probes_go_first_and_the_queues_take_turns() -> None:
    queues, started = RequestQueues(), list[str]()
    for queue, number in ((queues.capture, 3), (queues.flags, 1), (queues.probes, 1)):
        _add(queues, queue, number, partial(started.append, queue.name))
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


async def test_a_slice_is_longer_while_requests_are_refused(clock: Clock) -> None:
    queues, started = RequestQueues(), list[float]()

    def start() -> None:
        clock.now += 0.6 * SLICE_S
        started.append(clock.now)

    _add(queues, queues.flags, 20, start)
    await _run_slice()
    assert len(started) == 2
    began = clock.now
    queues.refuse(queues.flags, Transport(), b"refusal")
    await _run_slice()
    assert started[-2] - began <= REFUSING_SLICE_S < started[-1] - began
    in_all = len(started)
    await _run_slice()
    assert len(started) == in_all + 2, "nothing was refused since then"


async def test_a_queue_that_does_not_become_empty_gets_a_limit_and_refuses(clock: Clock) -> None:
    refused: list[tuple[str, int]] = []
    queues = RequestQueues(lambda name, number: refused.append((name, number)))

    def start() -> None:
        clock.now += SLICE_S

    _add(queues, queues.flags, MAX_LIMIT - 1, start)
    assert not queues.is_refusing, "a burst is not refused"
    while queues.flags.limit > MIN_LIMIT:
        await _run_slice()
    assert clock.now < 10 * WINDOW_S
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


async def test_senders_take_turns_and_the_one_that_floods_is_refused(clock: Clock) -> None:
    queues, started = RequestQueues(), list[str]()
    flags = queues.flags
    _add(queues, flags, MAX_LIMIT, lambda: started.append("many"), sender="many")
    _add(queues, flags, 2, lambda: started.append("few"), sender="few")
    assert flags.is_refusing
    refuses = [flags.refuses(sender) for sender in ("many", "few", "new")]
    assert refuses == [True, False, False]
    await _run_slice()
    assert started[:5] == ["many", "few", "many", "few", "many"]
    assert not flags.refuses("many"), "the queue is empty"


async def test_new_connections_reserve_their_senders_share_until_the_next_slice() -> None:
    queues = RequestQueues()
    queue = queues.flags
    queue.limit = 4
    _add(queues, queue, 1, lambda: None, sender="one")
    assert [queues.reserve(queue, "one") for _ in range(4)] == [True, True, True, False]
    assert [queues.reserve(queue, "two") for _ in range(3)] == [True, True, False]
    # It refuses what has no place, and what has one is served.
    assert not queue.refuses("one")
    await _run_slice()
    assert queues.reserve(queue, "one")


async def test_a_limit_recovers_when_the_queue_becomes_empty(clock: Clock) -> None:
    queues = RequestQueues()
    queues.flags.limit = MIN_LIMIT
    for _ in range(3):
        _add(queues, queues.flags, CROWD + 1, lambda: None)
        await _run_slice()
    assert queues.flags.limit == 8 * MIN_LIMIT


async def test_an_iteration_has_one_slice_although_requests_follow_each_other(clock: Clock) -> None:
    """A client may send its next requests before it reads the response."""
    queues, started = RequestQueues(), list[float]()

    def start() -> None:
        started.append(clock.now)
        clock.now += 0.6 * SLICE_S
        if len(started) < 100:
            queues.add(queues.flags, None, start)

    _add(queues, queues.flags, 4, start)
    for iteration in range(1, 6):
        await _run_slice()
        assert len(started) == 2 * iteration


async def test_parsing_stops_after_a_while_and_senders_take_turns_there_too(clock: Clock) -> None:
    queues, parsed = RequestQueues(), list[str]()

    def parse(sender: str) -> None:
        parsed.append(sender)
        clock.now += 0.6 * READING_S

    assert queues.can_parse()
    clock.now += READING_S
    assert not queues.can_parse()
    for sender in ("many", "many", "many", "few"):
        _add(queues, queues.unparsed, 1, partial(parse, sender), sender=sender)
    await _run_slice()
    assert parsed == ["many", "few"]
    assert not queues.can_parse(), "others wait for that"
    await _run_slice()
    assert queues.can_parse()


async def test_handlers_that_wait_for_the_database_hold_back_the_others(clock: Clock) -> None:
    queues = RequestQueues()
    queue = queues.capture

    def begin(sender: str) -> None:
        queues.begin(queue, sender)

    _add(queues, queue, MAX_RUNNING, lambda: begin("many"), sender="many")
    await _run_slice()
    assert (queue.running, queue.waiting) == (MAX_RUNNING // 2, MAX_RUNNING // 2)
    _add(queues, queue, 1, lambda: begin("few"), sender="few")
    await _run_slice()
    assert (queue.running, queue.waiting) == (MAX_RUNNING // 2 + 1, MAX_RUNNING // 2)
    for sender in ("few", "many"):
        queues.end(queue, sender)
    await _run_slice()
    assert (queue.running, queue.waiting) == (MAX_RUNNING // 2, MAX_RUNNING // 2 - 1)
