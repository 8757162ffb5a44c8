"""A bounded pool of worker processes for requests whose cost a client decides.

Senders take turns, so that one sender cannot keep the processes from the others.
"""

import asyncio
from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass

from hedgerow.lib.threads import ThreadLimiter
from hedgerow.lib.worker_process import WorkerProcess


class PoolFull(Exception):
    """Too many requests are waiting, of this sender or in total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """`max_waiting` and `max_waiting_per_sender` bound the queue, and so the bodies in memory. A
    process that exceeds `timeout_s` or `max_memory_bytes` is killed and replaced."""

    max_processes: int
    max_waiting: int
    max_waiting_per_sender: int
    timeout_s: float
    max_memory_bytes: int
    start_timeout_s: float = 60.0


class WorkerPool:
    """Runs requests in processes of `module`, which start on demand."""

    def __init__(self, module: str, limits: PoolLimits) -> None:
        self._limits = limits
        self._idle = [
            WorkerProcess(
                module,
                start_timeout_s=limits.start_timeout_s,
                response_timeout_s=limits.timeout_s,
                max_memory_bytes=limits.max_memory_bytes,
            )
            for _ in range(limits.max_processes)
        ]
        self._workers = tuple(self._idle)
        # A killed request holds its thread for a moment longer than its turn.
        self._threads = ThreadLimiter(2 * limits.max_processes)
        self._waiting: OrderedDict[str, deque[asyncio.Future[WorkerProcess]]] = OrderedDict()
        self._waiting_count = 0

    async def request(self, body: bytes, sender: str) -> bytes:
        """Return the response of a worker. Raises PoolFull at once if the queue is full, and
        WorkerDied if the request exceeded its limits. A cancelled request is killed."""
        worker = self._idle.pop() if self._idle else await self._wait_for_worker(sender)
        try:
            return await self._threads.run(lambda: worker.request(body))
        except asyncio.CancelledError:
            worker.kill()
            raise
        finally:
            self._release(worker)

    def close(self) -> None:
        """Kill all processes. Requests in progress raise WorkerDied."""
        for worker in self._workers:
            worker.close()

    async def _wait_for_worker(self, sender: str) -> WorkerProcess:
        queue = self._waiting.get(sender, deque())
        is_full = self._waiting_count >= self._limits.max_waiting
        if is_full or len(queue) >= self._limits.max_waiting_per_sender:
            raise PoolFull
        self._waiting[sender] = queue
        turn: asyncio.Future[WorkerProcess] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self._waiting_count += 1
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(turn.result())
            else:
                self._forget(sender, turn)
            raise

    def _release(self, worker: WorkerProcess) -> None:
        """Give the worker to the next sender, in turn, or keep it idle."""
        while self._waiting:
            sender, queue = self._waiting.popitem(last=False)
            turn = queue.popleft()
            self._waiting_count -= 1
            if queue:
                self._waiting[sender] = queue  # behind the other senders
            if not turn.done():
                turn.set_result(worker)
                return
        self._idle.append(worker)

    def _forget(self, sender: str, turn: asyncio.Future[WorkerProcess]) -> None:
        queue = self._waiting.get(sender, deque())
        with suppress(ValueError):  # already taken out by _release
            queue.remove(turn)
            self._waiting_count -= 1
        if not queue:
            self._waiting.pop(sender, None)
