"""Claims of periodic tasks that one of all processes runs.

On SQLite there is one process, and every claim succeeds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from sqlalchemy import Connection, text

from hedgerow.errors import Unavailable
from hedgerow.storage.engine.database import Database

# How often a claim is renewed during its interval, while its task runs.
RENEWALS = 3

# Only the clock of the database counts.
_CLAIM = text(
    "INSERT INTO task_claims (task, claimed_at) VALUES (:task, clock_timestamp())"
    " ON CONFLICT (task) DO UPDATE SET claimed_at = excluded.claimed_at"
    " WHERE task_claims.claimed_at NOT BETWEEN"
    " excluded.claimed_at - make_interval(secs => :interval_s) AND excluded.claimed_at"
    " RETURNING task"
)
_RENEW = text("UPDATE task_claims SET claimed_at = clock_timestamp() WHERE task = :task")
_RELEASE = text("DELETE FROM task_claims WHERE task = :task")


class TaskClaims:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, task: str, interval_s: float) -> bool:
        """Return whether this process shall run the task now: True in one process per interval."""
        if self._database.engine_name == "sqlite":
            return True

        def change(connection: Connection) -> bool:
            values = {"task": task, "interval_s": interval_s}
            return connection.execute(_CLAIM, values).scalar() is not None

        return await self._database.write(change)

    async def run(self, task: str, interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
        """Run the task in one process per interval, and in no other one while it runs."""
        if not await self.claim(task, interval_s):
            return
        renewing = asyncio.create_task(self._renew(task, interval_s / RENEWALS))
        try:
            await work()
        finally:
            renewing.cancel()

    async def _renew(self, task: str, interval_s: float) -> None:
        while self._database.engine_name != "sqlite":
            await asyncio.sleep(interval_s)
            with suppress(Unavailable):
                await self._database.write(
                    lambda connection: connection.execute(_RENEW, {"task": task}).close()
                )

    async def release(self, task: str) -> None:
        """Let any process claim the task at once."""
        if self._database.engine_name != "sqlite":
            await self._database.write(
                lambda connection: connection.execute(_RELEASE, {"task": task})
            )
