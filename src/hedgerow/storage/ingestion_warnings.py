"""Ingestion warnings' SQL. The newest of each project are kept."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, insert, select

from hedgerow.ingestion.model import IngestionWarning
from hedgerow.ingestion.store import WarningQuery, WarningTold
from hedgerow.projects.model import ProjectId
from hedgerow.storage.database import Database
from hedgerow.storage.tables import ingestion_warnings as table

KEPT = 10_000


class WarningRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def warnings(self, query: WarningQuery) -> tuple[list[WarningTold], int]:
        wanted = table.c.project_id == query.project_id
        if query.type:
            wanted &= table.c.type == query.type

        def run(connection: Connection) -> tuple[list[WarningTold], int]:
            number = connection.execute(
                select(func.count()).select_from(table).where(wanted)
            ).scalar_one()
            page = (
                select(table)
                .where(wanted)
                .order_by(table.c.id.desc())
                .limit(query.limit)
                .offset(query.offset)
            )
            rows = [row._asdict() for row in connection.execute(page)]
            return [_told(row) for row in rows], number

        return await self._database.read(run)

    async def forget_old(self) -> None:
        """Keep the newest of each project only."""

        def run(connection: Connection) -> None:
            crowded = (
                select(table.c.project_id, func.max(table.c.id))
                .group_by(table.c.project_id)
                .having(func.count() > KEPT)
            )
            for project_id, _ in connection.execute(crowded).all():
                of_project = table.c.project_id == project_id
                last_kept = (
                    select(table.c.id)
                    .where(of_project)
                    .order_by(table.c.id.desc())
                    .limit(1)
                    .offset(KEPT)
                    .scalar_subquery()
                )
                connection.execute(delete(table).where(of_project & (table.c.id <= last_kept)))

        await self._database.write(run)


def add(
    connection: Connection,
    project_id: ProjectId,
    warnings: Sequence[IngestionWarning],
    now: datetime,
) -> None:
    if warnings:
        rows = [
            {"project_id": project_id, "created_at": now, **msgspec.structs.asdict(each)}
            for each in warnings
        ]
        connection.execute(insert(table), rows)


def _told(row: dict[str, Any]) -> WarningTold:
    del row["project_id"]
    return WarningTold(**row)
