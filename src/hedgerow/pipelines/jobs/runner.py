"""The loop that runs jobs: it acquires waiting jobs and runs each in its own task.

An error ends only the job that raised it. An interrupted job continues from its last step: in this
process, after a restart, or in another process that acquires it.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hedgerow.errors import AppError, Unavailable
from hedgerow.lib.clock import Clock
from hedgerow.lib.optional_packages import name_error
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.lib.workers.fair_queue import Turns
from hedgerow.lib.workers.sender import work_for
from hedgerow.pipelines.deliveries.model import LogLevel, LogLine
from hedgerow.pipelines.jobs.running import (
    MAX_CRASHES,
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
from hedgerow.projects.model import ProjectId, name_sender

POLL_INTERVAL_S = 0.5
LEASE_RENEW_INTERVAL_S = 2.0
# A project gets as many places as it leaves free, so that the next one finds some.
MAX_CONCURRENT_JOBS = 16
# While another project waits without any place, the longest-running job of the project with the
# most places is paused after the first time, or the second if each project has one. While only jobs
# of its own project wait, it is paused after the third.
CROWDING_SLICE_S = 5.0
CROWDED_SLICE_S = 30.0
TIME_SLICE_S = 60.0
# These jobs wait for others, and fail if they save no step for so long. That includes the time for
# which a source asks to wait.
TYPES_READING_SOURCES = ("import", "test_connection")
MAX_STALL_S = 6 * 3600.0
# Pause after an error that is not the job's, doubled each time.
INITIAL_RETRY_S, MAX_RETRY_S = 1.0, 30.0
RELEASE_TIMEOUT_S = 2.0
REASON_MAX = 500
CRASH_REASON = (
    f"The process that ran the job ended {MAX_CRASHES} times, so the job is stopped. Its source "
    "may need too much memory. Resume it to try again."
)
# Shown as the requester of scheduled jobs.
SCHEDULE_ACTOR = "Schedule"
# A disabled destination sends nothing, so these jobs must wait.
TYPES_REQUIRING_ENABLED = ("replay", "retry_dead_letters")


@dataclass(slots=True, kw_only=True)
class _RunningJob:
    """`stalled_s` is how long it had run without a step before, until there is a context."""

    job: Job
    project_id: ProjectId
    task: asyncio.Task[None]
    since: float
    context: JobContext | None = None

    @property
    def stalled_s(self) -> float:
        return self.job.stalled_s if self.context is None else self.context.stalled_s

    @property
    def is_stalled(self) -> bool:
        return self.job.type in TYPES_READING_SOURCES and self.stalled_s > MAX_STALL_S


class JobRunner:
    """The jobs of one process. Projects take turns for the places. `runners` maps job types to
    functions; `on_error` receives unexpected exceptions."""

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
        self._running: dict[JobId, _RunningJob] = {}
        self._turns = Turns[ProjectId]()

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
        for id in [id for id, running in self._running.items() if running.task.done()]:
            self._running.pop(id).task.result()
        if self._running:
            held = await self._store.list_held(TYPES_REQUIRING_ENABLED)
            await self._stop([id for id in self._running if id not in held])
            await self._fail_stalled()
        if not await self._store.has_open():
            return
        waiting = await self._store.list_waiting(TYPES_REQUIRING_ENABLED, self._clock())
        if waiting.needs_recovery:
            await self._store.recover(self._clock())
        if crowded_out := await self._start_jobs(waiting.projects):
            await self._make_place(crowded_out)

    async def _start_jobs(self, projects: Sequence[ProjectId]) -> Sequence[ProjectId]:
        """Start waiting jobs, in turns. Return the projects for whose jobs there is no place."""
        waiting = list(projects)
        while startable := [project for project in waiting if self._has_place(project)]:
            project = self._turns.choose(startable)
            job = await self._store.acquire(TYPES_REQUIRING_ENABLED, self._clock(), project)
            if job is None:
                waiting.remove(project)
                continue
            self._turns.charge(project, 1)
            self._running[job.id] = _RunningJob(
                job=job,
                project_id=project,
                since=time.monotonic(),
                task=asyncio.create_task(self._run_until_ended(job), name=f"job {job.id}"),
            )
        return waiting

    def _has_place(self, project_id: ProjectId) -> bool:
        return self._count(project_id) < MAX_CONCURRENT_JOBS - len(self._running)

    def _count(self, project_id: ProjectId) -> int:
        return sum(running.project_id == project_id for running in self._running.values())

    async def _make_place(self, crowded_out: Sequence[ProjectId]) -> None:
        """Pause the longest-running job of the project with the most places, if it had its time."""
        if all(self._count(project) for project in crowded_out):
            largest, slice_s = crowded_out[0], TIME_SLICE_S
        else:
            largest = max((each.project_id for each in self._running.values()), key=self._count)
            slice_s = CROWDING_SLICE_S if self._count(largest) > 1 else CROWDED_SLICE_S
        oldest = min(
            (each for each in self._running.values() if each.project_id == largest),
            key=lambda each: each.since,
        )
        if time.monotonic() - oldest.since > slice_s:
            await self._stop([oldest.job.id])

    async def _fail_stalled(self) -> None:
        for id in [id for id, running in self._running.items() if running.is_stalled]:
            stalled = self._running.pop(id)
            await _cancel([stalled.task])
            hours = MAX_STALL_S / 3600
            reason = f"The job made no progress for {hours:.0f} h. Check the source, and resume it."
            await self._finish(stalled.job, reason)

    async def _stop(self, ids: list[JobId]) -> None:
        """Interrupt jobs and release those that this process still holds."""
        stopped = [self._running.pop(id) for id in ids]
        await _cancel([each.task for each in stopped])
        if stopped:
            stalled_s = {each.job.id: each.stalled_s for each in stopped}
            await self._store.release(stalled_s, self._clock())

    async def _close(self) -> None:
        ids = list(self._running)
        with contextlib.suppress(Unavailable, TimeoutError):  # the leases expire
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                await self._stop(ids)

    async def _run_until_ended(self, job: Job) -> None:
        pause_s = INITIAL_RETRY_S
        while True:
            try:
                await self._run_once(job)
                return
            except LeaseLost:
                return
            except Exception as error:  # noqa: BLE001 - retried: not an error of the job
                if not isinstance(error, Unavailable):
                    self._on_error(job.id, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MAX_RETRY_S)

    async def _run_once(self, job: Job) -> None:
        try:
            reason = await self._run_job(job)
        except JobPostponed as wait:
            await self._store.postpone(job.id, str(wait), wait.delay_s, self._clock())
        else:
            await self._finish(job, reason)

    async def _run_job(self, job: Job) -> str:
        """Run a job and return the reason of its failure; empty if it succeeded."""
        if job.crashes >= MAX_CRASHES:
            return CRASH_REASON
        mask = SecretMask()
        try:
            run_job, context = await self._prepare(job)
            mask = context.mask
            with work_for(name_sender(context.record.project_id)):
                await run_job(context)
        except (LeaseLost, JobPostponed, Unavailable):
            raise
        except AppError as error:
            setting = (error.attr or "").removeprefix("config__")
            reason = f"{setting}: {error.detail}" if setting else error.detail
            return mask.cut(reason, REASON_MAX)
        except (JobError, TransportError) as error:
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
        context = JobContext(job, record, component, settings, save)
        if running := self._running.get(job.id):
            running.context = context
        return run_job, context

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


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
