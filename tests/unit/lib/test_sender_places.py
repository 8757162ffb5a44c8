"""Places that senders share, and time limits that do not count the waiting for one."""

import asyncio

import pytest

from hedgerow.lib.workers.sender import current_sender, work_for
from hedgerow.lib.workers.sender_places import SenderPlaces, limit_time, pause_time_limits


async def test_a_sender_leaves_places_to_the_next_one() -> None:
    places = SenderPlaces(4)
    with work_for("a"):
        held = [asyncio.create_task(places.acquire_for_sender()) for _ in range(9)]
    await asyncio.sleep(0)
    assert [each.done() for each in held] == [True] * 2 + [False] * 7
    with work_for("b"):
        async with places.hold_for_sender():
            assert places.count_running("b") == 1
    for each in held:
        each.cancel()
    await asyncio.gather(*held, return_exceptions=True)


def test_work_for_ends_with_its_block() -> None:
    with work_for("a"):
        with work_for("b"):
            assert current_sender.get() == "b"
        assert current_sender.get() == "a"
    assert current_sender.get() == ""


async def test_a_time_limit_does_not_count_the_waiting_for_a_place() -> None:
    places = SenderPlaces(1)
    await places.acquire("")
    asyncio.get_running_loop().call_later(0.05, places.release, "")
    async with limit_time(0.01), places.hold_for_sender():
        pass


async def test_a_time_limit_counts_what_follows_a_wait() -> None:
    async def run() -> None:
        async with limit_time(0.01):
            with pause_time_limits():
                await asyncio.sleep(0)
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await run()


async def test_a_wait_stops_all_limits_around_it_in_every_task() -> None:
    async def wait() -> None:
        with pause_time_limits():
            await asyncio.sleep(0.6)

    async with limit_time(0.4), limit_time(0.5):
        await asyncio.gather(wait(), wait())


async def test_a_limit_continues_after_the_last_of_several_waits() -> None:
    long_wait = asyncio.Event()

    async def wait(event: asyncio.Event) -> None:
        with pause_time_limits():
            await event.wait()

    async with limit_time(0.5):
        task = asyncio.create_task(wait(long_wait))
        with pause_time_limits():
            await asyncio.sleep(0)
        await asyncio.sleep(0.6)  # one still waits
        long_wait.set()
        await task


async def test_a_wait_may_outlive_its_limit() -> None:
    event = asyncio.Event()

    async def wait() -> None:
        with pause_time_limits():
            await event.wait()

    async with limit_time(60):
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
    event.set()
    await task
