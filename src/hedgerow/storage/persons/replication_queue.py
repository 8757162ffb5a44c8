"""The queue of changed persons, distinct ids, groups and cohort members.

Database triggers add the key of every changed row in the transaction of the change. The id of a
queue row becomes the version of the replica. Later changes of one row have higher ids, also on
PostgreSQL, because the lock on the changed row is held until the change is visible.

Two kinds of queue rows are not changes. `all` is a backfill of one table: it continues at the key
in `name` and queues rows with its own id as their version. `mark` is the last replicated row: it
stays, without its key, so that ids never restart.
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from hedgerow.persons.replicas import BackfillFinished, QueuedChanges
from hedgerow.persons.store import ReplicationQueue
from hedgerow.storage.engine import bulk, generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.persons import replication_backfill
from hedgerow.storage.persons.replication_rows import read_queued_rows


class SqlReplicationQueue(ReplicationQueue):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(self) -> int | None:
        return await self._fetch_number("SELECT max(id) FROM mirror_queue WHERE kind <> 'mark'")

    async def oldest(self) -> int | None:
        return await self._fetch_number("SELECT min(id) FROM mirror_queue WHERE kind <> 'mark'")

    async def estimate_length(self) -> int:
        last = "(SELECT max(id) FROM mirror_queue)"
        first = "(SELECT min(id) FROM mirror_queue)"
        return await self._fetch_number(f"SELECT {last} - {first}") or 0

    async def read_changes(self, *, after: int, limit: int, max_size: int) -> QueuedChanges:
        # Thousands of rows, while requests are answered.
        return await self._database.read_in_background(
            lambda connection: read_queued_rows(connection, after, limit, max_size)
        )

    async def remove(self, ids: Sequence[int]) -> None:
        def change(connection: Connection) -> None:
            [(last,)] = bulk.select(connection, "SELECT max(id) FROM mirror_queue")
            of = "SELECT DISTINCT project_id FROM mirror_queue WHERE id IN ({numbers})"
            changed = [project_id for (project_id,) in bulk.select(connection, of, list(ids))]
            gone = "DELETE FROM mirror_queue WHERE id IN (SELECT id FROM {rows})"
            bulk.execute_many(connection, gone, ("id",), [(id,) for id in ids if id != last])
            if last in ids:
                mark = (
                    "UPDATE mirror_queue SET kind = 'mark', name = '', version = NULL FROM {rows}"
                    " WHERE mirror_queue.id = r.id"
                )
                bulk.execute_many(connection, mark, ("id",), [(last,)])
            generations.advance_events(connection, changed)

        await self._database.write(change)

    async def backfill_step(self, limit: int) -> BackfillFinished | None:
        if await self._fetch_number("SELECT min(id) FROM mirror_queue WHERE kind = 'all'") is None:
            return None
        return await self._database.write(
            lambda connection: replication_backfill.backfill_step(connection, limit)
        )

    async def restart_backfill(self, newest_replica: int) -> None:
        await self._database.write(
            lambda connection: replication_backfill.start_backfill(connection, newest_replica)
        )

    async def _fetch_number(self, sql: str) -> int | None:
        def run(connection: Connection) -> int | None:
            [(number,)] = bulk.select(connection, sql)
            return None if number is None else int(number)

        # The aggregate reads the rows that were removed since the last checkpoint.
        return await self._database.read_in_background(run)
