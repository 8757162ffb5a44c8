"""Stores a job for each scheduled import app that is due."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol
from uuid import uuid4

from hedgerow.lib.clock import Clock
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.imports.schedule import next_run
from hedgerow.pipelines.jobs.runner import SCHEDULE_ACTOR
from hedgerow.pipelines.model import Job, JobId, JobStatus, Record, RecordId


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """The next run of a record by its schedule; None if there is none."""

    schedule: str
    next_run_ms: int | None


class ScheduleStore(Protocol):
    async def importers(self) -> Sequence[tuple[Record, PlannedRun | None]]:
        """Return the enabled import apps and their planned runs."""
        ...

    async def planned(self, record_id: RecordId) -> PlannedRun | None: ...

    async def plan(self, record_id: RecordId, planned: PlannedRun) -> None: ...

    async def run(
        self, record: Record, job: Job, planned: PlannedRun, following: PlannedRun
    ) -> bool:
        """Store a job and the next planned run. Returns False if another process did so first, or
        if the previous job of the record has not ended."""
        ...


class ImportScheduler:
    def __init__(self, store: ScheduleStore, catalogue: Catalogue, clock: Clock) -> None:
        self._store = store
        self._catalogue = catalogue
        self._clock = clock

    async def run_due(self) -> None:
        """Plan new schedules and store the jobs that are due."""
        now = self._clock()
        now_ms = int(now.timestamp() * 1000)
        for record, planned in await self._store.importers():
            schedule = str(record.config.get("schedule") or "")
            if planned is None or planned.schedule != schedule or _is_too_late(planned, now):
                if schedule or planned is not None:
                    await self._store.plan(record.id, _plan_run(schedule, now, None))
            elif planned.next_run_ms is not None and planned.next_run_ms <= now_ms:
                component = self._catalogue.component(record.component_id)
                offer = component.default_job if component else None
                if offer is None:
                    continue
                job = Job(
                    id=JobId(str(uuid4())),
                    record_id=record.id,
                    type=offer.type,
                    payload={field.key: field.default for field in offer.payload},
                    status=JobStatus.WAITING,
                    error="",
                    requested_by=SCHEDULE_ACTOR,
                    created_at=now,
                    updated_at=now,
                )
                last = datetime.fromtimestamp(planned.next_run_ms / 1000, UTC)
                await self._store.run(record, job, planned, _plan_run(schedule, now, last))


def _is_too_late(planned: PlannedRun, now: datetime) -> bool:
    """Return whether the run was planned before the clock was set back."""
    following = _plan_run(planned.schedule, now, now).next_run_ms
    return (
        planned.next_run_ms is not None
        and following is not None
        and planned.next_run_ms > following
    )


def _plan_run(schedule: str, now: datetime, last: datetime | None) -> PlannedRun:
    moment = next_run(schedule, now, last) if schedule else None
    due_ms = None if moment is None else int(moment.timestamp() * 1000)
    return PlannedRun(schedule=schedule, next_run_ms=due_ms)
