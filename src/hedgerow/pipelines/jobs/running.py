"""A running job: its context, its steps, its end, and the store with its lease."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from hedgerow.pipelines.deliveries.model import LogLine, NewDelivery
from hedgerow.pipelines.model import Job, JobId, JobStatus, Record
from hedgerow.pipelines.secret_mask import build_mask
from hedgerow.plugin.component import Component
from hedgerow.plugin.imports import FileVersion
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId

# A job that ends its process so often, without a step in between, is stopped. After the first death
# it waits until the service is ready and has answered others, and longer after the second.
MAX_CRASHES = 3
CRASH_DELAYS_S = (5.0, 60.0)
# The rate is measured over this time.
RATE_WINDOW_S = 15.0


class LeaseLost(Exception):
    """The job was paused or cancelled, or another process holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStep:
    """The progress of a job, stored in one transaction with its new deliveries, its logs and the
    state of the record's import: `about` identifies the source that the cursor belongs to."""

    cursor: Any
    done: int
    total: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    deliveries: Sequence[NewDelivery] = ()
    logs: Sequence[LogLine] = ()
    about: str = ""
    finished: Sequence[FileVersion] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    status: JobStatus
    error: str
    logs: Sequence[LogLine]
    entry: ActivityEntry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJobs:
    """The projects with jobs that may run, that with the oldest one first. If a process has died or
    a record was deleted, the store `needs_recovery`."""

    projects: Sequence[ProjectId]
    needs_recovery: bool


class JobLeaseStore(Protocol):
    """Job operations used by workers. A lease gives a job to one process at a time."""

    async def has_open(self) -> bool:
        """Whether there may be a job to acquire."""
        ...

    async def list_waiting(
        self, types_requiring_enabled: Sequence[str], now: datetime
    ) -> WaitingJobs: ...

    async def recover(self, now: datetime) -> None:
        """Let jobs whose process has died wait for a while, longer each time, and cancel those of
        deleted records."""
        ...

    async def acquire(
        self,
        types_requiring_enabled: Sequence[str],
        now: datetime,
        project_id: ProjectId | None = None,
    ) -> Job | None:
        """Acquire the oldest waiting job, of a project if given. A record runs one job of a type at
        a time, and jobs of the given types only while it is enabled."""
        ...

    async def current(self, id: JobId) -> tuple[Job, Record]:
        """Load the job and its record."""
        ...

    async def list_held(self, types_requiring_enabled: Sequence[str]) -> set[JobId]:
        """Return the jobs that this process still holds and that may continue."""
        ...

    async def renew(self) -> None:
        """Renew all leases of this process."""
        ...

    async def save(self, id: JobId, step: JobStep, rate: float, now: datetime) -> bool:
        """Store a step. Returns False and stores nothing if the lease is lost."""
        ...

    async def finish(self, id: JobId, ending: JobEnd, now: datetime) -> None: ...

    async def release(self, stalled_s: Mapping[JobId, float], now: datetime) -> None:
        """Release the jobs that this process still holds; they wait for a worker again. The values
        are how long they have run without a step."""
        ...

    async def postpone(self, id: JobId, reason: str, delay_s: float, now: datetime) -> None:
        """Release a job that cannot continue before the delay is over. The reason is shown."""
        ...


class JobContext:
    """A job that this process holds, with its record, component and decrypted settings."""

    def __init__(
        self,
        job: Job,
        record: Record,
        component: Component,
        settings: Mapping[str, Any],
        save: Callable[[JobStep, float], Awaitable[bool]],
    ) -> None:
        self.job = job
        self.record = record
        self.component = component
        self.settings = settings
        self.mask = build_mask(component, settings)
        self._save = save
        self._began = time.monotonic() - job.stalled_s
        self._pace = deque([(time.monotonic(), job.done)])

    @property
    def stalled_s(self) -> float:
        """How long the job has run since its last step."""
        return time.monotonic() - self._began

    async def save(self, step: JobStep) -> None:
        """Store a step, or raise LeaseLost."""
        if not await self._save(step, self._rate(step.done)):
            raise LeaseLost
        self._began = time.monotonic()

    def _rate(self, done: int) -> float:
        now = time.monotonic()
        self._pace.append((now, done))
        while len(self._pace) > 2 and self._pace[1][0] < now - RATE_WINDOW_S:
            self._pace.popleft()
        since, before = self._pace[0]
        return round((done - before) / max(now - since, 0.001), 1)


# Runs a job to its end. It saves each step, and may be started again after any of them.
RunJob = Callable[[JobContext], Awaitable[None]]
