"""Which worker stores the events of which bucket. PostgreSQL only, and its clock decides.

Each worker has the same share of the buckets: those whose number, modulo the number of workers, is
the worker's position among all workers. A lease names the last row of the batch that its holder
stores: a worker that takes over repeats the same batch, and the event store recognizes it, even if
the previous holder is still sending it.
"""

from collections.abc import Sequence
from uuid import uuid4

from sqlalchemy import Connection, delete, func, text, update

from hedgerow.storage.engine.database import Database, read_elapsed_s
from hedgerow.storage.engine.leases import UncancelledWrites
from hedgerow.storage.tables.ingestion import inbox_leases, inbox_workers

# Shorter than other leases: readers wait for the events of a killed worker. A worker renews its
# leases every second, also while it stores a batch. Taking over too early does no harm.
LEASE_S = 5
EXPIRY_SQL = f"clock_timestamp() + interval '{LEASE_S} seconds'"
# A lease that ends later was acquired before the clock was set back, and does not count.
VALID_SQL = f"BETWEEN clock_timestamp() AND {EXPIRY_SQL}"
# How often a worker counts the others.
BALANCE_INTERVAL_S = 1.0

_ACQUIRE = text(
    "INSERT INTO inbox_leases (bucket, holder, expires_at, last_id)"  # noqa: S608 - our own names
    f" VALUES (:bucket, :holder, {EXPIRY_SQL}, :last_id) ON CONFLICT (bucket)"
    " DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at, last_id ="
    " CASE WHEN EXISTS (SELECT 1 FROM ready_events AS r WHERE r.bucket = inbox_leases.bucket"
    " AND r.id <= inbox_leases.last_id) THEN inbox_leases.last_id ELSE excluded.last_id END"
    " WHERE inbox_leases.holder = excluded.holder"
    f" OR inbox_leases.expires_at NOT {VALID_SQL} RETURNING last_id"
)
_RENEW = text(
    f"UPDATE inbox_leases SET expires_at = {EXPIRY_SQL}"  # noqa: S608 - our own names
    " WHERE holder = :holder AND expires_at >= clock_timestamp() RETURNING bucket"
)
_REGISTER = text(
    "INSERT INTO inbox_workers (holder, expires_at)"  # noqa: S608 - our own names
    f" VALUES (:holder, {EXPIRY_SQL}) ON CONFLICT (holder)"
    " DO UPDATE SET expires_at = excluded.expires_at"
)
_FORGET = text(
    "DELETE FROM inbox_workers WHERE expires_at NOT BETWEEN"  # noqa: S608 - our own names
    f" clock_timestamp() - interval '1 hour' AND {EXPIRY_SQL}"
)
_COUNT = text(
    "SELECT count(*), count(*) FILTER (WHERE holder < :holder)"  # noqa: S608 - our own names
    f" FROM inbox_workers WHERE expires_at {VALID_SQL}"
)


class BucketLeases:
    def __init__(self, database: Database, bucket_count: int) -> None:
        self._writes = UncancelledWrites(database)
        self._bucket_count = bucket_count
        self._holder = str(uuid4())
        self._is_registered = False
        # The number of workers, and this worker's position among them.
        self._workers, self._position = 1, 0
        self._next_balance = 0.0
        # When each lease expires, by this process's clock: not later than by the database's.
        self._expiries: dict[int, float] = {}

    async def balance(self) -> None:
        """Count the workers, and release the buckets that are not this worker's share any more.
        Call this while no batch is being stored."""
        if read_elapsed_s() < self._next_balance:
            return
        if not self._is_registered:
            self._is_registered = True
            await self._writes.run(lambda connection: connection.execute(_FORGET).close())
        self._workers, self._position = await self._writes.run(self._register)
        excess = [bucket for bucket in self._expiries if not self.is_assigned(bucket)]
        if excess:
            await self._writes.run(lambda connection: self._expire(connection, excess))
        for bucket in excess:
            del self._expiries[bucket]
        self._next_balance = read_elapsed_s() + BALANCE_INTERVAL_S

    def _register(self, connection: Connection) -> tuple[int, int]:
        """Return the number of workers, and this worker's position among them."""
        connection.execute(_REGISTER, {"holder": self._holder})
        workers, before = connection.execute(_COUNT, {"holder": self._holder}).one()
        return max(1, workers), before

    def is_assigned(self, bucket: int) -> bool:
        return bucket % self._workers == self._position

    async def acquire(self, bucket: int, last_id: int) -> int | None:
        """Acquire or renew the lease of a bucket, to store its rows up to `last_id`. Return the
        last row to store: that of an unfinished batch, or `last_id`. None if another worker holds
        the bucket, or should."""
        now = read_elapsed_s()
        if not self.is_assigned(bucket):
            return None
        values = {"bucket": bucket, "holder": self._holder, "last_id": last_id}
        granted: int | None = await self._writes.run(
            lambda connection: connection.execute(_ACQUIRE, values).scalar()
        )
        if granted is None:
            self._expiries.pop(bucket, None)
        else:
            self._expiries[bucket] = now + LEASE_S
        return granted

    def is_held(self, bucket: int) -> bool:
        """Return whether no other process can hold the bucket at this moment."""
        return self._expiries.get(bucket, 0.0) > read_elapsed_s()

    async def renew(self) -> None:
        """Renew the leases that have not expired."""
        if not self._expiries:
            return
        now, values = read_elapsed_s(), {"holder": self._holder}

        def change(connection: Connection) -> Sequence[int]:
            connection.execute(_REGISTER, values)
            return connection.execute(_RENEW, values).scalars().all()

        self._expiries = dict.fromkeys(await self._writes.run(change), now + LEASE_S)

    async def release(self) -> None:
        """Release all leases, after an acquisition that is under way."""
        if not self._is_registered and not self._expiries:
            return

        def change(connection: Connection) -> None:
            self._expire(connection, range(self._bucket_count))
            ours = inbox_workers.c.holder == self._holder
            connection.execute(delete(inbox_workers).where(ours))

        await self._writes.run_last(change)
        self._expiries.clear()

    def _expire(self, connection: Connection, buckets: Sequence[int]) -> None:
        """The rows stay: the worker that takes over must know the unfinished batch."""
        ours = (inbox_leases.c.holder == self._holder) & inbox_leases.c.bucket.in_(buckets)
        ended = func.clock_timestamp() - text("interval '1 millisecond'")
        connection.execute(update(inbox_leases).where(ours).values(holder="", expires_at=ended))
