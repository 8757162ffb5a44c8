"""The audit trail's SQL: append an entry, list entries newest first."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select

from hedgerow.projects.activity import Actor, Change, Entry, Recorded
from hedgerow.projects.store import ActivityQuery
from hedgerow.storage.database import Database
from hedgerow.storage.tables import activity


def record(connection: Connection, entry: Entry, now: datetime) -> None:
    """Write an entry in the transaction of the change that it tells of."""
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


class ActivityRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, entry: Entry, now: datetime) -> None:
        await self._database.write(lambda connection: record(connection, entry, now))

    async def activity(self, query: ActivityQuery) -> tuple[list[Recorded], int]:
        def run(connection: Connection) -> tuple[list[Recorded], int]:
            total = connection.execute(
                _filtered(select(func.count()).select_from(activity), query)
            ).scalar_one()
            page = (
                _filtered(select(activity), query)
                .order_by(activity.c.id.desc())
                .limit(query.limit)
                .offset(query.offset)
            )
            return [_recorded(row) for row in connection.execute(page)], total

        return await self._database.read(run)


def _filtered(statement: Select[Any], query: ActivityQuery) -> Select[Any]:
    for column, wanted in (
        (activity.c.project_id, query.project_id),
        (activity.c.scope, query.scope),
        (activity.c.item_id, query.item_id),
    ):
        if wanted is not None:
            statement = statement.where(column == wanted)
    return statement


def _recorded(row: Row[Any]) -> Recorded:
    return Recorded(
        id=row.id,
        created_at=row.created_at,
        entry=Entry(
            scope=row.scope,
            item_id=row.item_id,
            item_name=row.item_name,
            activity=row.activity,
            actor=Actor(**row.actor),
            project_id=row.project_id,
            changes=tuple(Change(**change) for change in row.changes),
            detail=row.detail,
        ),
    )
