"""The loop behind the requests: do each chore when it is due, note what fails, stop when told."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from hedgerow.errors import Unavailable

# After a failure a chore waits longer each time, up to this.
MAX_PAUSE_S = 30.0

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


async def work(chores: Sequence[Chore]) -> None:
    """Run all chores side by side until cancelled."""
    async with asyncio.TaskGroup() as group:
        for chore in chores:
            group.create_task(_repeat(chore), name=chore.name)


async def _repeat(chore: Chore) -> None:
    failures = 0
    while True:
        started = time.monotonic()
        try:
            await chore.run()
        except Exception as error:  # noqa: BLE001 - the worker loop: one of three places
            failures += 1
            _tell(chore, error, failures)
        else:
            if failures:
                _log.info("chore works again", chore=chore.name, failures=failures)
            failures = 0
        await asyncio.sleep(max(0.0, _pause_s(chore, failures) - (time.monotonic() - started)))


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
