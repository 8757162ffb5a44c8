"""Waiting at the start for a database that is away, or that another process migrates."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import structlog

from hedgerow.errors import Unavailable
from hedgerow.lib.threads import in_daemon_thread

T = TypeVar("T")

RETRY_S = 1.0

_log = structlog.get_logger("hedgerow")


async def once_available(step: Callable[[], T], work: str, tell: Callable[[str], None]) -> T:
    """What `step` gives, tried until the database is there. `tell` hears what is waited for: the
    `work` itself, or the database."""
    told = ""
    while True:
        tell(work)
        try:
            return await in_daemon_thread(step)
        except Unavailable as error:
            tell("database")
            if error.detail != told:
                _log.warning("waiting for the database", reason=error.detail)
                told = error.detail
        await asyncio.sleep(RETRY_S)
