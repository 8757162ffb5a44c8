"""The audit trail: append an entry, list entries newest first."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, insert, select

from hedgerow.projects.activity import ActivityEntry, Actor, FieldChange, RecordedActivity
from hedgerow.projects.store import ActivityQuery, ActivityStore
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.tables import activity


def record(connection: Connection, entry: ActivityEntry, now: datetime) -> None:
    """Write an entry. Call this in the transaction of the change that it describes."""
    connection.execute(
        insert(activity),
        {
            "project_id": entry.project_id,
            "scope": entry.scope,
            "item_id": entry.item_id,
            "item_name": entry.item_name,
            "activity": entry.activity,
            "actor": asdict(entry.actor),
            "changes": [asdict(change) for change in entry.changes],
            "detail": dict(entry.detail),
            "created_at": now,
        },
    )


class SqlActivityStore(ActivityStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, entry: ActivityEntry, now: datetime) -> None:
        await self._database.write(lambda connection: record(connection, entry, now))

    async def list_activity(self, query: ActivityQuery) -> tuple[list[RecordedActivity], int]:
        def run(connection: Connection) -> tuple[list[RecordedActivity], int]:
            newest_first = _filter(select(activity), query).order_by(activity.c.id.desc())
            rows, total = read_page(
                connection, newest_first, limit=query.limit, offset=query.offset
            )
            return [decode_entry(row) for row in rows], total

        return await self._database.read(run)


def _filter(statement: Select[Any], query: ActivityQuery) -> Select[Any]:
    for column, wanted in (
        (activity.c.project_id, query.project_id),
        (activity.c.scope, query.scope),
        (activity.c.item_id, query.item_id),
    ):
        if wanted is not None:
            statement = statement.where(column == wanted)
    return statement


def decode_entry(row: Row[Any]) -> RecordedActivity:
    return RecordedActivity(
        id=row.id,
        created_at=row.created_at,
        entry=ActivityEntry(
            scope=row.scope,
            item_id=row.item_id,
            item_name=row.item_name,
            activity=row.activity,
            actor=Actor(**row.actor),
            project_id=row.project_id,
            changes=tuple(FieldChange(**change) for change in row.changes),
            detail=row.detail,
        ),
    )
