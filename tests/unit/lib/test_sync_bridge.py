"""Awaiting inside synchronous functions: results, errors, cancellation and context variables."""

import asyncio
from contextvars import ContextVar

import pytest

from hedgerow.lib.sync_bridge import await_inline, is_bridged, run_bridged

number: ContextVar[int] = ContextVar("number", default=0)


async def double(value: int) -> int:
    await asyncio.sleep(0)
    return value * 2


def double_inline(value: int) -> int:
    number.set(number.get() + 1)
    return await_inline(double(value))


async def add_doubles() -> tuple[int, int]:
    first = double_inline(1)
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        second = double_inline(2)
    return first + second, number.get()


async def test_a_synchronous_function_waits_while_other_tasks_run() -> None:
    number.set(10)
    results = await asyncio.gather(run_bridged(add_doubles()), run_bridged(add_doubles()))
    assert list(results) == [(6, 12), (6, 12)]


async def test_errors_reach_the_caller() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise KeyError("reason")

    async def call() -> None:
        with pytest.raises(KeyError):
            await_inline(fail())
        raise LookupError("second")

    with pytest.raises(LookupError, match="second"):
        await run_bridged(call())


async def test_a_timeout_cancels_the_awaited_coroutine() -> None:
    cancelled: list[str] = []

    async def wait_forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("inside")
            raise

    async def call() -> None:
        await_inline(wait_forever())

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await run_bridged(call())
    assert cancelled == ["inside"]


async def test_only_the_coroutine_itself_is_bridged() -> None:
    async def ask() -> bool:
        return is_bridged()

    async def call() -> tuple[bool, bool]:
        return is_bridged(), await asyncio.create_task(ask())

    assert await run_bridged(call()) == (True, False)
    assert not is_bridged()
