"""Deleted projects: the report, the lease of the process that deletes the data, and its steps."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    bindparam,
    exists,
    func,
    insert,
    select,
    text,
    update,
)

from hedgerow.projects.deletion import ProjectDeletion, ProjectDeletions
from hedgerow.projects.model import ProjectId
from hedgerow.storage import tables
from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.projects.owned_rows import OWNED, delete_batch
from hedgerow.storage.tables.ingestion import inbox, project_deletions, ready_events

# One transaction. Others wait for it on SQLite.
ROWS_PER_BATCH = 500
# Longer than one step may take. A process renews it while a step runs.
LEASE_S = 30

_ACQUIRE = text(
    "UPDATE project_deletions SET holder = :holder,"
    " expires_at = clock_timestamp() + make_interval(secs => :lease_s) WHERE project_id = :id"
    # A lease that ends later was acquired before the clock was set back, and does not count.
    " AND (holder IS NULL OR holder = :holder OR expires_at NOT BETWEEN clock_timestamp()"
    " AND clock_timestamp() + make_interval(secs => :lease_s))"
    " RETURNING project_id"
)
_COUNTED = {
    "persons": tables.persons,
    "groups": tables.groups,
    "cohorts": tables.cohorts,
    "flags": tables.flags,
    "experiments": tables.experiments,
    "surveys": tables.surveys,
    "pipeline records": tables.pipeline_records,
}
_TABLES = tuple(OWNED)
_select_deleted = PreparedQuery(select(project_deletions.c.project_id))
_select_report = select(project_deletions, tables.projects.c.name).join(tables.projects)


def is_deleted(project_id: Any) -> ColumnElement[bool]:
    """Build the condition that a project is deleted. `project_id` is a value or a column."""
    return exists().where(project_deletions.c.project_id == project_id)


def insert_deletion(connection: Connection, project_id: ProjectId, now: datetime) -> None:
    values = {"project_id": project_id, "requested_at": now, "rows_deleted": 0}
    connection.execute(insert(project_deletions), values)


def read_deleted(connection: Connection, project_ids: Sequence[ProjectId]) -> set[ProjectId]:
    """Return which of these projects are deleted."""
    column = project_deletions.c.project_id
    return set(connection.execute(select(column).where(column.in_(project_ids))).scalars())


async def fetch_deleted(database: Database) -> frozenset[ProjectId]:
    """Return all deleted projects."""
    return frozenset(id for (id,) in await database.fetch(_select_deleted, {}))


class SqlProjectDeletions(ProjectDeletions):
    def __init__(self, database: Database) -> None:
        self._database = database
        self._holder = str(uuid4())

    async def list_deletions(
        self, *, is_purged: bool | None, limit: int, offset: int
    ) -> tuple[list[ProjectDeletion], int]:
        wanted = _select_report.order_by(
            project_deletions.c.requested_at.desc(), project_deletions.c.project_id.desc()
        )
        if is_purged is not None:
            wanted = wanted.where(project_deletions.c.purged_at.is_not(None) == is_purged)

        def run(connection: Connection) -> tuple[list[ProjectDeletion], int]:
            rows, total = read_page(connection, wanted, limit=limit, offset=offset)
            return [_decode(row) for row in rows], total

        return await self._database.read(run)

    async def list_unpurged(self) -> list[ProjectDeletion]:
        return await self._database.read(read_unpurged)

    async def count_rows(self, project_id: ProjectId) -> Mapping[str, int]:
        def run(connection: Connection) -> dict[str, int]:
            counts = {}
            for name, table in _COUNTED.items():
                own = table.c.project_id == project_id
                if "deleted" in table.c:
                    own &= table.c.deleted.is_(False)
                counted = select(func.count()).select_from(table).where(own)
                counts[name] = connection.execute(counted).scalar_one()
            waiting = select(func.sum(inbox.c.number)).where(inbox.c.project_id == project_id)
            counts["unprocessed events"] = connection.execute(waiting).scalar() or 0
            return counts

        return await self._database.read_in_background(run)

    async def acquire(self, project_id: ProjectId) -> bool:
        if self._database.engine_name == "sqlite":
            return True
        values = {"id": project_id, "holder": self._holder, "lease_s": LEASE_S}
        return await self._database.write(
            lambda connection: connection.execute(_ACQUIRE, values).first() is not None
        )

    async def release(self, project_id: ProjectId) -> None:
        if self._database.engine_name == "sqlite":
            return
        own = (project_deletions.c.project_id == project_id) & (
            project_deletions.c.holder == self._holder
        )
        released = update(project_deletions).where(own).values(holder=None, expires_at=None)
        await self._database.write(lambda connection: connection.execute(released))

    @property
    def table_count(self) -> int:
        return len(_TABLES)

    async def delete_batch(self, project_id: ProjectId, table: int) -> int:
        own = project_deletions.c.project_id == project_id

        def change(connection: Connection) -> int:
            count = delete_batch(connection, _TABLES[table], project_id, ROWS_PER_BATCH)
            if count:
                total = project_deletions.c.rows_deleted + count
                connection.execute(update(project_deletions).where(own).values(rows_deleted=total))
            return count

        return await self._database.write(change)

    async def save_event_count(self, project_id: ProjectId, count: int) -> None:
        await self._update(project_id, events_deleted=count)

    async def find_newest_processed(self) -> int:
        newest = select(func.max(ready_events.c.id))
        return await self._database.read(
            lambda connection: connection.execute(newest).scalar() or 0
        )

    async def has_processed_until(self, newest: int) -> bool:
        waits = select(exists().where(ready_events.c.id <= newest))
        return await self._database.read(
            lambda connection: bool(connection.execute(waits).scalar())
        )

    async def mark_purged(self, project_id: ProjectId, now: datetime) -> None:
        await self._update(project_id, purged_at=now)

    async def _update(self, project_id: ProjectId, **values: Any) -> None:
        own = project_deletions.c.project_id == bindparam("id")
        changed = update(project_deletions).where(own).values(**values)
        await self._database.write(
            lambda connection: connection.execute(changed, {"id": project_id})
        )


def read_unpurged(connection: Connection) -> list[ProjectDeletion]:
    """Return the deleted projects whose data is not gone yet, oldest first."""
    unpurged = _select_report.where(project_deletions.c.purged_at.is_(None))
    rows = connection.execute(unpurged.order_by(project_deletions.c.requested_at))
    return [_decode(row) for row in rows]


def _decode(row: Row[Any]) -> ProjectDeletion:
    return ProjectDeletion(
        project_id=ProjectId(row.project_id),
        name=row.name,
        requested_at=row.requested_at,
        rows_deleted=row.rows_deleted,
        events_deleted=row.events_deleted,
        purged_at=row.purged_at,
    )
