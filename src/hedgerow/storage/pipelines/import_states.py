"""Import progress of each record, and when its next scheduled import is due."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, exists, insert, literal_column, select, update

from hedgerow.pipelines.imports.run import ImportStateStore
from hedgerow.pipelines.imports.scheduler import PlannedRun, ScheduleStore
from hedgerow.pipelines.jobs.running import JobStep
from hedgerow.pipelines.model import Job, JobStatus, Record, RecordId
from hedgerow.plugin.component import Family
from hedgerow.plugin.imports import FileVersion
from hedgerow.storage.engine.database import AnyRow, Database
from hedgerow.storage.pipelines import jobs
from hedgerow.storage.pipelines.records import decode_record
from hedgerow.storage.tables import import_states as table
from hedgerow.storage.tables import imported_files, pipeline_jobs, pipeline_records

_OPEN_STATUSES = tuple(status.value for status in JobStatus if not status.is_over)

_is_importer = (
    (pipeline_records.c.family == literal_column(f"'{Family.IMPORT_APP.value}'"))
    & pipeline_records.c.enabled.is_(True)
    & pipeline_records.c.deleted.is_(False)
)
_any_importer = AnyRow(_is_importer)


class SqlImportStore(ImportStateStore, ScheduleStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def cursor(self, record_id: RecordId, about: str) -> Any:
        known = select(table.c.cursor).where(
            (table.c.record_id == record_id) & (table.c.about == about)
        )
        return await self._database.read(lambda connection: connection.execute(known).scalar())

    async def is_finished(self, record_id: RecordId, mark: FileVersion) -> bool:
        known = select(imported_files.c.version).where(
            (imported_files.c.record_id == record_id) & (imported_files.c.name == mark.name)
        )
        version = await self._database.read(lambda connection: connection.execute(known).scalar())
        return bool(version == mark.version)

    async def importers(self) -> Sequence[tuple[Record, PlannedRun | None]]:
        if not await _any_importer.is_in(self._database):
            return []
        enabled = select(pipeline_records).where(_is_importer)
        plans = select(table.c.record_id, table.c.schedule, table.c.next_run_ms)

        def run(connection: Connection) -> list[tuple[Record, PlannedRun | None]]:
            records = [decode_record(row) for row in connection.execute(enabled)]
            planned = {
                row.record_id: PlannedRun(schedule=row.schedule, next_run_ms=row.next_run_ms)
                for row in connection.execute(plans)
            }
            return [(record, planned.get(record.id)) for record in records]

        return await self._database.read(run)

    async def planned(self, record_id: RecordId) -> PlannedRun | None:
        own = select(table.c.schedule, table.c.next_run_ms).where(table.c.record_id == record_id)

        def run(connection: Connection) -> PlannedRun | None:
            row = connection.execute(own).one_or_none()
            return row and PlannedRun(schedule=row.schedule, next_run_ms=row.next_run_ms)

        return await self._database.read(run)

    async def plan(self, record_id: RecordId, planned: PlannedRun) -> None:
        values = {"schedule": planned.schedule, "next_run_ms": planned.next_run_ms}
        await self._database.write(lambda connection: _write_state(connection, record_id, values))

    async def run(self, record: Record, job: Job, was: PlannedRun, following: PlannedRun) -> bool:
        moved = (
            update(table)
            .where(
                (table.c.record_id == record.id)
                & (table.c.schedule == was.schedule)
                & (table.c.next_run_ms == was.next_run_ms)
            )
            .values(next_run_ms=following.next_run_ms)
        )
        is_busy = select(
            exists().where(
                (pipeline_jobs.c.record_id == record.id)
                & (pipeline_jobs.c.type == job.type)
                & pipeline_jobs.c.status.in_(_OPEN_STATUSES)
            )
        )

        def change(connection: Connection) -> bool:
            if not connection.execute(moved).rowcount or connection.execute(is_busy).scalar():
                return False
            jobs.insert_job(connection, record.project_id, job)
            return True

        return await self._database.write(change)


def save_progress(connection: Connection, record_id: int, step: JobStep) -> None:
    """Save import progress. Call this in the transaction that saves the step of the job."""
    _write_state(connection, record_id, {"about": step.about, "cursor": step.cursor})
    for mark in step.finished:
        file = (imported_files.c.record_id == record_id) & (imported_files.c.name == mark.name)
        known = update(imported_files).where(file).values(version=mark.version)
        if not connection.execute(known).rowcount:
            connection.execute(
                insert(imported_files),
                {"record_id": record_id, "name": mark.name, "version": mark.version},
            )


def _write_state(connection: Connection, record_id: int, values: dict[str, Any]) -> None:
    own = update(table).where(table.c.record_id == record_id)
    if not connection.execute(own.values(values)).rowcount:
        empty = {"about": "", "cursor": None, "schedule": "", "next_run_ms": None}
        connection.execute(insert(table), empty | values | {"record_id": record_id})
