"""The SQL of what has changed of persons, distinct ids, groups and members of cohorts.

Triggers of the database put the key of every changed row here, in the transaction of the change, so
no statement can forget it. A row's number becomes the version of its copy. Of changes of one row
the later has the greater number, also on PostgreSQL: the lock of the changed row is held until its
change is there for all.

Two kinds of rows are not changes. `all` goes through a whole table, from the key in its `name` on,
and puts the keys here with its own number as their version. `mark` is the last row that was copied:
it stays, so that the numbers never begin anew.
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from hedgerow.persons.mirrored import Finished, Taken
from hedgerow.storage import bulk, mirror_walk
from hedgerow.storage.database import Database
from hedgerow.storage.mirror_copies import taken


class MirrorQueueRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(self) -> int | None:
        return await self._one("SELECT max(id) FROM mirror_queue WHERE kind <> 'mark'")

    async def oldest(self) -> int | None:
        return await self._one("SELECT min(id) FROM mirror_queue WHERE kind <> 'mark'")

    async def length(self) -> int:
        last = "(SELECT max(id) FROM mirror_queue)"
        first = "(SELECT min(id) FROM mirror_queue)"
        return await self._one(f"SELECT {last} - {first}") or 0

    async def take(self, *, after: int, limit: int, max_size: int) -> Taken:
        return await self._database.read(
            lambda connection: taken(connection, after, limit, max_size)
        )

    async def done(self, ids: Sequence[int]) -> None:
        def change(connection: Connection) -> None:
            [(last,)] = bulk.select(connection, "SELECT max(id) FROM mirror_queue")
            gone = "DELETE FROM mirror_queue WHERE id IN (SELECT id FROM {rows})"
            bulk.run(connection, gone, ("id",), [(id,) for id in ids if id != last])
            if last in ids:
                mark = (
                    "UPDATE mirror_queue SET kind = 'mark', version = NULL FROM {rows}"
                    " WHERE mirror_queue.id = r.id"
                )
                bulk.run(connection, mark, ("id",), [(last,)])

        await self._database.write(change)

    async def walk_on(self, limit: int) -> Finished | None:
        if await self._one("SELECT min(id) FROM mirror_queue WHERE kind = 'all'") is None:
            return None
        return await self._database.write(lambda connection: mirror_walk.walk_on(connection, limit))

    async def begin_again(self, newest_copy: int) -> None:
        await self._database.write(lambda connection: mirror_walk.begin(connection, newest_copy))

    async def _one(self, sql: str) -> int | None:
        def run(connection: Connection) -> int | None:
            [(number,)] = bulk.select(connection, sql)
            return None if number is None else int(number)

        return await self._database.read(run)
