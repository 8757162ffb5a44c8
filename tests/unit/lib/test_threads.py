import asyncio
import os
import threading
from collections.abc import Callable
from functools import partial

import pytest

from hedgerow.lib import threads
from hedgerow.lib.threads import ThreadLimiter, run_in_thread
from hedgerow.lib.workers.sender import work_for


class Gate:
    """Blocks calls until the test opens it, and counts concurrent calls."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.running = 0
        self.most = 0
        self._lock = threading.Lock()

    def work(self, number: int) -> int:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.opened.wait(20)
        with self._lock:
            self.running -= 1
        return number


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def test_result_and_error_reach_the_awaiting_task() -> None:
    assert await run_in_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda: 1 // 0)


async def test_stop_iteration_becomes_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="StopIteration was raised"):
        await run_in_thread(lambda: next(iter(())))


async def test_concurrent_calls_are_limited_and_none_is_lost() -> None:
    limiter, gate = ThreadLimiter(3), Gate()
    calls = [asyncio.create_task(limiter.run(partial(gate.work, n))) for n in range(20)]
    await until(lambda: gate.running == 3)
    gate.opened.set()
    assert await asyncio.gather(*calls) == list(range(20))
    assert gate.most == 3


async def test_threads_are_reused() -> None:
    limiter = ThreadLimiter(5)
    seen = set()
    for _ in range(50):
        seen.add(await limiter.run(threading.get_ident))
        await until(lambda: limiter._idle_count > 0)
    assert len(seen) == 1


async def test_idle_threads_end_and_new_ones_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_TIMEOUT_S", 0.01)
    limiter, gate = ThreadLimiter(4), Gate()
    calls = [asyncio.create_task(limiter.run(partial(gate.work, n))) for n in range(9)]
    gate.opened.set()
    await asyncio.gather(*calls)
    await until(lambda: limiter._thread_count == 0)
    assert await limiter.run(lambda: "again") == "again"


async def test_cancelled_caller_leaves_the_thread_usable() -> None:
    limiter, gate = ThreadLimiter(1), Gate()
    waiting = asyncio.create_task(limiter.run(lambda: gate.work(0)))
    await until(lambda: gate.running == 1)
    waiting.cancel()
    gate.opened.set()
    assert await limiter.run(lambda: "next") == "next"


async def test_queued_call_waits_while_no_thread_can_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limiter, gate = ThreadLimiter(2), Gate()
    first = asyncio.create_task(limiter.run(lambda: gate.work(1)))
    await until(lambda: gate.running == 1)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    second = asyncio.create_task(limiter.run(lambda: 2))
    await until(lambda: limiter._backlog_count == 1)
    gate.opened.set()
    assert (await first, await second) == (1, 2)
    with pytest.raises(OSError, match="No thread can be started"):
        await ThreadLimiter(1).run(lambda: 3)


async def test_forked_child_starts_its_own_threads() -> None:
    limiter = ThreadLimiter(1)
    await limiter.run(lambda: None)
    child = os.fork()
    if child == 0:
        os._exit(0 if limiter._thread_count == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


async def test_a_sender_leaves_threads_to_others() -> None:
    limiter, gate = ThreadLimiter(4, has_turns=True), Gate()
    with work_for("a"):
        calls = [asyncio.create_task(limiter.run(partial(gate.work, n))) for n in range(20)]
    await until(lambda: gate.running == 2)
    with work_for("b"):
        assert await limiter.run(lambda: "b") == "b"
    gate.opened.set()
    assert await asyncio.gather(*calls) == list(range(20))
    assert gate.most == 2


async def test_an_abandoned_call_keeps_the_place_of_its_sender() -> None:
    limiter, gate = ThreadLimiter(2, has_turns=True), Gate()
    abandoned = asyncio.create_task(limiter.run(partial(gate.work, 1)))
    await until(lambda: gate.running == 1)
    abandoned.cancel()
    next_call = asyncio.create_task(limiter.run(partial(gate.work, 2)))
    await asyncio.sleep(0.01)
    assert gate.most == 1
    gate.opened.set()
    assert await next_call == 2
    assert gate.most == 1


def test_places_are_those_of_one_event_loop() -> None:
    limiter, gate = ThreadLimiter(2, has_turns=True), Gate()

    async def leave_a_call() -> None:
        call = asyncio.create_task(limiter.run(partial(gate.work, 1)))
        await until(lambda: gate.running == 1)
        call.cancel()

    asyncio.run(leave_a_call())
    assert asyncio.run(limiter.run(lambda: 2)) == 2
    gate.opened.set()
