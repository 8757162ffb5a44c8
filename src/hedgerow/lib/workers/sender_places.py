"""Places that senders share fairly, and time limits that do not count the waiting for a place."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from hedgerow.lib.workers.fair_queue import Places
from hedgerow.lib.workers.sender import current_sender


class SenderPlaces(Places[str]):
    """A limit on what runs at the same time, in which senders take turns. No time limit of the
    caller runs while it waits."""

    @asynccontextmanager
    async def hold_for_sender(self) -> AsyncIterator[None]:
        sender = await self.acquire_for_sender()
        try:
            yield
        finally:
            self.release(sender)

    async def acquire_for_sender(self) -> str:
        """Wait for a place, and return the sender that the caller releases it for."""
        sender = current_sender.get()
        with pause_time_limits():
            await self.acquire(sender)
        return sender


class _TimeLimit:
    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self._left_s = 0.0
        self._pauses = 0
        self.is_over = False

    def pause(self) -> None:
        self._pauses += 1
        end_s = self._timeout.when()
        if self._can_change() and end_s is not None:
            self._left_s = end_s - asyncio.get_running_loop().time()
            self._timeout.reschedule(None)

    def resume(self) -> None:
        self._pauses -= 1
        if not self._pauses and self._can_change():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._left_s)

    def _can_change(self) -> bool:
        return not self.is_over and not self._timeout.expired()


_time_limits: ContextVar[tuple[_TimeLimit, ...]] = ContextVar("time_limits", default=())


@asynccontextmanager
async def limit_time(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError after so many seconds, without those in `pause_time_limits`."""
    async with asyncio.timeout(seconds) as timeout:
        limit = _TimeLimit(timeout)
        token = _time_limits.set((*_time_limits.get(), limit))
        try:
            yield
        finally:
            limit.is_over = True
            _time_limits.reset(token)


@contextmanager
def pause_time_limits() -> Iterator[None]:
    """Stop the time limits of the current task, and of those that started it, during the block."""
    limits = _time_limits.get()
    for each in limits:
        each.pause()
    try:
        yield
    finally:
        for each in limits:
            each.resume()
