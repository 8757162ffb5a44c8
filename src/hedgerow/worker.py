"""The loop behind the requests: do each chore when it is due, note what fails, stop when told."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from hedgerow.errors import Unavailable

# After a failure a chore waits longer each time, up to this.
MAX_PAUSE_S = 30.0
# What goes on for so long after a failure works again.
MENDED_S = 60.0

_log = structlog.get_logger("hedgerow.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chore:
    """Something to be done again and again. `run` must be safe to repeat from any point."""

    name: str
    every_s: float
    run: Callable[[], Awaitable[None]]
    # A chore that must notice within moments that things work again does not slow down.
    backs_off: bool = True
    max_pause_s: float = MAX_PAUSE_S


class Failing:
    """Which chores failed at their last turn, for whoever watches over the process."""

    def __init__(self) -> None:
        # Since when they are at it again; None while they wait for that.
        self._failed: dict[str, float | None] = {}

    def began(self, chore: Chore) -> None:
        if chore.name in self._failed:
            self._failed[chore.name] = time.monotonic()

    def ended(self, chore: Chore, *, failed: bool) -> None:
        self._failed.pop(chore.name, None)
        if failed:
            self._failed[chore.name] = None

    def number(self) -> int:
        """Some chores go on until they fail: after a while they count as mended."""
        mended = time.monotonic() - MENDED_S
        return sum(since is None or since > mended for since in self._failed.values())


async def work(chores: Sequence[Chore], failing: Failing | None = None) -> None:
    """Run all chores side by side until cancelled."""
    failing = failing or Failing()
    async with asyncio.TaskGroup() as group:
        for chore in chores:
            group.create_task(_repeat(chore, failing), name=chore.name)


async def _repeat(chore: Chore, failing: Failing) -> None:
    failures = 0
    while True:
        started = time.monotonic()
        failing.began(chore)
        try:
            await _turn(chore)
        except Exception as error:  # noqa: BLE001 - the worker loop: one of three places
            failures += 1
            failing.ended(chore, failed=True)
            _tell(chore, error, failures)
        else:
            if failures:
                _log.info("chore works again", chore=chore.name, failures=failures)
            failures = 0
            failing.ended(chore, failed=False)
        await asyncio.sleep(max(0.0, _pause_s(chore, failures) - (time.monotonic() - started)))


async def _turn(chore: Chore) -> None:
    """A chore that is cancelled from within has failed: unseen, it would never run again."""
    try:
        await chore.run()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("something that the chore waited for was cancelled") from error


def _pause_s(chore: Chore, failures: int) -> float:
    if not failures or not chore.backs_off:
        return chore.every_s
    return max(chore.every_s, min(chore.every_s * 2.0 ** min(failures, 20), chore.max_pause_s))


def _tell(chore: Chore, error: Exception, failures: int) -> None:
    if isinstance(error, Unavailable):
        if failures == 1:
            _log.warning("chore has to wait", chore=chore.name, reason=error.detail)
    elif failures & (failures - 1) == 0:  # the 1st, 2nd, 4th, 8th …: a lasting defect is no flood
        _log.error("chore failed", chore=chore.name, failures=failures, exc_info=error)
