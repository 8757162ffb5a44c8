"""An export is admitted with its first page. From then on it runs to its end: its client already
has the beginning.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeVar

from hedgerow.errors import Unavailable

T = TypeVar("T")

# A restart of the engine and a short failure of a server take less time.
RETRY_TIMEOUT_S = 60.0
RETRY_PAUSE_S = 1.0

_is_admitted: ContextVar[bool] = ContextVar("is_admitted", default=False)


def admit_task() -> None:
    """Let all further queries of the current task run, whatever the limits of the project say."""
    _is_admitted.set(True)


def dismiss_task() -> None:
    """End the admission: the next request of a connection may inherit what its last one has set."""
    _is_admitted.set(False)


def is_admitted() -> bool:
    return _is_admitted.get()


async def retry_if_admitted(fetch: Callable[[], Awaitable[T]]) -> T:
    """Fetch something. If the current task is admitted, repeat it while the event store or the
    database is not available, for a minute."""
    deadline = time.monotonic() + RETRY_TIMEOUT_S
    while True:
        try:
            return await fetch()
        except Unavailable:
            if not is_admitted() or time.monotonic() > deadline:
                raise
        await asyncio.sleep(RETRY_PAUSE_S)
