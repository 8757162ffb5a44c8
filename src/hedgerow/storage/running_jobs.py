"""The SQL of jobs that run: who has one, and how far it has come. One process at a time has one;
who died over one loses it after a while, by PostgreSQL's clock. SQLite has one process anyway.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    text,
    update,
)

from hedgerow.pipelines.model import Job, JobId, JobStatus, Record
from hedgerow.pipelines.running import Ending, NoLongerOurs, Step
from hedgerow.storage import activity, deliveries, import_states
from hedgerow.storage.database import Database, HotRead
from hedgerow.storage.jobs import COLUMNS, job_from
from hedgerow.storage.leases import LEASE_S
from hedgerow.storage.pipelines import record_from
from hedgerow.storage.tables import deliveries as queue
from hedgerow.storage.tables import delivery_logs, pipeline_records
from hedgerow.storage.tables import pipeline_jobs as table

OPEN = (JobStatus.WAITING.value, JobStatus.RUNNING.value)
RUNNING = JobStatus.RUNNING.value
# Of a record's jobs that are over, so many are kept.
KEPT = 100
# Tells our advisory lock from others in the same database.
ADVISORY = 4813
UUIDS_AT_ONCE = 500
RECORD_DELETED = "The record was deleted."


def _any_of(*statuses: JobStatus) -> HotRead:
    return HotRead(
        select(literal_column("1", Integer))
        .select_from(table)
        .where(table.c.status.in_([literal_column(f"'{status.value}'") for status in statuses]))
        .limit(literal_column("1", Integer))
        .offset(literal_column("0", Integer))
    )


_any_waiting = _any_of(JobStatus.WAITING)
_any_open = _any_of(JobStatus.WAITING, JobStatus.RUNNING)


class RunningJobRecords:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_alone = database.engine_name == "sqlite"
        self._holder = str(uuid4())

    async def has_open(self) -> bool:
        return bool(await self._database.fetch(_any_open, {}))

    async def has_waiting(self) -> bool:
        return bool(await self._database.fetch(_any_waiting, {}))

    async def take(self, waits_until_enabled: Sequence[str], now: datetime) -> Job | None:
        twin = table.alias()
        is_first_of_its_kind = ~exists().where(
            (twin.c.record_id == table.c.record_id)
            & (twin.c.type == table.c.type)
            & (twin.c.id != table.c.id)
            & (twin.c.status == RUNNING)
        )
        found = (
            select(table.c.id)
            .join(pipeline_records, pipeline_records.c.id == table.c.record_id)
            .where(table.c.status.in_(OPEN) & self._is_free() & _may_go_on(waits_until_enabled))
            .where(or_(table.c.status == RUNNING, is_first_of_its_kind))
            .order_by(table.c.updated_at, table.c.id)
            .limit(1)
        )

        def change(connection: Connection) -> Job | None:
            if not self._is_alone:
                # Two processes must not take two jobs of one kind at the same moment.
                connection.execute(select(func.pg_advisory_xact_lock(ADVISORY)))
            _cancel_orphans(connection, now)
            id = connection.execute(found).scalar()
            if id is None:
                return None
            row = connection.execute(
                update(table)
                .where(table.c.id == id)
                .values(
                    status=RUNNING,
                    holder=self._holder,
                    expires_at=self._end(now),
                    started_at=func.coalesce(table.c.started_at, now),
                    updated_at=now,
                )
                .returning(*COLUMNS)
            ).one()
            return job_from(row)

        return await self._database.write(change)

    async def current(self, id: JobId) -> tuple[Job, Record]:
        own = table.c.id == id
        record = select(pipeline_records).join(table, table.c.record_id == pipeline_records.c.id)

        def run(connection: Connection) -> tuple[Job, Record]:
            job = connection.execute(select(*COLUMNS).where(own)).one_or_none()
            if job is None:
                raise NoLongerOurs
            return job_from(job), record_from(connection.execute(record.where(own)).one())

        return await self._database.read(run)

    async def ours(self, waits_until_enabled: Sequence[str]) -> set[JobId]:
        held = (
            select(table.c.id)
            .join(pipeline_records, pipeline_records.c.id == table.c.record_id)
            .where(self._is_ours() & _may_go_on(waits_until_enabled))
        )
        return await self._database.read(
            lambda connection: {JobId(id) for id in connection.execute(held).scalars()}
        )

    async def keep(self) -> None:
        if not self._is_alone:
            renewed = update(table).where(self._is_ours()).values(expires_at=self._end(None))
            await self._database.write(lambda connection: connection.execute(renewed))

    async def save(self, id: JobId, step: Step, rate: float, now: datetime) -> bool:
        saved = (
            update(table)
            .where((table.c.id == id) & self._is_ours())
            .values(
                cursor=step.cursor,
                done=step.done,
                total=step.total,
                details=dict(step.details),
                rate=rate,
                updated_at=now,
                expires_at=self._end(now),
            )
            .returning(table.c.record_id)
        )

        def change(connection: Connection) -> bool:
            record_id = connection.execute(saved).scalar()
            if record_id is None:
                return False
            if step.deliveries:
                uuids = [each.event.uuid for each in step.deliveries]
                for start in range(0, len(uuids), UUIDS_AT_ONCE):
                    _unbury(connection, record_id, uuids[start : start + UUIDS_AT_ONCE])
                deliveries.add(connection, step.deliveries, now)
            if step.about:
                import_states.save(connection, record_id, step)
            _log(connection, record_id, step.logs, now)
            return True

        return await self._database.write(change)

    async def end(self, id: JobId, ending: Ending, now: datetime) -> None:
        ended = (
            update(table)
            .where((table.c.id == id) & self._is_ours())
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
            _log(connection, record_id, ending.logs, now)
            if ending.entry is not None:
                activity.record(connection, ending.entry, now)
            _forget_old(connection, record_id)

        await self._database.write(change)

    async def give_back(self, ids: Sequence[JobId], now: datetime) -> None:
        given = (
            update(table)
            .where(table.c.id.in_(ids) & self._is_ours())
            .values(status=JobStatus.WAITING.value, holder=None, expires_at=None, updated_at=now)
        )
        await self._database.write(lambda connection: connection.execute(given))

    def _is_ours(self) -> ColumnElement[bool]:
        return (table.c.holder == self._holder) & (table.c.status == RUNNING)

    def _is_free(self) -> ColumnElement[bool]:
        if self._is_alone:
            return or_(table.c.holder.is_(None), table.c.holder != self._holder)
        return or_(table.c.holder.is_(None), table.c.expires_at < func.clock_timestamp())

    def _end(self, now: datetime | None) -> Any:
        return now if self._is_alone else text(f"clock_timestamp() + interval '{LEASE_S} seconds'")


def _may_go_on(waits_until_enabled: Sequence[str]) -> ColumnElement[bool]:
    return pipeline_records.c.deleted.is_(False) & or_(
        pipeline_records.c.enabled.is_(True), table.c.type.not_in(waits_until_enabled)
    )


def _cancel_orphans(connection: Connection, now: datetime) -> None:
    deleted = select(pipeline_records.c.id).where(pipeline_records.c.deleted.is_(True))
    connection.execute(
        update(table)
        .where(table.c.status.in_(OPEN) & table.c.record_id.in_(deleted))
        .values(
            status=JobStatus.CANCELLED.value,
            error=RECORD_DELETED,
            updated_at=now,
            ended_at=now,
            holder=None,
            expires_at=None,
        )
    )


def _unbury(connection: Connection, record_id: int, uuids: Sequence[str]) -> None:
    """What is sent again is no longer dead."""
    connection.execute(
        delete(queue).where(
            (queue.c.record_id == record_id)
            & (queue.c.status == literal_column("'dead'"))
            & queue.c.uuid.in_(uuids)
        )
    )


def _log(connection: Connection, record_id: int, logs: Sequence[Any], now: datetime) -> None:
    rows = [
        {
            "record_id": record_id,
            "level": line.level.value,
            "message": line.message,
            "uuid": line.uuid,
            "created_at": now,
        }
        for line in logs
    ]
    if rows:
        connection.execute(insert(delivery_logs), rows)


def _forget_old(connection: Connection, record_id: int) -> None:
    """Only the newest of a record's jobs stay."""
    own = (table.c.record_id == record_id) & table.c.status.not_in(OPEN)
    own &= table.c.status != JobStatus.PAUSED.value
    kept = (
        select(table.c.id)
        .where(own)
        .order_by(table.c.created_at.desc(), table.c.id.desc())
        .limit(KEPT)
    )
    connection.execute(delete(table).where(own & table.c.id.not_in(kept)))
