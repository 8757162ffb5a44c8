"""Deletions and what became of them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, exists, insert, select, update

from hedgerow.events.purge import Deletion, DeletionLog, DeletionQuery
from hedgerow.projects.model import ProjectId
from hedgerow.storage.alerts.messages import clean_queued_messages, forget_messages
from hedgerow.storage.dashboards import results
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.tables import persons
from hedgerow.storage.tables.ingestion import deletions

# A deletion that began this long ago has ended, or its process has.
MAX_DURATION = timedelta(hours=1)


IDS_PER_STATEMENT = 500


class SqlDeletionLog(DeletionLog):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, project_id: ProjectId, person_uuid: str, now: datetime) -> int:
        new = insert(deletions).values(
            project_id=project_id, person_uuid=person_uuid, requested_at=now
        )
        return await self._database.write(
            lambda connection: int(connection.execute(new).inserted_primary_key[0])  # type: ignore[index]
        )

    async def end(
        self, id: int, now: datetime, *, is_personal: bool, is_complete: bool = True
    ) -> None:
        if is_personal:
            await self._forget_messages(deletions.c.id == id)
        await self._database.write(
            lambda connection: _end(connection, deletions.c.id == id, now, is_complete=is_complete)
        )

    async def end_interrupted(self, now: datetime) -> None:
        is_interrupted = deletions.c.deleted_at.is_(None) & (
            deletions.c.requested_at <= now - MAX_DURATION
        )
        has_person = exists().where(
            (persons.c.project_id == deletions.c.project_id)
            & (persons.c.uuid == deletions.c.person_uuid)
        )

        def change(connection: Connection) -> None:
            _end(connection, is_interrupted & has_person, now, is_complete=False)
            _end(connection, is_interrupted, now, is_complete=True)

        await self._forget_messages(is_interrupted)
        await self._database.write(change)

    async def _forget_messages(self, which: ColumnElement[bool]) -> None:
        """Delete what messages show of the projects of these deletions, and the results that they
        would be computed from again."""

        def change(connection: Connection) -> list[ProjectId]:
            rows = connection.execute(select(deletions.c.project_id).where(which))
            of = sorted({ProjectId(each) for each in rows.scalars()})
            if of:
                forget_messages(connection, of)
            _forget_results(connection, of)
            return of

        for id in await self._database.write(change):
            await clean_queued_messages(self._database, id)

    async def list_deletions(self, query: DeletionQuery) -> tuple[list[Deletion], int]:
        wanted = select(deletions).where(
            (deletions.c.project_id == query.project_id) & (deletions.c.person_uuid != "")
        )
        if query.person_uuid:
            wanted = wanted.where(deletions.c.person_uuid == query.person_uuid)
        if query.is_purged is not None:
            wanted = wanted.where(deletions.c.purged_at.is_not(None) == query.is_purged)

        def run(connection: Connection) -> tuple[list[Deletion], int]:
            newest_first = wanted.order_by(deletions.c.id.desc())
            rows, total = read_page(
                connection, newest_first, limit=query.limit, offset=query.offset
            )
            return [_decode(row) for row in rows], total

        return await self._database.read(run)

    async def list_unpurged(self) -> list[int]:
        ids = select(deletions.c.id).where(
            deletions.c.deleted_at.is_not(None) & deletions.c.purged_at.is_(None)
        )
        return await self._database.read(
            lambda connection: list(connection.execute(ids).scalars().all())
        )

    async def mark_purged(self, ids: list[int], now: datetime) -> None:
        """Deletions of events alone are forgotten: the activity log has them."""

        def change(connection: Connection) -> None:
            for start in range(0, len(ids), IDS_PER_STATEMENT):
                those = deletions.c.id.in_(ids[start : start + IDS_PER_STATEMENT])
                connection.execute(update(deletions).where(those).values(purged_at=now))
            events_only = (deletions.c.person_uuid == "") & deletions.c.purged_at.is_not(None)
            connection.execute(delete(deletions).where(events_only))

        await self._database.write(change)


def _end(
    connection: Connection, which: ColumnElement[bool], now: datetime, *, is_complete: bool
) -> None:
    values: dict[str, Any] = {"deleted_at": now}
    if not is_complete:
        values["person_uuid"] = ""
    ended = update(deletions).where(which).values(values).returning(deletions.c.project_id)
    _forget_results(connection, connection.execute(ended).scalars().all())


def _forget_results(connection: Connection, of: Sequence[ProjectId]) -> None:
    if of:
        generations.advance_events(connection, of)
        results.forget_results(connection, of)


def _decode(row: "Row[tuple[object, ...]]") -> Deletion:
    return Deletion(
        person_uuid=row.person_uuid, requested_at=row.requested_at, purged_at=row.purged_at
    )
