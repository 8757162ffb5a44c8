"""Wait for the database while a process starts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from hedgerow.errors import Unavailable
from hedgerow.storage.engine.database import Database

T = TypeVar("T")

RETRY_INTERVAL_S = 1.0
# What a process waits for while the database is not available.
DATABASE = "database"

_log = structlog.get_logger("hedgerow")


async def wait_for_database(
    step: Callable[[], Awaitable[T]], name: str, report: Callable[[str], None]
) -> T:
    """Run `step` and repeat it until the database is available. `report` receives what the process
    is waiting for: `name` while the step runs, then DATABASE."""
    last_reason = ""
    while True:
        report(name)
        try:
            return await step()
        except Unavailable as error:
            report(DATABASE)
            if error.detail != last_reason:
                _log.warning("waiting for the database", reason=error.detail)
                last_reason = error.detail
        await asyncio.sleep(RETRY_INTERVAL_S)


async def ping(database: Database) -> None:
    await database.version()
