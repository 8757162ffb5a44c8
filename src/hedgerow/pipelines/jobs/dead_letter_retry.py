"""The job that retries dead letters of a destination: those that exist when it starts.

Each step makes some of them due again. A step that is interrupted is repeated, which retries none
of them twice unless it failed again in between.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from hedgerow.lib.clock import Clock
from hedgerow.pipelines.deliveries.model import LogLevel, LogLine
from hedgerow.pipelines.jobs.running import JobContext, JobStep
from hedgerow.pipelines.model import RecordId

# Dead letters per step; the job waits while more deliveries than the maximum are due again.
STEP_SIZE = 500
MAX_RETRYING = 5000
POLL_INTERVAL_S = 0.5


class DeadLetterSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of events with ids above `after`, up to `newest`, and with this error if there
    is one. Stored in the cursor of jobs."""

    newest: int
    after: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriedLetters:
    """The number of dead letters of a step, and the id of the last one."""

    count: int
    last_id: int


class DeadLetterQueue(Protocol):
    async def find_newest(self, record_id: RecordId) -> int:
        """Return the id of the newest event that any destination gets."""
        ...

    async def count(self, record_id: RecordId, span: DeadLetterSpan) -> int: ...

    async def count_retrying(self, record_id: RecordId, at_most: int) -> int: ...

    async def retry(
        self, record_id: RecordId, span: DeadLetterSpan, limit: int, now_ms: int
    ) -> RetriedLetters | None:
        """Make the oldest dead letters of a span due now, and end a pause of the destination. None
        if none is left."""
        ...


class DeadLetterRetry:
    """`wake` receives the records that have deliveries due."""

    def __init__(
        self, queue: DeadLetterQueue, wake: Callable[[Iterable[RecordId]], None], clock: Clock
    ) -> None:
        self._queue = queue
        self._wake = wake
        self._clock = clock

    async def run(self, context: JobContext) -> None:
        record_id, done = context.record.id, context.job.done
        span, total = await self._start(context)
        while True:
            await self._wait_for_space(record_id)
            now_ms = int(self._clock().timestamp() * 1000)
            retried = await self._queue.retry(record_id, span, STEP_SIZE, now_ms)
            if retried is None:
                break
            done += retried.count
            span = msgspec.structs.replace(span, after=retried.last_id)
            await self._save(context, span, done, max(total, done))
            self._wake([record_id])
        line = LogLine(level=LogLevel.INFO, message=f"{done} dead letters are retried.")
        await self._save(context, span, done, done, [line])

    async def _start(self, context: JobContext) -> tuple[DeadLetterSpan, int]:
        job = context.job
        if job.cursor is not None:
            return msgspec.convert(job.cursor, DeadLetterSpan), job.total or 0
        newest = await self._queue.find_newest(context.record.id)
        span = DeadLetterSpan(newest=newest, error=job.payload.get("error") or "")
        total = await self._queue.count(context.record.id, span)
        await self._save(context, span, 0, total)
        return span, total

    async def _save(
        self,
        context: JobContext,
        span: DeadLetterSpan,
        done: int,
        total: int,
        logs: Iterable[LogLine] = (),
    ) -> None:
        cursor = msgspec.to_builtins(span)
        await context.save(JobStep(cursor=cursor, done=done, total=total, logs=list(logs)))

    async def _wait_for_space(self, record_id: RecordId) -> None:
        while await self._queue.count_retrying(record_id, MAX_RETRYING) >= MAX_RETRYING:
            await asyncio.sleep(POLL_INTERVAL_S)
