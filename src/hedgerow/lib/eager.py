"""Coroutines that are run at once as far as they go without waiting, and only then become tasks.

Until its first wait such a coroutine has no task, which asyncio.timeout needs: see `own_task`.
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def begun(whole: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any] | None:
    """Run a coroutine until it waits; the rest of it, or None if it came to its end."""
    try:
        waits_for = whole.send(None)
    except StopIteration:
        return None
    return _rest(whole, waits_for)


async def own_task() -> None:
    """Be in a task from here on."""
    if asyncio.current_task() is None:
        await asyncio.sleep(0)


@coroutine
def _rest(whole: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    while True:
        try:
            try:
                came = yield waits_for
            except GeneratorExit:
                whole.close()
                raise
            except BaseException as error:  # noqa: BLE001 - whoever waits is told
                waits_for = whole.throw(error)
            else:
                waits_for = whole.send(came)
        except StopIteration as end:
            result: T = end.value
            return result
