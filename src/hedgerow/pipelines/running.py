"""A job while it runs: what its work is given, what it tells of each step, and how it ends."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from hedgerow.pipelines.component import Component
from hedgerow.pipelines.deliveries import LogLine, NewDelivery
from hedgerow.pipelines.model import FileMark, Job, JobId, JobStatus, Record
from hedgerow.projects.activity import Entry

# The rate is that of so many seconds.
RATE_S = 15.0


class NoLongerOurs(Exception):
    """Somebody paused or cancelled the job, or another process has it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How far a job has come, stored in one transaction with the deliveries that it makes and what
    is known of a record's imports from now on."""

    cursor: Any
    done: int
    total: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    deliveries: Sequence[NewDelivery] = ()
    logs: Sequence[LogLine] = ()
    about: str = ""
    finished: Sequence[FileMark] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    status: JobStatus
    error: str
    logs: Sequence[LogLine]
    entry: Entry | None


class RunningJobs(Protocol):
    """Jobs as those see them who run them. One process at a time has one."""

    async def has_open(self) -> bool:
        """Whether there may be something to take."""
        ...

    async def has_waiting(self) -> bool:
        """Whether somebody waits for their turn."""
        ...

    async def take(self, waits_until_enabled: Sequence[str], now: datetime) -> Job | None:
        """A job that nobody has, ours from now on. Of one record only one of a type at a time, and
        those of these types not while the record is disabled."""
        ...

    async def current(self, id: JobId) -> tuple[Job, Record]:
        """The job as it is now, and its record."""
        ...

    async def ours(self, waits_until_enabled: Sequence[str]) -> set[JobId]:
        """The jobs that are still ours and may go on."""
        ...

    async def keep(self) -> None:
        """Keep those that are ours, for another while."""
        ...

    async def save(self, id: JobId, step: Step, rate: float, now: datetime) -> bool:
        """False, and nothing is stored, if it is no longer ours."""
        ...

    async def end(self, id: JobId, ending: Ending, now: datetime) -> None: ...

    async def give_back(self, ids: Sequence[JobId], now: datetime) -> None:
        """Those that are still ours wait for somebody again."""
        ...


class Held:
    """A job that is ours, with what its work needs. `settings` are in the clear."""

    def __init__(
        self,
        job: Job,
        record: Record,
        component: Component,
        settings: Mapping[str, Any],
        save: Callable[[Step, float], Awaitable[bool]],
    ) -> None:
        self.job = job
        self.record = record
        self.component = component
        self.settings = settings
        self._save = save
        self._pace = deque([(time.monotonic(), job.done)])

    async def save(self, step: Step) -> None:
        if not await self._save(step, self._rate(step.done)):
            raise NoLongerOurs

    def _rate(self, done: int) -> float:
        now = time.monotonic()
        self._pace.append((now, done))
        while len(self._pace) > 2 and self._pace[1][0] < now - RATE_S:
            self._pace.popleft()
        since, before = self._pace[0]
        return round((done - before) / max(now - since, 0.001), 1)


# Does a kind of job until its end. It saves each step, and may be begun again after any of them.
Work = Callable[[Held], Awaitable[None]]
