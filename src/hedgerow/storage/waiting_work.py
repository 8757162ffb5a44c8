"""Work that waits in the database, for `hedgerow doctor`: events, deliveries and jobs."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, exists, func, select

from hedgerow.pipelines.deliveries.retry import PauseState
from hedgerow.pipelines.model import JobStatus, RecordId
from hedgerow.pipelines.store import Backlog
from hedgerow.plugin.component import Family
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries.backlogs import read_backlogs
from hedgerow.storage.tables import (
    delivery_leases,
    destination_states,
    event_definitions,
    pipeline_jobs,
    pipeline_records,
)
from hedgerow.storage.tables.ingestion import inbox, inbox_leases, inbox_workers, ready_events


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingEvents:
    """Accepted events that are not stored yet. `oldest_ms` is None if there are none."""

    number: int
    oldest_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedEvents:
    """Whether the event store has events, as far as the database knows, and since when events wait
    for it."""

    must_exist: bool = False
    oldest_waiting_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHealth:
    """An existing destination or transformation. `name` may be empty."""

    id: RecordId
    project_id: ProjectId
    family: Family
    name: str
    enabled: bool
    pause_state: PauseState
    backlog: Backlog


def read_waiting_events(connection: Connection) -> WaitingEvents:
    counts = [
        connection.execute(select(func.sum(table.c.number), func.min(table.c.accepted_ms))).one()
        for table in (inbox, ready_events)
    ]
    return WaitingEvents(
        number=sum(number or 0 for number, _ in counts),
        oldest_ms=min((oldest for _, oldest in counts if oldest is not None), default=None),
    )


def must_have_stored_events(connection: Connection) -> bool:
    """Return whether the event store has events, as far as the database knows: it counts them by
    name, also those that still wait to be stored."""
    if read_waiting_events(connection).number:
        return False
    counted = select(event_definitions.c.id).where(event_definitions.c.volume_30_day > 0).limit(1)
    return connection.execute(counted).first() is not None


def read_expected_events(connection: Connection) -> ExpectedEvents:
    return ExpectedEvents(
        must_exist=must_have_stored_events(connection),
        oldest_waiting_ms=read_waiting_events(connection).oldest_ms,
    )


def read_record_health(connection: Connection) -> Sequence[RecordHealth]:
    """Return destinations and transformations by id."""
    record, state = pipeline_records, destination_states
    backlogs = read_backlogs(connection)
    families = (Family.DESTINATION.value, Family.TRANSFORMATION.value)
    rows = connection.execute(
        select(record, state.c.error, state.c.failures, state.c.paused_until_ms)
        .outerjoin_from(record, state, state.c.record_id == record.c.id)
        .where(record.c.deleted.is_(False) & record.c.family.in_(families))
        .order_by(record.c.id)
    )
    return [
        RecordHealth(
            id=RecordId(row.id),
            project_id=ProjectId(row.project_id),
            family=Family(row.family),
            name=row.name,
            enabled=row.enabled,
            pause_state=PauseState(
                error=row.error or "",
                failures=row.failures or 0,
                paused_until_ms=row.paused_until_ms or 0,
            ),
            backlog=backlogs.get(RecordId(row.id), Backlog(project_id=ProjectId(row.project_id))),
        )
        for row in rows
    ]


def count_open_jobs(connection: Connection) -> int:
    """Count the jobs that a process should be running, or start within a second."""
    wanted = (JobStatus.WAITING.value, JobStatus.RUNNING.value)
    counted = select(func.count()).where(pipeline_jobs.c.status.in_(wanted))
    return connection.execute(counted).scalar_one()


def has_active_lease(connection: Connection) -> bool:
    """Return whether a process renews its leases. On PostgreSQL only, with its clock."""
    return any(
        connection.execute(
            select(exists().where(table.c.expires_at > func.clock_timestamp()))
        ).scalar()
        for table in (inbox_workers, inbox_leases, delivery_leases, pipeline_jobs)
    )
