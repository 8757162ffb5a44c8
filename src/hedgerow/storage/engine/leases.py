"""Leases, so that one process at a time works on a bucket or a destination.

PostgreSQL only, and only its clock counts. SQLite has a single process.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy import Connection, Table, delete, text

from hedgerow.lib.threads import consume_exception
from hedgerow.storage.engine.database import Database

T = TypeVar("T")

# After this time another process takes over from one that was killed or does not continue. What
# the other one does must be harmless even if the first one continues nevertheless.
LEASE_S = 7

EXPIRY_SQL = f"clock_timestamp() + interval '{LEASE_S} seconds'"
# A lease that ends later was acquired before the clock was set back, and does not count.
VALID_SQL = f"BETWEEN clock_timestamp() AND {EXPIRY_SQL}"


class Leases:
    """Leases of this process in one table, by its integer primary key."""

    def __init__(self, database: Database, table: Table) -> None:
        self._table = table
        self._holder = str(uuid4())
        self._has_leases = False
        self._writes = UncancelledWrites(database)
        name, key = table.name, next(iter(table.primary_key.columns)).name
        self._acquire = text(
            f"INSERT INTO {name} ({key}, holder, expires_at)"  # noqa: S608 - our own names
            f" VALUES (:key, :holder, {EXPIRY_SQL}) ON CONFLICT ({key})"
            " DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at"
            f" WHERE {name}.holder = excluded.holder OR {name}.expires_at NOT {VALID_SQL}"
            f" RETURNING {key}"
        )
        self._renew = text(
            f"UPDATE {name} SET expires_at = {EXPIRY_SQL}"  # noqa: S608 - our own names
            " WHERE holder = :holder AND expires_at >= clock_timestamp()"
        )

    async def acquire(self, key: int) -> bool:
        """Acquire or renew a lease. Return False if another process holds it."""
        self._has_leases = True
        values = {"key": key, "holder": self._holder}
        return await self._writes.run(
            lambda connection: connection.execute(self._acquire, values).first() is not None
        )

    async def renew(self) -> None:
        """Renew the leases that have not expired."""
        if self._has_leases:
            await self._writes.run(
                lambda connection: connection.execute(self._renew, {"holder": self._holder})
            )

    async def release(self) -> None:
        if self._has_leases:
            ours = delete(self._table).where(self._table.c.holder == self._holder)
            await self._writes.run_last(lambda connection: connection.execute(ours))


class UncancelledWrites:
    """Writes that a cancelled caller does not interrupt: the database may have committed them, and
    a stopping process must know which leases it has to release."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, change: Callable[[Connection], T]) -> T:
        writing = asyncio.create_task(self._run(change))
        self._running.add(writing)
        writing.add_done_callback(self._running.discard)
        writing.add_done_callback(consume_exception)
        return await asyncio.shield(writing)

    async def _run(self, change: Callable[[Connection], T]) -> T:
        return await self._database.write(change)

    async def run_last(self, change: Callable[[Connection], T]) -> T:
        """Run after all others have ended."""
        if self._running:
            await asyncio.wait(self._running)
        return await self._database.write(change)
