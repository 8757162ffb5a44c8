"""Who brings a bucket's events to the event store, for a while: one process at a time, so that two
do not store the same. PostgreSQL only, whose clock alone counts; SQLite has one process anyway.
"""

from uuid import uuid4

from sqlalchemy import Connection, bindparam, delete, select, text

from hedgerow.storage.database import Database
from hedgerow.storage.tables import inbox_leases

# Others wait so long for one who was killed. By then ClickHouse has done or given up what it was
# sent last: longer than its INSERT_S.
LEASE_S = 30

_END = f"clock_timestamp() + interval '{LEASE_S} seconds'"
_take = text(
    "INSERT INTO inbox_leases (bucket, holder, expires_at)"  # noqa: S608
    f" VALUES (:bucket, :holder, {_END})"
    " ON CONFLICT (bucket) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at"
    " WHERE inbox_leases.holder = excluded.holder OR inbox_leases.expires_at < clock_timestamp()"
)
_renew = text(
    f"UPDATE inbox_leases SET expires_at = {_END}"  # noqa: S608
    " WHERE holder = :holder AND expires_at >= clock_timestamp()"
)
_holder_of = select(inbox_leases.c.holder).where(inbox_leases.c.bucket == bindparam("of"))


class Leases:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._holder = str(uuid4())
        self._has_some = False

    async def take(self, bucket: int) -> bool:
        """Whether the bucket is ours now, if it was not before."""
        self._has_some = True

        def change(connection: Connection) -> bool:
            connection.execute(_take, {"bucket": bucket, "holder": self._holder})
            return connection.execute(_holder_of, {"of": bucket}).scalar() == self._holder

        return await self._database.write(change)

    async def renew(self) -> None:
        """Keep those that have not ended."""
        if self._has_some:
            await self._database.write(
                lambda connection: connection.execute(_renew, {"holder": self._holder})
            )

    async def let_go(self) -> None:
        if self._has_some:
            ours = delete(inbox_leases).where(inbox_leases.c.holder == self._holder)
            await self._database.write(lambda connection: connection.execute(ours))
