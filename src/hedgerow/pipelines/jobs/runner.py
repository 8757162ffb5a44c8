"""The loop that runs jobs: it acquires waiting jobs and runs each in its own task.

An error ends only the job that raised it. An interrupted job continues from its last step: in this
process, after a restart, or in another process that acquires it.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping

from hedgerow.errors import AppError, Unavailable
from hedgerow.lib.clock import Clock
from hedgerow.lib.optional_packages import name_error
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.pipelines.deliveries.model import LogLevel, LogLine
from hedgerow.pipelines.jobs.running import (
    JobContext,
    JobEnd,
    JobLeaseStore,
    JobStep,
    LeaseLost,
    RunJob,
)
from hedgerow.pipelines.model import Job, JobId, JobStatus, Record
from hedgerow.pipelines.records.audit import SCOPE
from hedgerow.pipelines.records.records import Records
from hedgerow.pipelines.secret_mask import SecretMask
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.imports import JobError, JobPostponed
from hedgerow.projects.activity import SYSTEM, ActivityEntry

POLL_INTERVAL_S = 0.5
LEASE_RENEW_INTERVAL_S = 2.0
# If more jobs wait than a process may run, the longest-running one is paused after its time slice.
MAX_CONCURRENT_JOBS = 8
TIME_SLICE_S = 60.0
# Pause after an error that is not the job's, doubled each time.
INITIAL_RETRY_S, MAX_RETRY_S = 1.0, 30.0
RELEASE_TIMEOUT_S = 2.0
REASON_MAX = 500
# Shown as the requester of scheduled jobs.
SCHEDULE_ACTOR = "Schedule"
# A disabled destination sends nothing, so these jobs must wait.
TYPES_REQUIRING_ENABLED = ("replay", "retry_dead_letters")


class JobRunner:
    """The jobs of one process. `runners` maps job types to functions; `on_error` receives
    unexpected exceptions."""

    def __init__(
        self,
        store: JobLeaseStore,
        records: Records,
        runners: Mapping[str, RunJob],
        clock: Clock,
        on_error: Callable[[JobId, BaseException], None],
    ) -> None:
        self._store = store
        self._records = records
        self._runners = runners
        self._clock = clock
        self._on_error = on_error
        self._running: dict[JobId, asyncio.Task[None]] = {}
        self._since: dict[JobId, float] = {}

    async def run(self) -> None:
        """Acquire and supervise jobs, until cancelled."""
        try:
            while True:
                with contextlib.suppress(Unavailable):  # running jobs continue
                    await self._poll()
                await asyncio.sleep(POLL_INTERVAL_S)
        finally:
            await self._close()

    async def renew_leases(self) -> None:
        """Renew the leases of running jobs, so that a slow step loses none."""
        if self._running:
            await self._store.renew()

    async def _poll(self) -> None:
        for id in [id for id, task in self._running.items() if task.done()]:
            self._running.pop(id).result()
            self._since.pop(id, None)
        if self._running:
            held = await self._store.list_held(TYPES_REQUIRING_ENABLED)
            await self._stop([id for id in self._running if id not in held])
        if not await self._store.has_open():
            return
        while len(self._running) < MAX_CONCURRENT_JOBS:
            job = await self._store.acquire(TYPES_REQUIRING_ENABLED, self._clock())
            if job is None:
                return
            self._since[job.id] = time.monotonic()
            self._running[job.id] = asyncio.create_task(
                self._run_until_ended(job), name=f"job {job.id}"
            )
        oldest = min(self._running, key=lambda id: self._since[id])
        if (
            time.monotonic() - self._since[oldest] > TIME_SLICE_S
            and await self._store.has_waiting()
        ):
            await self._stop([oldest])

    async def _stop(self, ids: list[JobId]) -> None:
        """Interrupt jobs and release those that this process still holds."""
        tasks = [self._running.pop(id) for id in ids]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for id in ids:
            self._since.pop(id, None)
        if ids:
            await self._store.release(ids, self._clock())

    async def _close(self) -> None:
        ids = list(self._running)
        with contextlib.suppress(Unavailable, TimeoutError):  # the leases expire
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                await self._stop(ids)

    async def _run_until_ended(self, job: Job) -> None:
        pause_s = INITIAL_RETRY_S
        while True:
            try:
                await self._finish(job, await self._run_job(job))
                return
            except LeaseLost:
                return
            except Exception as error:  # noqa: BLE001 - retried: not an error of the job
                if not isinstance(error, Unavailable):
                    self._on_error(job.id, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MAX_RETRY_S)

    async def _run_job(self, job: Job) -> str:
        """Run a job and return the reason of its failure; empty if it succeeded."""
        mask = SecretMask()
        try:
            run_job, context = await self._prepare(job)
            mask = context.mask
            await run_job(context)
        except (LeaseLost, Unavailable):
            raise
        except AppError as error:
            setting = (error.attr or "").removeprefix("config__")
            reason = f"{setting}: {error.detail}" if setting else error.detail
            return mask.cut(reason, REASON_MAX)
        except (JobError, JobPostponed, TransportError) as error:
            return mask.cut(str(error), REASON_MAX)
        except BaseException as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._on_error(job.id, mask.apply_to_error(error))
            return f"The component failed: {name_error(error)}"
        return ""

    async def _prepare(self, job: Job) -> tuple[RunJob, JobContext]:
        # Load it again: after an interruption it continues from the stored cursor.
        job, record = await self._store.current(job.id)
        component = self._records.component(record)
        run_job = self._runners.get(job.type)
        if component is None:
            raise JobError("The component of this record is not installed.")
        if run_job is None:
            raise JobError(f'Unknown job type "{job.type}".')

        async def save(step: JobStep, rate: float) -> bool:
            return await self._store.save(job.id, step, rate, self._clock())

        settings = self._records.usable_settings(record)
        return run_job, JobContext(job, record, component, settings, save)

    async def _finish(self, job: Job, reason: str) -> None:
        reason = replace_unstorable_characters(reason[:REASON_MAX])
        if reason:
            line = LogLine(level=LogLevel.ERROR, message=f"Job {job.type} failed: {reason}")
        else:
            line = LogLine(level=LogLevel.INFO, message=f"Job {job.type} is done.")
        is_logged = bool(reason) or job.requested_by != SCHEDULE_ACTOR
        job, record = await self._store.current(job.id)
        end = JobEnd(
            status=JobStatus.FAILED if reason else JobStatus.DONE,
            error=reason,
            logs=[line],
            entry=self._entry(job, record, reason) if is_logged else None,
        )
        await self._store.finish(job.id, end, self._clock())

    def _entry(self, job: Job, record: Record, reason: str) -> ActivityEntry:
        component = self._records.component(record)
        trigger = {"job_type": job.type, "job_id": job.id, "payload": dict(job.payload)}
        return ActivityEntry(
            scope=SCOPE,
            item_id=str(record.id),
            item_name=record.name or (component.name if component else ""),
            activity="job_failed" if reason else "job_done",
            actor=SYSTEM,
            project_id=record.project_id,
            detail={"trigger": trigger} | ({"reason": reason} if reason else {}),
        )
