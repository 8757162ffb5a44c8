"""Eager start of coroutines: run until the first suspension, and create a task only for the rest.

Until then the coroutine has no task, which `asyncio.timeout` needs: see `ensure_task`.
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start_eagerly(whole: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any] | None:
    """Run a coroutine until it suspends. Return the rest of it, or None if it has finished."""
    try:
        waits_for = whole.send(None)
    except StopIteration:
        return None
    return _continue(whole, waits_for)


async def ensure_task() -> None:
    """Suspend once if no task runs this coroutine yet, so that one does from here on."""
    if asyncio.current_task() is None:
        await asyncio.sleep(0)


@coroutine
def _continue(whole: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    while True:
        try:
            try:
                came = yield waits_for
            except GeneratorExit:
                whole.close()
                raise
            except BaseException as error:  # noqa: BLE001 - passed into the coroutine
                waits_for = whole.throw(error)
            else:
                waits_for = whole.send(came)
        except StopIteration as end:
            result: T = end.value
            return result
