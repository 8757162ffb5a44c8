"""Blocking work beside the event loop, in threads that never keep a process from ending."""

import asyncio
import errno
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Like asyncio.to_thread, but a process that stops does not wait for the thread."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)  # type: ignore[arg-type]
        else:
            done.set_exception(error)

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = work()
        except StopIteration as raised:  # no future carries it, and nobody would hear of the end
            error = RuntimeError(f"{type(raised).__name__} was raised")
            error.__cause__ = raised
        except BaseException as raised:  # noqa: BLE001 - carried to whoever awaits
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, result, error)

    try:
        threading.Thread(target=run, daemon=True).start()
    except RuntimeError as full:  # not the work's fault: the system has no thread left
        raise OSError(errno.EAGAIN, "No thread can be started") from full
    return await done
