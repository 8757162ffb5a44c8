"""The loop that runs jobs: takes what waits, some at a time, each in a task of its own.

Whatever a job does, it ends that job alone. One that is broken off anywhere goes on from its last
step: in this process, after a restart, or in another one that takes it over.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping

from hedgerow.errors import AppError, Unavailable
from hedgerow.lib.clock import Clock
from hedgerow.lib.text import storable_text
from hedgerow.pipelines.audit import SCOPE
from hedgerow.pipelines.deliveries import LogLevel, LogLine
from hedgerow.pipelines.model import Job, JobId, JobProblem, JobStatus, Record
from hedgerow.pipelines.records import Records
from hedgerow.pipelines.running import (
    Ending,
    Held,
    NoLongerOurs,
    RunningJobs,
    Step,
    Work,
)
from hedgerow.pipelines.sending import CannotSend
from hedgerow.projects.activity import SYSTEM, Entry

LOOK_S = 0.5
KEEP_EVERY_S = 5.0
# So many jobs of one process at a time; if more wait, one gives way after so long.
AT_ONCE = 8
SLICE_S = 60.0
# What is away is tried again after so long, and longer each time.
RETRY_S, MAX_RETRY_S = 1.0, 30.0
LET_GO_S = 0.5
REASON_MAX = 500
# Who asked for a job that nobody asked for.
SCHEDULE = "Schedule"
# A disabled destination sends nothing, so its replay waits.
WAITS_UNTIL_ENABLED = ("replay",)


class JobRunner:
    """One process's jobs. `works` are the kinds of jobs by their type; `note` hears of defects."""

    def __init__(
        self,
        store: RunningJobs,
        records: Records,
        works: Mapping[str, Work],
        clock: Clock,
        note: Callable[[JobId, BaseException], None],
    ) -> None:
        self._store = store
        self._records = records
        self._works = works
        self._clock = clock
        self._note = note
        self._running: dict[JobId, asyncio.Task[None]] = {}
        self._since: dict[JobId, float] = {}

    async def run(self) -> None:
        """Take and look after jobs, until cancelled."""
        try:
            while True:
                with contextlib.suppress(Unavailable):  # jobs go on with what they know
                    await self._look()
                await asyncio.sleep(LOOK_S)
        finally:
            await self._close()

    async def keep(self) -> None:
        """Whoever takes long over a step has not died over it."""
        if self._running:
            await self._store.keep()

    async def _look(self) -> None:
        for id in [id for id, task in self._running.items() if task.done()]:
            self._running.pop(id).result()
            self._since.pop(id, None)
        if self._running:
            ours = await self._store.ours(WAITS_UNTIL_ENABLED)
            await self._stop([id for id in self._running if id not in ours])
        if not await self._store.has_open():
            return
        while len(self._running) < AT_ONCE:
            job = await self._store.take(WAITS_UNTIL_ENABLED, self._clock())
            if job is None:
                return
            self._since[job.id] = time.monotonic()
            self._running[job.id] = asyncio.create_task(self._one(job), name=f"job {job.id}")
        oldest = min(self._running, key=lambda id: self._since[id])
        if time.monotonic() - self._since[oldest] > SLICE_S and await self._store.has_waiting():
            await self._stop([oldest])

    async def _stop(self, ids: list[JobId]) -> None:
        """Break jobs off; those that are still ours wait for their turn again."""
        tasks = [self._running.pop(id) for id in ids]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for id in ids:
            self._since.pop(id, None)
        if ids:
            await self._store.give_back(ids, self._clock())

    async def _close(self) -> None:
        ids = list(self._running)
        with contextlib.suppress(Unavailable, TimeoutError):  # others take over by themselves
            async with asyncio.timeout(LET_GO_S):
                await self._stop(ids)

    async def _one(self, job: Job) -> None:
        pause_s = RETRY_S
        while True:
            try:
                await self._ended(job, await self._outcome(job))
                return
            except NoLongerOurs:
                return
            except Exception as error:  # noqa: BLE001 - the job is not to blame, and not its fellows
                if not isinstance(error, Unavailable):
                    self._note(job.id, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MAX_RETRY_S)

    async def _outcome(self, job: Job) -> str:
        """Why it failed; nothing if it did not."""
        try:
            await self._work(job)
        except (NoLongerOurs, Unavailable):
            raise
        except AppError as error:
            setting = (error.attr or "").removeprefix("config__")
            return f"{setting}: {error.detail}" if setting else error.detail
        except (JobProblem, CannotSend) as reason:
            return str(reason)
        except BaseException as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._note(job.id, error)
            return f"The component failed: {type(error).__name__}"
        return ""

    async def _work(self, job: Job) -> None:
        # As it is stored by now: what was broken off goes on where it stopped.
        job, record = await self._store.current(job.id)
        component = self._records.component(record)
        work = self._works.get(job.type)
        if component is None:
            raise JobProblem("The component of this record is not installed.")
        if work is None:
            raise JobProblem(f'Nobody here knows how to run "{job.type}".')

        async def save(step: Step, rate: float) -> bool:
            return await self._store.save(job.id, step, rate, self._clock())

        await work(Held(job, record, component, self._records.usable_settings(record), save))

    async def _ended(self, job: Job, reason: str) -> None:
        reason = storable_text(reason[:REASON_MAX])
        if reason:
            line = LogLine(level=LogLevel.ERROR, message=f"Job {job.type} failed: {reason}")
        else:
            line = LogLine(level=LogLevel.INFO, message=f"Job {job.type} is done.")
        is_told = bool(reason) or job.requested_by != SCHEDULE
        job, record = await self._store.current(job.id)
        ending = Ending(
            status=JobStatus.FAILED if reason else JobStatus.DONE,
            error=reason,
            logs=[line],
            entry=self._entry(job, record, reason) if is_told else None,
        )
        await self._store.end(job.id, ending, self._clock())

    def _entry(self, job: Job, record: Record, reason: str) -> Entry:
        component = self._records.component(record)
        trigger = {"job_type": job.type, "job_id": job.id, "payload": dict(job.payload)}
        return Entry(
            scope=SCOPE,
            item_id=str(record.id),
            item_name=record.name or (component.name if component else ""),
            activity="job_failed" if reason else "job_done",
            actor=SYSTEM,
            project_id=record.project_id,
            detail={"trigger": trigger} | ({"reason": reason} if reason else {}),
        )
