"""Ingestion warnings. Each project keeps its newest ones."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select

from hedgerow.ingestion.model import IngestionWarning
from hedgerow.ingestion.store import WarningQuery, WarningStore
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.tables.ingestion import ingestion_warnings as table

MAX_WARNINGS_PER_PROJECT = 10_000


class SqlWarningStore(WarningStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_warnings(self, query: WarningQuery) -> tuple[list[IngestionWarning], int]:
        wanted = table.c.project_id == query.project_id
        if query.type:
            wanted &= table.c.type == query.type
        if query.search:
            wanted &= or_(
                *(
                    table.c[name].icontains(query.search, autoescape=True)
                    for name in ("detail", "event", "distinct_id")
                ),
                table.c.uuid == query.search.lower(),
            )

        def run(connection: Connection) -> tuple[list[IngestionWarning], int]:
            newest_first = select(table).where(wanted).order_by(table.c.id.desc())
            rows, total = read_page(
                connection, newest_first, limit=query.limit, offset=query.offset
            )
            return [_decode_warning(row._asdict()) for row in rows], total

        return await self._database.read(run)

    async def delete_copies(
        self, project_id: ProjectId, uuids: Sequence[str], distinct_ids: Sequence[str]
    ) -> int:
        """Delete warnings about events that match, since they repeat what was wrong with them. If
        both lists are given, both must match. Warnings are no copies of events: returns 0."""
        condition, values = bulk.build_event_condition(uuids, distinct_ids)
        if condition:
            sql = f"DELETE FROM ingestion_warnings WHERE project_id = ? AND {condition}"  # noqa: S608 - our own names
            await self._database.write(
                lambda connection: bulk.execute(connection, sql, project_id, *values)
            )
        return 0

    async def delete_old(self) -> None:
        """Delete all but the newest warnings of each project."""

        def run(connection: Connection) -> None:
            crowded = (
                select(table.c.project_id, func.max(table.c.id))
                .group_by(table.c.project_id)
                .having(func.count() > MAX_WARNINGS_PER_PROJECT)
            )
            for project_id, _ in connection.execute(crowded).all():
                of_project = table.c.project_id == project_id
                last_kept = (
                    select(table.c.id)
                    .where(of_project)
                    .order_by(table.c.id.desc())
                    .limit(1)
                    .offset(MAX_WARNINGS_PER_PROJECT)
                    .scalar_subquery()
                )
                connection.execute(delete(table).where(of_project & (table.c.id <= last_kept)))

        await self._database.write(run)


def add_warnings(
    connection: Connection,
    project_id: ProjectId,
    warnings: Sequence[IngestionWarning],
    now: datetime,
) -> None:
    if warnings:
        rows = [
            {
                "project_id": project_id,
                "created_at": now,
                "type": each.type,
                "detail": each.detail,
                "event": each.event,
                "uuid": each.uuid,
                "distinct_id": each.distinct_id,
            }
            for each in warnings
        ]
        connection.execute(insert(table), rows)


def _decode_warning(row: dict[str, Any]) -> IngestionWarning:
    del row["project_id"]
    return IngestionWarning(**row)
