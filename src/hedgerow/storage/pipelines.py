"""Pipeline records' SQL."""

from typing import Any

from sqlalchemy import Connection, Row, func, select

from hedgerow.pipelines.model import Family, Record
from hedgerow.projects.model import ProjectId
from hedgerow.storage.database import Database
from hedgerow.storage.tables import pipeline_records


class PipelineRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def records(
        self, project_id: ProjectId, family: Family, *, limit: int, offset: int
    ) -> tuple[list[Record], int]:
        table = pipeline_records
        wanted = (
            (table.c.project_id == project_id)
            & (table.c.family == family.value)
            & (table.c.deleted.is_(False))
        )

        def run(connection: Connection) -> tuple[list[Record], int]:
            count = connection.execute(
                select(func.count()).select_from(table).where(wanted)
            ).scalar_one()
            page = (
                select(table)
                .where(wanted)
                .order_by(table.c.order, table.c.id)
                .limit(limit)
                .offset(offset)
            )
            return [_record(row) for row in connection.execute(page)], count

        return await self._database.read(run)


def _record(row: Row[Any]) -> Record:
    return Record(
        id=row.id,
        project_id=row.project_id,
        family=Family(row.family),
        component_id=row.component_id,
        enabled=row.enabled,
        order=row.order,
        name=row.name,
        description=row.description,
        deleted=row.deleted,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
