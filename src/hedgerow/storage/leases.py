"""Who works on something, for a while: one process at a time, so that two do not do the same.
PostgreSQL only, whose clock alone counts; SQLite has one process anyway.
"""

from uuid import uuid4

from sqlalchemy import Connection, Table, bindparam, delete, select, text

from hedgerow.storage.database import Database

# Others wait so long for one who was killed. By then ClickHouse has done or given up what it was
# sent last: longer than its INSERT_S.
LEASE_S = 30

_END = f"clock_timestamp() + interval '{LEASE_S} seconds'"


class Leases:
    """Leases on the things that the first column of `table` names by number."""

    def __init__(self, database: Database, table: Table) -> None:
        self._database = database
        self._table = table
        self._holder = str(uuid4())
        self._has_some = False
        name, key = table.name, next(iter(table.primary_key.columns)).name
        self._take = text(
            f"INSERT INTO {name} ({key}, holder, expires_at)"  # noqa: S608 - names of ours
            f" VALUES (:key, :holder, {_END}) ON CONFLICT ({key})"
            " DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at"
            f" WHERE {name}.holder = excluded.holder OR {name}.expires_at < clock_timestamp()"
        )
        self._renew = text(
            f"UPDATE {name} SET expires_at = {_END}"  # noqa: S608 - names of ours
            " WHERE holder = :holder AND expires_at >= clock_timestamp()"
        )
        self._holder_of = select(table.c.holder).where(table.c[key] == bindparam("of"))

    async def take(self, key: int) -> bool:
        """Whether the thing is ours now, if it was not before."""
        self._has_some = True

        def change(connection: Connection) -> bool:
            connection.execute(self._take, {"key": key, "holder": self._holder})
            return connection.execute(self._holder_of, {"of": key}).scalar() == self._holder

        return await self._database.write(change)

    async def renew(self) -> None:
        """Keep those that have not ended."""
        if self._has_some:
            await self._database.write(
                lambda connection: connection.execute(self._renew, {"holder": self._holder})
            )

    async def let_go(self) -> None:
        if self._has_some:
            ours = delete(self._table).where(self._table.c.holder == self._holder)
            await self._database.write(lambda connection: connection.execute(ours))
