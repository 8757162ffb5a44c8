"""Pipeline jobs as the API manages them: create, list, pause, resume, cancel."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from hedgerow.pipelines.jobs.jobs import OPEN_STATUSES, REPLAY
from hedgerow.pipelines.model import Job, JobId, JobStatus, RecordId
from hedgerow.pipelines.store import JobStore, JobTransition
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import pipeline_jobs as table

COLUMNS = tuple(
    column
    for column in table.c
    if column.name not in ("project_id", "holder", "expires_at", "run_after")
)


class SqlJobStore(JobStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_job(self, project_id: ProjectId, job: Job, entry: ActivityEntry) -> None:
        def change(connection: Connection) -> None:
            insert_job(connection, project_id, job)
            activity.record(connection, entry, job.created_at)

        await self._database.write(change)

    async def jobs(self, record_id: RecordId, *, limit: int, offset: int) -> tuple[list[Job], int]:
        def run(connection: Connection) -> tuple[list[Job], int]:
            newest_first = (
                select(*COLUMNS)
                .where(table.c.record_id == record_id)
                .order_by(table.c.created_at.desc(), table.c.id.desc())
            )
            rows, total = read_page(connection, newest_first, limit=limit, offset=offset)
            return [decode_job(row) for row in rows], total

        return await self._database.read(run)

    async def job(self, record_id: RecordId, id: JobId) -> Job | None:
        return await self._database.read(lambda connection: _find(connection, record_id, id))

    async def open_jobs(self, record_id: RecordId, type: str) -> list[Job]:
        def run(connection: Connection) -> list[Job]:
            newest_first = (
                select(*COLUMNS)
                .where((table.c.record_id == record_id) & (table.c.type == type))
                .where(table.c.status.in_([status.value for status in OPEN_STATUSES]))
                .order_by(table.c.created_at.desc(), table.c.id.desc())
            )
            return [decode_job(row) for row in connection.execute(newest_first)]

        return await self._database.read(run)

    async def change_status(
        self,
        record_id: RecordId,
        id: JobId,
        switch: JobTransition,
        entry: ActivityEntry,
        now: datetime,
    ) -> Job | None:
        values = {
            "status": switch.after.value,
            "updated_at": now,
            "ended_at": now if switch.after.is_over else None,
            "holder": None,
            "expires_at": None,
            "crashes": 0,
            "stalled_s": 0.0,
            "run_after": None,
        }
        if not switch.after.is_over:
            values["error"] = ""

        def change(connection: Connection) -> Job | None:
            switched = connection.execute(
                update(table)
                .where((table.c.record_id == record_id) & (table.c.id == id))
                .where(table.c.status.in_([status.value for status in switch.before]))
                .values(values)
            )
            if switched.rowcount:
                activity.record(connection, entry, now)
            return _find(connection, record_id, id)

        return await self._database.write(change)


def insert_job(connection: Connection, project_id: ProjectId, job: Job) -> None:
    connection.execute(
        insert(table),
        {
            "id": job.id,
            "project_id": project_id,
            "record_id": job.record_id,
            "type": job.type,
            "payload": dict(job.payload),
            "status": job.status.value,
            "error": job.error,
            "requested_by": job.requested_by,
            "created_at": job.created_at,
            "updated_at": job.updated_at,
        },
    )


def release_replays(connection: Connection, project_id: ProjectId) -> None:
    """Take running replays of a project from their workers. Each repeats its last step: what it
    read may have been deleted since. A step that is being saved is saved before this returns."""
    is_running = (
        (table.c.project_id == project_id)
        & (table.c.type == REPLAY)
        & (table.c.status == JobStatus.RUNNING.value)
    )
    values = {"status": JobStatus.WAITING.value, "holder": None, "expires_at": None}
    connection.execute(update(table).where(is_running).values(values))


def _find(connection: Connection, record_id: RecordId, id: JobId) -> Job | None:
    row = connection.execute(
        select(*COLUMNS).where((table.c.record_id == record_id) & (table.c.id == id))
    ).one_or_none()
    return None if row is None else decode_job(row)


def decode_job(row: Row[Any]) -> Job:
    return Job(**{**row._mapping, "status": JobStatus(row.status)})
