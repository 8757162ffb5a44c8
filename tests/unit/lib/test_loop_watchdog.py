"""What holds the event loop is found, and named."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import uvloop

from hedgerow.lib.workers.loop_watchdog import LoopHold, LoopWatchdog

BUSY_S = 0.2


def use_processor(seconds: float = BUSY_S) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def call_c(seconds: float = BUSY_S) -> None:
    """Hold the interpreter lock for a while in one call after the other."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(2_000_000))


async def hold_in_task() -> None:
    await asyncio.sleep(0)
    use_processor()


async def take_slices() -> None:
    for _ in range(30):
        use_processor(0.01)
        await asyncio.sleep(0)


async def wait_for_processor() -> None:
    time.sleep(BUSY_S)


def watch(work: Callable[[], object], *, plumbing: tuple[str, ...] = ()) -> list[LoopHold]:
    """Run work in a loop, as a task or a callback, and return what held the loop."""
    holds: list[LoopHold] = []

    async def run() -> None:
        watchdog = LoopWatchdog(holds.append, plumbing)
        async with watchdog.watch():
            await asyncio.sleep(0.05)
            found = work()
            if asyncio.iscoroutine(found):
                await asyncio.create_task(found)
            await asyncio.sleep(0.1)
        await asyncio.sleep(0)
        counted.update(watchdog.counts)

    counted = Counter[str]()
    for create in (uvloop.new_event_loop, asyncio.new_event_loop):
        with asyncio.Runner(loop_factory=create) as runner:
            runner.run(run())
    assert counted.total() == len(holds)
    return holds


def test_a_task_that_holds_the_loop_is_counted() -> None:
    first, second = watch(hold_in_task)
    assert first.handler == second.handler
    assert first.handler.endswith("hold_in_task") or first.handler.endswith("use_processor")
    assert any(each.endswith("use_processor") for each in first.stack)
    assert BUSY_S / 2 < first.seconds < 2 * BUSY_S


def test_a_callback_that_holds_the_loop_is_counted() -> None:
    def schedule() -> None:
        asyncio.get_running_loop().call_soon(call_c)

    assert len(watch(schedule)) == 2


def test_slices_do_not_hold_the_loop() -> None:
    assert watch(take_slices) == []


def test_waiting_does_not_count() -> None:
    assert watch(wait_for_processor) == []


def test_a_hold_has_the_name_of_the_first_function_that_is_no_plumbing() -> None:
    watchdog = LoopWatchdog(lambda _: None, ("hedgerow.http.server.",))
    stack = [
        "json.loads",
        "hedgerow.lib.jsonio.parse",
        "hedgerow.http.sdk.capture.Capture.serve.<locals>.read",
        "starlette.routing.Router",
        "hedgerow.http.server.gateway.Gateway._serve_fast",
    ]
    assert watchdog._name(stack) == "http.sdk.capture.Capture.serve.read"
    assert watchdog._name(stack[3:]) == "http.server.gateway.Gateway._serve_fast"
    assert watchdog._name(stack[3:4]) == "starlette.routing.Router"
