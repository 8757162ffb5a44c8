"""WorkerPool: senders take turns, the queue is bounded, and cancelled requests are killed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hedgerow.lib.workers.pool import PoolFull, PoolLimits, WorkerPool
from hedgerow.lib.workers.process import WorkerDied
from tests.contract.test_worker_process import HOST, ROOT, is_running


@pytest.fixture(autouse=True)
def test_modules_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@asynccontextmanager
async def open_pool(
    *,
    max_processes: int = 1,
    max_waiting: int = 8,
    max_waiting_per_sender: int = 4,
    max_running_per_sender: int = 0,
) -> AsyncIterator[WorkerPool]:
    limits = PoolLimits(
        max_processes=max_processes,
        max_waiting=max_waiting,
        max_waiting_per_sender=max_waiting_per_sender,
        timeout_s=60,
        max_memory_bytes=0,
        max_running_per_sender=max_running_per_sender,
    )
    pool = WorkerPool(HOST, limits)
    try:
        yield pool
    finally:
        pool.close()


async def test_senders_take_turns() -> None:
    order: list[str] = []

    async def send(pool: WorkerPool, sender: str) -> None:
        await pool.request(b"abc", sender)
        order.append(sender)

    async with open_pool() as pool, asyncio.TaskGroup() as tasks:
        for sender in ("first", "busy", "busy", "busy", "quiet"):
            tasks.create_task(send(pool, sender))
    assert order == ["first", "busy", "quiet", "busy", "busy"]


async def test_the_queue_is_bounded_for_each_sender_and_in_total() -> None:
    async with open_pool(max_waiting=3, max_waiting_per_sender=2) as pool:
        running = [asyncio.create_task(pool.request(b"abc", "busy")) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(PoolFull):
            await pool.request(b"abc", "busy")
        other = asyncio.create_task(pool.request(b"abc", "other"))
        await asyncio.sleep(0)
        with pytest.raises(PoolFull):
            await pool.request(b"abc", "third")
        assert await asyncio.gather(*running, other) == [b"cba"] * 4
        assert await pool.request(b"abc", "third") == b"cba"


async def test_a_cancelled_request_is_killed_and_frees_its_process() -> None:
    async with open_pool() as pool:
        process = int(await pool.request(b"who", "a"))
        hanging = asyncio.create_task(pool.request(b"hang", "a"))
        waiting = asyncio.create_task(pool.request(b"abc", "b"))
        cancelled_in_queue = asyncio.create_task(pool.request(b"abc", "c"))
        await asyncio.sleep(0.2)
        cancelled_in_queue.cancel()
        hanging.cancel()
        assert await waiting == b"cba"
        assert not is_running(process)
        for task in (hanging, cancelled_in_queue):
            with pytest.raises(asyncio.CancelledError):
                await task


async def test_a_sender_leaves_processes_to_the_others() -> None:
    async with open_pool(max_processes=2, max_running_per_sender=1) as pool:
        hanging = asyncio.create_task(pool.request(b"hang", "busy"))
        waiting = asyncio.create_task(pool.request(b"abc", "busy"))
        await asyncio.sleep(0)
        assert await pool.request(b"abc", "other") == b"cba"
        assert not waiting.done()
        hanging.cancel()
        assert await waiting == b"cba"
        assert (
            await asyncio.gather(*(pool.request(b"abc", "busy") for _ in range(4))) == [b"cba"] * 4
        )


async def test_closing_ends_requests_in_progress() -> None:
    async with open_pool(max_processes=2) as pool:
        hanging = [asyncio.create_task(pool.request(b"hang", "a")) for _ in range(2)]
        await asyncio.sleep(0.2)
    for task in hanging:
        with pytest.raises(WorkerDied):
            await task
