"""What each process used of the rate limits that all processes share. PostgreSQL only: on SQLite
there is a single process."""

from collections import defaultdict
from collections.abc import Mapping
from importlib import import_module
from uuid import uuid4

from sqlalchemy import Connection, delete, func, select, text

from hedgerow.projects.call_limits import UsageExchange
from hedgerow.storage.engine.database import Database
from hedgerow.storage.tables.ingestion import rate_usage

# Longer than any pause between two exchanges.
KEPT = text("interval '60 seconds'")

# The process and the bucket.
UsageKey = tuple[str, str]


class SqlUsageExchange(UsageExchange):
    """Each process adds to its own rows and reads those of the others."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._holder = str(uuid4())
        # The totals of other processes at the last exchange; None before the first.
        self._seen: dict[UsageKey, float] | None = None

    async def exchange(self, used: Mapping[str, float]) -> Mapping[str, float]:
        if used:
            await self._database.write(lambda connection: self._publish(connection, used))
        totals = await self._database.read(self._read_others)
        seen, self._seen = self._seen, totals
        others: dict[str, float] = defaultdict(float)
        if seen is None:  # used before this process began to count
            return others
        for key, total in totals.items():
            # A smaller total is that of a new row.
            before = seen.get(key, 0.0)
            others[key[1]] += total - before if total >= before else total
        return others

    def _publish(self, connection: Connection, used: Mapping[str, float]) -> None:
        now = func.clock_timestamp()
        # Sorted, so that no two transactions wait for each other.
        rows = [
            {"holder": self._holder, "bucket": bucket, "used": number, "updated_at": now}
            for bucket, number in sorted(used.items())
        ]
        # The engine has imported its dialect; importing it for SQLite slows down every start.
        add = import_module("sqlalchemy.dialects.postgresql").insert(rate_usage).values(rows)
        connection.execute(
            add.on_conflict_do_update(
                index_elements=("holder", "bucket"),
                set_={"used": rate_usage.c.used + add.excluded.used, "updated_at": now},
            )
        )
        connection.execute(delete(rate_usage).where(rate_usage.c.updated_at < now - KEPT))

    def _read_others(self, connection: Connection) -> dict[UsageKey, float]:
        others = select(rate_usage.c.holder, rate_usage.c.bucket, rate_usage.c.used).where(
            rate_usage.c.holder != self._holder
        )
        return {(holder, bucket): used for holder, bucket, used in connection.execute(others)}
