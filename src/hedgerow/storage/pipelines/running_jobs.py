"""Pipeline jobs as workers run them: leases and progress.

One process at a time holds the lease of a job. The lease of a process that died expires, by
PostgreSQL's clock. SQLite has a single process.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    and_,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    text,
    update,
)

from hedgerow.pipelines.jobs.running import (
    CRASH_DELAYS_S,
    JobEnd,
    JobLeaseStore,
    JobStep,
    LeaseLost,
    WaitingJobs,
)
from hedgerow.pipelines.model import Job, JobId, JobStatus, Record
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries.logs import add_log_lines
from hedgerow.storage.deliveries.new_deliveries import add_deliveries
from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.engine.leases import EXPIRY_SQL
from hedgerow.storage.pipelines import import_states
from hedgerow.storage.pipelines.jobs import COLUMNS, decode_job
from hedgerow.storage.pipelines.records import decode_record
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import deliveries as queue
from hedgerow.storage.tables import pipeline_jobs as table
from hedgerow.storage.tables import pipeline_records

OPEN_STATUSES = (JobStatus.WAITING.value, JobStatus.RUNNING.value)
RUNNING = JobStatus.RUNNING.value
# How many finished jobs a record keeps.
MAX_FINISHED_JOBS = 100
# Distinguishes this advisory lock from others in the same database.
ADVISORY_LOCK_ID = 4813
UUID_BATCH_SIZE = 500
# No job waits longer.
MAX_DELAY = timedelta(hours=1)
WAITING_AGAIN = {
    "status": JobStatus.WAITING.value,
    "holder": None,
    "expires_at": None,
    "crashes": 0,
}
RECORD_DELETED = "The record was deleted."


def _select_any(*statuses: JobStatus) -> PreparedQuery:
    return PreparedQuery(
        select(literal_column("1", Integer))
        .select_from(table)
        .where(table.c.status.in_([literal_column(f"'{status.value}'") for status in statuses]))
        .limit(literal_column("1", Integer))
        .offset(literal_column("0", Integer))
    )


_select_any_open = _select_any(JobStatus.WAITING, JobStatus.RUNNING)


class SqlRunningJobStore(JobLeaseStore):
    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_single_process = database.engine_name == "sqlite"
        self._holder = str(uuid4())

    async def has_open(self) -> bool:
        return bool(await self._database.fetch(_select_any_open, {}))

    async def list_waiting(
        self, types_requiring_enabled: Sequence[str], now: datetime
    ) -> WaitingJobs:
        is_deleted = pipeline_records.c.deleted
        is_crashed = (table.c.status == RUNNING) & self._is_free()
        listed = (
            select(table.c.project_id, table.c.status, is_deleted)
            .join(pipeline_records, pipeline_records.c.id == table.c.record_id)
            .where(
                table.c.status.in_(OPEN_STATUSES)
                & or_(is_deleted, is_crashed, _is_due(now) & _can_run(types_requiring_enabled))
            )
            .group_by(table.c.project_id, table.c.status, is_deleted)
            .order_by(func.min(table.c.updated_at))
        )

        def run(connection: Connection) -> WaitingJobs:
            rows = connection.execute(listed).all()
            return WaitingJobs(
                projects=[row.project_id for row in rows if row.status != RUNNING],
                needs_recovery=any(row.deleted or row.status == RUNNING for row in rows),
            )

        return await self._database.read(run)

    async def recover(self, now: datetime) -> None:
        crashed = select(table.c.id, table.c.crashes).where(
            (table.c.status == RUNNING) & self._is_free()
        )

        def change(connection: Connection) -> None:
            self._lock(connection)
            _cancel_orphans(connection, now)
            for row in connection.execute(crashed).all():
                connection.execute(
                    update(table)
                    .where(table.c.id == row.id)
                    .values(
                        status=JobStatus.WAITING.value,
                        holder=None,
                        expires_at=None,
                        crashes=row.crashes + 1,
                        run_after=_delay_after_crash(row.crashes, now),
                        updated_at=now,
                    )
                )

        await self._database.write(change)

    async def acquire(
        self,
        types_requiring_enabled: Sequence[str],
        now: datetime,
        project_id: ProjectId | None = None,
    ) -> Job | None:
        found = (
            select(table.c.id)
            .join(pipeline_records, pipeline_records.c.id == table.c.record_id)
            .where(_is_due(now) & _can_run(types_requiring_enabled))
            .order_by(table.c.updated_at, table.c.id)
            .limit(1)
        )
        if project_id is not None:
            found = found.where(table.c.project_id == project_id)

        def change(connection: Connection) -> Job | None:
            self._lock(connection)
            id = connection.execute(found).scalar()
            if id is None:
                return None
            row = connection.execute(
                update(table)
                .where(table.c.id == id)
                .values(
                    status=RUNNING,
                    error="",
                    holder=self._holder,
                    expires_at=self._lease_expiry(now),
                    run_after=None,
                    started_at=func.coalesce(table.c.started_at, now),
                    updated_at=now,
                )
                .returning(*COLUMNS)
            ).one()
            return decode_job(row)

        return await self._database.write(change)

    async def current(self, id: JobId) -> tuple[Job, Record]:
        own = table.c.id == id
        record = select(pipeline_records).join(table, table.c.record_id == pipeline_records.c.id)

        def run(connection: Connection) -> tuple[Job, Record]:
            job = connection.execute(select(*COLUMNS).where(own)).one_or_none()
            if job is None:
                raise LeaseLost
            return decode_job(job), decode_record(connection.execute(record.where(own)).one())

        return await self._database.read(run)

    async def list_held(self, types_requiring_enabled: Sequence[str]) -> set[JobId]:
        own_jobs = (
            select(table.c.id)
            .join(pipeline_records, pipeline_records.c.id == table.c.record_id)
            .where(self._holds_lease() & _can_run(types_requiring_enabled))
        )
        return await self._database.read(
            lambda connection: {JobId(id) for id in connection.execute(own_jobs).scalars()}
        )

    async def renew(self) -> None:
        if not self._is_single_process:
            renewed = (
                update(table).where(self._holds_lease()).values(expires_at=self._lease_expiry(None))
            )
            await self._database.write(lambda connection: connection.execute(renewed))

    async def save(self, id: JobId, step: JobStep, rate: float, now: datetime) -> bool:
        saved = (
            update(table)
            .where((table.c.id == id) & self._holds_lease())
            .values(
                cursor=step.cursor,
                done=step.done,
                total=step.total,
                details=dict(step.details),
                rate=rate,
                crashes=0,
                stalled_s=0.0,
                updated_at=now,
                expires_at=self._lease_expiry(now),
            )
            .returning(table.c.record_id)
        )

        def change(connection: Connection) -> bool:
            record_id = connection.execute(saved).scalar()
            if record_id is None:
                return False
            if step.deliveries:
                uuids = [each.event.uuid for each in step.deliveries]
                for start in range(0, len(uuids), UUID_BATCH_SIZE):
                    _remove_dead(connection, record_id, uuids[start : start + UUID_BATCH_SIZE])
                add_deliveries(connection, step.deliveries, now)
            if step.about:
                import_states.save_progress(connection, record_id, step)
            add_log_lines(connection, record_id, step.logs, now)
            return True

        return await self._database.write(change)

    async def finish(self, id: JobId, ending: JobEnd, now: datetime) -> None:
        ended = (
            update(table)
            .where((table.c.id == id) & self._holds_lease())
            .values(
                status=ending.status.value,
                error=ending.error,
                updated_at=now,
                ended_at=now,
                holder=None,
                expires_at=None,
            )
            .returning(table.c.record_id)
        )

        def change(connection: Connection) -> None:
            record_id = connection.execute(ended).scalar()
            if record_id is None:
                return
            add_log_lines(connection, record_id, ending.logs, now)
            if ending.entry is not None:
                activity.record(connection, ending.entry, now)
            _delete_old_jobs(connection, record_id)

        await self._database.write(change)

    async def release(self, stalled_s: Mapping[JobId, float], now: datetime) -> None:
        def change(connection: Connection) -> None:
            for id, seconds in stalled_s.items():
                own = (table.c.id == id) & self._holds_lease()
                connection.execute(
                    update(table)
                    .where(own)
                    .values(**WAITING_AGAIN, stalled_s=seconds, updated_at=now)
                )

        await self._database.write(change)

    async def postpone(self, id: JobId, reason: str, delay_s: float, now: datetime) -> None:
        own = (table.c.id == id) & self._holds_lease()
        postponed = (
            update(table)
            .where(own)
            .values(
                **WAITING_AGAIN,
                error=reason,
                run_after=now + timedelta(seconds=delay_s),
                updated_at=now,
            )
        )
        await self._database.write(lambda connection: connection.execute(postponed))

    def _lock(self, connection: Connection) -> None:
        """Two processes must not acquire two jobs of the same type and record."""
        if not self._is_single_process:
            connection.execute(select(func.pg_advisory_xact_lock(ADVISORY_LOCK_ID)))

    def _holds_lease(self) -> ColumnElement[bool]:
        return (table.c.holder == self._holder) & (table.c.status == RUNNING)

    def _is_free(self) -> ColumnElement[bool]:
        if self._is_single_process:
            return or_(table.c.holder.is_(None), table.c.holder != self._holder)
        # A lease that ends later was acquired before the clock was set back, and does not count.
        valid = table.c.expires_at.between(func.clock_timestamp(), text(EXPIRY_SQL))
        return or_(table.c.holder.is_(None), ~valid)

    def _lease_expiry(self, now: datetime | None) -> Any:
        return now if self._is_single_process else text(EXPIRY_SQL)


def _is_due(now: datetime) -> ColumnElement[bool]:
    """Whether a job waits, is the first of its type and record, and need not wait any longer. A
    time further ahead is from before the clock was set back."""
    twin = table.alias()
    has_running_twin = exists().where(
        (twin.c.record_id == table.c.record_id)
        & (twin.c.type == table.c.type)
        & (twin.c.status == RUNNING)
    )
    run_after = table.c.run_after
    is_over = or_(run_after.is_(None), run_after <= now, run_after > now + MAX_DELAY)
    return and_(table.c.status == JobStatus.WAITING.value, is_over, ~has_running_twin)


def _delay_after_crash(crashes: int, now: datetime) -> datetime | None:
    """Return until when a job waits that has crashed once more. The last crash ends it at once."""
    if crashes >= len(CRASH_DELAYS_S):
        return None
    return now + timedelta(seconds=CRASH_DELAYS_S[crashes])


def _can_run(types_requiring_enabled: Sequence[str]) -> ColumnElement[bool]:
    return pipeline_records.c.deleted.is_(False) & or_(
        pipeline_records.c.enabled.is_(True), table.c.type.not_in(types_requiring_enabled)
    )


def _cancel_orphans(connection: Connection, now: datetime) -> None:
    deleted = select(pipeline_records.c.id).where(pipeline_records.c.deleted.is_(True))
    connection.execute(
        update(table)
        .where(table.c.status.in_(OPEN_STATUSES) & table.c.record_id.in_(deleted))
        .values(
            status=JobStatus.CANCELLED.value,
            error=RECORD_DELETED,
            updated_at=now,
            ended_at=now,
            holder=None,
            expires_at=None,
        )
    )


def _remove_dead(connection: Connection, record_id: int, uuids: Sequence[str]) -> None:
    """Delete the dead deliveries of events that are sent again."""
    connection.execute(
        delete(queue).where(
            (queue.c.record_id == record_id)
            & (queue.c.status == literal_column("'dead'"))
            & queue.c.uuid.in_(uuids)
        )
    )


def _delete_old_jobs(connection: Connection, record_id: int) -> None:
    """Delete all but the newest finished jobs of a record."""
    own = (table.c.record_id == record_id) & table.c.status.not_in(OPEN_STATUSES)
    own &= table.c.status != JobStatus.PAUSED.value
    newest = (
        select(table.c.id)
        .where(own)
        .order_by(table.c.created_at.desc(), table.c.id.desc())
        .limit(MAX_FINISHED_JOBS)
    )
    connection.execute(delete(table).where(own & table.c.id.not_in(newest)))
