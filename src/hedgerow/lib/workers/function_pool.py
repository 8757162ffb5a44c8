"""Functions whose cost a client decides, in worker processes with limits."""

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

from hedgerow.lib.threads import run_in_thread
from hedgerow.lib.workers.pool import PoolLimits, WorkerPool

WORKER_MODULE = "hedgerow.lib.workers.function_host"

T = TypeVar("T")


class FunctionPool:
    """Runs functions of modules, or partials of them, whose arguments and results can be
    pickled. See WorkerPool for the limits."""

    def __init__(self, limits: PoolLimits) -> None:
        self._pool = WorkerPool(WORKER_MODULE, limits)

    async def run(self, function: Callable[[], T], sender: str) -> T:
        """Return the result or raise the error of the function. Raises PoolFull and WorkerDied."""
        request = await run_in_thread(lambda: pickle.dumps(function))
        response = await self._pool.request(request, sender)
        is_success, answer = await run_in_thread(lambda: _load(response))
        if not is_success:
            raise answer
        result: T = answer
        return result

    def close(self) -> None:
        self._pool.close()


def _load(response: bytes) -> tuple[bool, Any]:
    answer: tuple[bool, Any] = pickle.loads(response)  # noqa: S301 - from a process of ours
    return answer
