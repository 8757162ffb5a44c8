"""Claims of periodic tasks that one of all processes runs.

On SQLite there is one process, and every claim succeeds.
"""

from sqlalchemy import Connection, text

from hedgerow.storage.engine.database import Database

# Only the clock of the database counts.
_CLAIM = text(
    "INSERT INTO task_claims (task, claimed_at) VALUES (:task, clock_timestamp())"
    " ON CONFLICT (task) DO UPDATE SET claimed_at = excluded.claimed_at"
    " WHERE task_claims.claimed_at NOT BETWEEN"
    " excluded.claimed_at - make_interval(secs => :interval_s) AND excluded.claimed_at"
    " RETURNING task"
)
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

    async def release(self, task: str) -> None:
        """Let any process claim the task at once."""
        if self._database.engine_name != "sqlite":
            await self._database.write(
                lambda connection: connection.execute(_RELEASE, {"task": task})
            )
