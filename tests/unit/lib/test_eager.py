import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from hedgerow.lib.eager import ensure_task, start_eagerly


async def test_coroutine_without_suspension_finishes_immediately() -> None:
    done: list[str] = []

    async def whole() -> None:
        done.append("all of it")

    assert start_eagerly(whole()) is None
    assert done == ["all of it"]


async def test_suspended_coroutine_continues_in_a_task() -> None:
    gate = asyncio.get_running_loop().create_future()
    steps: list[Any] = []

    async def whole() -> str:
        steps.append("begun")
        steps.append(await gate)
        await asyncio.sleep(0)
        return "end"

    rest = _rest_of(whole())
    assert steps == ["begun"]
    task = asyncio.create_task(rest)
    await asyncio.sleep(0)
    gate.set_result("came")
    assert await task == "end"
    assert steps == ["begun", "came"]


async def test_error_is_raised_at_the_await() -> None:
    gate = asyncio.get_running_loop().create_future()

    async def whole() -> str:
        try:
            await gate
        except KeyError as error:
            return f"caught {error.args[0]}"
        raise AssertionError

    task = asyncio.create_task(_rest_of(whole()))
    await asyncio.sleep(0)
    gate.set_exception(KeyError("lost"))
    assert await task == "caught lost"


async def test_cancelled_coroutine_can_clean_up() -> None:
    last: list[str] = []

    async def whole() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            last.append("tidied")

    task = asyncio.create_task(_rest_of(whole()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert last == ["tidied"]


async def test_abandoned_coroutine_is_closed() -> None:
    last: list[str] = []

    async def whole() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            last.append("tidied")

    rest = _rest_of(whole())
    rest.send(None)
    rest.close()
    assert last == ["tidied"]


async def test_timeout_works_after_ensure_task() -> None:
    async def whole() -> str:
        await ensure_task()
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "in time"
        raise AssertionError

    # Like a callback of the event loop, outside of any task.
    ended: asyncio.Future[asyncio.Task[str]] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(
        lambda: ended.set_result(asyncio.ensure_future(_rest_of(whole())))
    )
    assert await (await ended) == "in time"


def _rest_of(whole: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    rest = start_eagerly(whole)
    assert rest is not None
    return rest
