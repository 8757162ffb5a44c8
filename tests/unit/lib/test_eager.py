import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from hedgerow.lib.eager import begun, own_task


async def test_what_waits_for_nothing_is_done_at_once() -> None:
    done: list[str] = []

    async def whole() -> None:
        done.append("all of it")

    assert begun(whole()) is None
    assert done == ["all of it"]


async def test_what_waits_goes_on_in_a_task() -> None:
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


async def test_what_went_wrong_meanwhile_is_raised_where_it_was_waited_for() -> None:
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


async def test_what_is_cancelled_can_say_something_last() -> None:
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


async def test_what_is_never_gone_on_with_is_closed() -> None:
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


async def test_a_time_limit_works_after_asking_for_a_task() -> None:
    async def whole() -> str:
        await own_task()
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "in time"
        raise AssertionError

    # As the event loop calls it: outside of any task.
    ended: asyncio.Future[asyncio.Task[str]] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(
        lambda: ended.set_result(asyncio.ensure_future(_rest_of(whole())))
    )
    assert await (await ended) == "in time"


def _rest_of(whole: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    rest = begun(whole)
    assert rest is not None
    return rest
