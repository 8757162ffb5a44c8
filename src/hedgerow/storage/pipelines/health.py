"""The health of records for a list: counts since a time, pauses, and their newest jobs."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, func, select

from hedgerow.pipelines.model import Job, RecordId
from hedgerow.pipelines.store import PipelineHealth, PipelineHealthStore, RecordCounts
from hedgerow.storage.engine.database import Database
from hedgerow.storage.pipelines.jobs import COLUMNS, decode_job
from hedgerow.storage.tables import (
    delivery_counts,
    destination_states,
    pipeline_jobs,
    transformation_counts,
)

Sums = Mapping[RecordId, Mapping[str, int]]


class SqlPipelineHealthStore(PipelineHealthStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def health(
        self, record_ids: Sequence[RecordId], since_ms: int
    ) -> Mapping[RecordId, PipelineHealth]:
        def run(connection: Connection) -> Mapping[RecordId, PipelineHealth]:
            delivered = _sum(
                connection, delivery_counts, ("delivered", "retried", "dead"), record_ids, since_ms
            )
            transformed = _sum(
                connection,
                transformation_counts,
                ("changed", "dropped", "failed"),
                record_ids,
                since_ms,
            )
            pauses, jobs = _read_pauses(connection, record_ids), _read_jobs(connection, record_ids)
            return {
                id: PipelineHealth(
                    counts=RecordCounts(**{**delivered.get(id, {}), **transformed.get(id, {})}),
                    paused_until_ms=pauses.get(id, 0),
                    last_job=jobs.get(id),
                )
                for id in record_ids
            }

        return await self._database.read(run)


def _sum(
    connection: Connection,
    table: Table,
    names: Sequence[str],
    record_ids: Sequence[RecordId],
    since_ms: int,
) -> Sums:
    statement = (
        select(table.c.record_id, *(func.sum(table.c[name]) for name in names))
        .where(table.c.record_id.in_(record_ids) & (table.c.hour_ms > since_ms))
        .group_by(table.c.record_id)
    )
    return {
        id: {name: int(number) for name, number in zip(names, numbers, strict=True)}
        for id, *numbers in connection.execute(statement)
    }


def _read_pauses(connection: Connection, record_ids: Sequence[RecordId]) -> dict[RecordId, int]:
    table = destination_states
    statement = select(table.c.record_id, table.c.paused_until_ms).where(
        table.c.record_id.in_(record_ids)
    )
    return {RecordId(id): until for id, until in connection.execute(statement)}


def _read_jobs(connection: Connection, record_ids: Sequence[RecordId]) -> dict[RecordId, Job]:
    """Read the newest job of each record. A record keeps at most a hundred."""
    table = pipeline_jobs
    rank: Any = func.row_number().over(
        partition_by=table.c.record_id, order_by=(table.c.created_at.desc(), table.c.id.desc())
    )
    ranked = (
        select(table.c.id.label("job_id"), rank.label("rank"))
        .where(table.c.record_id.in_(record_ids))
        .subquery()
    )
    newest = select(ranked.c.job_id).where(ranked.c.rank == 1)
    rows = connection.execute(select(*COLUMNS).where(table.c.id.in_(newest)))
    return {job.record_id: job for job in map(decode_job, rows)}
