"""A bounded pool of worker processes for requests whose cost a client decides.

Senders take turns, so that one sender cannot keep the processes from the others.
"""

import asyncio
from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass

from hedgerow.lib.threads import ThreadLimiter
from hedgerow.lib.workers.process import WorkerProcess


class PoolFull(Exception):
    """Too many requests are waiting, of this sender or in total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """`max_waiting` and `max_waiting_per_sender` bound the queue, and so the bodies in memory. With
    `max_running_per_sender`, one sender leaves processes to the others; 0 means no limit. A
    process that exceeds `timeout_s` or `max_memory_bytes` is killed and replaced."""

    max_processes: int
    max_waiting: int
    max_waiting_per_sender: int
    timeout_s: float
    max_memory_bytes: int
    start_timeout_s: float = 60.0
    max_running_per_sender: int = 0


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
        self._running_by_sender: dict[str, int] = {}

    async def request(self, body: bytes, sender: str) -> bytes:
        """Return the response of a worker. Raises PoolFull at once if the queue is full, and
        WorkerDied if the request exceeded its limits. A cancelled request is killed."""
        if self._idle and self._can_run(sender):
            worker = self._idle.pop()
            self._count_running(sender, 1)
        else:
            worker = await self._wait_for_worker(sender)
        try:
            return await self._threads.run(lambda: worker.request(body))
        except asyncio.CancelledError:
            worker.kill()
            raise
        finally:
            self._release(worker, sender)

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
                self._release(turn.result(), sender)
            else:
                self._forget(sender, turn)
            raise

    def _can_run(self, sender: str) -> bool:
        limit = self._limits.max_running_per_sender
        return not limit or self._running_by_sender.get(sender, 0) < limit

    def _count_running(self, sender: str, change: int) -> None:
        running = self._running_by_sender.pop(sender, 0) + change
        if running:
            self._running_by_sender[sender] = running

    def _release(self, worker: WorkerProcess, sender: str) -> None:
        """Give the worker to the next sender, in turn, or keep it idle."""
        self._count_running(sender, -1)
        while (turn := self._take_next_turn()) is not None:
            if not turn.done():
                turn.set_result(worker)
                return
        self._idle.append(worker)

    def _take_next_turn(self) -> asyncio.Future[WorkerProcess] | None:
        for sender in self._waiting:
            if self._can_run(sender):
                queue = self._waiting.pop(sender)
                turn = queue.popleft()
                self._waiting_count -= 1
                if queue:
                    self._waiting[sender] = queue  # behind the other senders
                if not turn.done():
                    self._count_running(sender, 1)
                return turn
        return None

    def _forget(self, sender: str, turn: asyncio.Future[WorkerProcess]) -> None:
        queue = self._waiting.get(sender, deque())
        with suppress(ValueError):  # already taken out by _release
            queue.remove(turn)
            self._waiting_count -= 1
        if not queue:
            self._waiting.pop(sender, None)
