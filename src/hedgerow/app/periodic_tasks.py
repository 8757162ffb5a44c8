"""Periodic background tasks: run each at its interval, back off after failures, until cancelled."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from hedgerow.errors import Unavailable

MAX_BACKOFF_S = 30.0
# A task that runs this long after a failure counts as healthy again.
RECOVERED_AFTER_S = 60.0

_log = structlog.get_logger("hedgerow.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicTask:
    """A task that runs again and again. `run` must be safe to repeat from any point."""

    name: str
    interval_s: float
    run: Callable[[], Awaitable[None]]
    # False for tasks that must notice a recovery at once: they keep their interval after failures.
    has_backoff: bool = True
    max_backoff_s: float = MAX_BACKOFF_S


class TaskHealth:
    """Which tasks failed in their last run, for metrics."""

    def __init__(self) -> None:
        # Start time of the current run, None while the task waits for its next run.
        self._failed: dict[str, float | None] = {}

    def record_start(self, task: PeriodicTask) -> None:
        if task.name in self._failed:
            self._failed[task.name] = time.monotonic()

    def record_end(self, task: PeriodicTask, *, failed: bool) -> None:
        self._failed.pop(task.name, None)
        if failed:
            self._failed[task.name] = None

    def failing_count(self) -> int:
        """Count failing tasks. A task that has been running for a while counts as recovered."""
        threshold = time.monotonic() - RECOVERED_AFTER_S
        return sum(started is None or started > threshold for started in self._failed.values())


async def run_tasks(tasks: Sequence[PeriodicTask], health: TaskHealth | None = None) -> None:
    """Run all tasks concurrently until cancelled."""
    health = health or TaskHealth()
    async with asyncio.TaskGroup() as group:
        for task in tasks:
            group.create_task(_run_forever(task, health), name=task.name)


async def _run_forever(task: PeriodicTask, health: TaskHealth) -> None:
    failures = 0
    while True:
        started = time.monotonic()
        health.record_start(task)
        try:
            await _run_once(task)
        except Exception as error:  # noqa: BLE001 - the background loop must survive any failure
            failures += 1
            health.record_end(task, failed=True)
            _log_failure(task, error, failures)
        else:
            if failures:
                _log.info("background task recovered", task=task.name, failures=failures)
            failures = 0
            health.record_end(task, failed=False)
        await asyncio.sleep(max(0.0, _delay_s(task, failures) - (time.monotonic() - started)))


async def _run_once(task: PeriodicTask) -> None:
    """Treat a cancellation from within the task as a failure, so that the task runs again."""
    try:
        await task.run()
    except asyncio.CancelledError as error:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        raise RuntimeError("an awaitable inside the background task was cancelled") from error


def _delay_s(task: PeriodicTask, failures: int) -> float:
    if not failures or not task.has_backoff:
        return task.interval_s
    backoff_s = task.interval_s * 2.0 ** min(failures, 20)
    return max(task.interval_s, min(backoff_s, task.max_backoff_s))


def _log_failure(task: PeriodicTask, error: Exception, failures: int) -> None:
    if isinstance(error, Unavailable):
        if failures == 1:
            _log.warning("background task is waiting", task=task.name, reason=error.detail)
    elif failures & (failures - 1) == 0:  # log the 1st, 2nd, 4th, 8th … failure to limit volume
        _log.error("background task failed", task=task.name, failures=failures, exc_info=error)
