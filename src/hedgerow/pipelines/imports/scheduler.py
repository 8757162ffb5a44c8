"""Import apps that run by themselves: when one is due, its job is stored for whoever runs jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol
from uuid import uuid4

from hedgerow.lib.clock import Clock
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.imports.schedule import next_run
from hedgerow.pipelines.job_runner import SCHEDULE
from hedgerow.pipelines.model import Job, JobId, JobStatus, Record, RecordId


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """When a record is due next by a schedule; None if never."""

    schedule: str
    next_run_ms: int | None


class ScheduleStore(Protocol):
    async def importers(self) -> Sequence[tuple[Record, Planned | None]]:
        """The enabled import apps, and what is planned for them."""
        ...

    async def planned(self, record_id: RecordId) -> Planned | None: ...

    async def plan(self, record_id: RecordId, planned: Planned) -> None: ...

    async def run(self, record: Record, job: Job, was: Planned, following: Planned) -> bool:
        """Store a job and what is planned next, unless somebody else has done so. A record whose
        last one is not over yet gets no other."""
        ...


class Scheduler:
    def __init__(self, store: ScheduleStore, catalogue: Catalogue, clock: Clock) -> None:
        self._store = store
        self._catalogue = catalogue
        self._clock = clock

    async def look(self) -> None:
        """One turn of the background loop."""
        now = self._clock()
        now_ms = int(now.timestamp() * 1000)
        for record, was in await self._store.importers():
            schedule = str(record.config.get("schedule") or "")
            if was is None or was.schedule != schedule:
                if schedule or was is not None:
                    await self._store.plan(record.id, _planned(schedule, now, None))
            elif was.next_run_ms is not None and was.next_run_ms <= now_ms:
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
                    requested_by=SCHEDULE,
                    created_at=now,
                    updated_at=now,
                )
                last = datetime.fromtimestamp(was.next_run_ms / 1000, UTC)
                await self._store.run(record, job, was, _planned(schedule, now, last))


def _planned(schedule: str, now: datetime, last: datetime | None) -> Planned:
    moment = next_run(schedule, now, last) if schedule else None
    due_ms = None if moment is None else int(moment.timestamp() * 1000)
    return Planned(schedule=schedule, next_run_ms=due_ms)
