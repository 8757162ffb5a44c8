"""Leases, so that one process at a time works on a bucket or a destination.

PostgreSQL only, and only its clock counts. SQLite has a single process.
"""

from uuid import uuid4

from sqlalchemy import Connection, Table, bindparam, delete, select, text

from hedgerow.storage.engine.database import Database

# After this time another process takes over from one that was killed. Longer than ClickHouse's
# INSERT_TIMEOUT_S, so that the last insert of the killed process has finished by then.
LEASE_S = 30

_EXPIRY = f"clock_timestamp() + interval '{LEASE_S} seconds'"


class Leases:
    """Leases of this process in one table, by its integer primary key."""

    def __init__(self, database: Database, table: Table) -> None:
        self._database = database
        self._table = table
        self._holder = str(uuid4())
        self._has_leases = False
        name, key = table.name, next(iter(table.primary_key.columns)).name
        self._acquire = text(
            f"INSERT INTO {name} ({key}, holder, expires_at)"  # noqa: S608 - our own names
            f" VALUES (:key, :holder, {_EXPIRY}) ON CONFLICT ({key})"
            " DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at"
            f" WHERE {name}.holder = excluded.holder OR {name}.expires_at < clock_timestamp()"
        )
        self._renew = text(
            f"UPDATE {name} SET expires_at = {_EXPIRY}"  # noqa: S608 - our own names
            " WHERE holder = :holder AND expires_at >= clock_timestamp()"
        )
        self._holder_of = select(table.c.holder).where(table.c[key] == bindparam("key"))

    async def acquire(self, key: int) -> bool:
        """Acquire or renew a lease. Return False if another process holds it."""
        self._has_leases = True

        def change(connection: Connection) -> bool:
            connection.execute(self._acquire, {"key": key, "holder": self._holder})
            return connection.execute(self._holder_of, {"key": key}).scalar() == self._holder

        return await self._database.write(change)

    async def renew(self) -> None:
        """Renew the leases that have not expired."""
        if self._has_leases:
            await self._database.write(
                lambda connection: connection.execute(self._renew, {"holder": self._holder})
            )

    async def release(self) -> None:
        if self._has_leases:
            ours = delete(self._table).where(self._table.c.holder == self._holder)
            await self._database.write(lambda connection: connection.execute(ours))
