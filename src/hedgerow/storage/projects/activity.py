"""The audit trail: append an entry, list entries newest first."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from importlib import import_module
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, or_, select

from hedgerow.projects.activity import (
    ACTIVITY_LOG,
    ActivityEntry,
    Actor,
    FieldChange,
    RecordedActivity,
)
from hedgerow.projects.store import ActivityQuery, ActivityStore
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.tables import activity
from hedgerow.storage.tables import pipeline_records as records

MESSAGES_MODULE = "hedgerow.storage.deliveries.activity_messages"


def record(connection: Connection, entry: ActivityEntry, now: datetime) -> None:
    """Write an entry. Call this in the transaction of the change that it describes."""
    record_all(connection, [entry], now)


def record_all(connection: Connection, entries: Sequence[ActivityEntry], now: datetime) -> None:
    """Write entries in the transaction of the changes that they describe, and queue their messages
    for the destinations that receive the activity log."""
    rows = [
        {
            "project_id": entry.project_id,
            "scope": entry.scope,
            "item_id": entry.item_id,
            "item_name": entry.item_name,
            "activity": entry.activity,
            "actor": asdict(entry.actor),
            "changes": [
                # Not `asdict`, which copies the values of the fields.
                {name: getattr(change, name) for name in change.__slots__}
                for change in entry.changes
            ],
            "detail": dict(entry.detail),
            "created_at": now,
        }
        for entry in entries
    ]
    if not rows:
        return
    receivers = _find_receivers(connection, entries)
    if not receivers:
        connection.execute(insert(activity), rows)
        return
    statement = insert(activity).returning(activity.c.id, sort_by_parameter_order=True)
    ids = connection.execute(statement, rows).scalars()
    recorded = [
        RecordedActivity(id=id, entry=entry, created_at=now)
        for id, entry in zip(ids, entries, strict=True)
    ]
    # Filters take long to load, and few installations send their activity log.
    import_module(MESSAGES_MODULE).queue_activity(connection, recorded, receivers, now)


def _find_receivers(connection: Connection, entries: Sequence[ActivityEntry]) -> Sequence[Row[Any]]:
    """Return the enabled destinations that receive the activity log of these projects."""
    projects = {entry.project_id for entry in entries if entry.project_id is not None}
    if not projects:
        return ()
    enabled: Select[Any] = select(records.c.id, records.c.project_id, records.c.config).where(
        records.c.project_id.in_(projects)
        & (records.c.family == "destination")
        & records.c.deleted.is_(False)
        & records.c.enabled.is_(True)
    )
    found = connection.execute(enabled.order_by(records.c.id))
    return [row for row in found if row.config.get("event_source") == ACTIVITY_LOG]


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

        # Entries may have large definitions.
        return await self._database.read_in_background(run)


def _filter(statement: Select[Any], query: ActivityQuery) -> Select[Any]:
    for column, wanted in (
        (activity.c.project_id, query.project_id),
        (activity.c.scope, query.scope),
        (activity.c.item_id, query.item_id),
        (activity.c.activity, query.activity),
    ):
        if wanted is not None:
            statement = statement.where(column == wanted)
    name, email = (activity.c.actor[each].as_string() for each in ("name", "email"))
    if query.user is not None:
        statement = statement.where(or_(email == query.user, name == query.user))
    if query.search:
        needle = query.search.lower()
        texts = (name, email, activity.c.item_name)
        found = (func.lower(each).contains(needle, autoescape=True) for each in texts)
        statement = statement.where(or_(*found))
    if query.since is not None:
        statement = statement.where(activity.c.created_at >= query.since)
    if query.until is not None:
        statement = statement.where(activity.c.created_at < query.until)
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
