"""Admission by queue time: requests wait here for their handler, in one queue per kind of work.

Each iteration of the event loop starts handlers for a short time only, so that the server keeps
accepting and reading. Health checks go first, the queues take turns. If a queue holds more requests
than the process starts within MAX_WAIT_S, new requests of that queue are refused unread.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

# Start handlers for this long, then read from the connections again.
SLICE_S = 0.01
# How long a request may wait for its handler to start.
MAX_WAIT_S = 0.1
# How long to count the started handlers of a queue that does not become empty.
WINDOW_S = 0.1
# So many requests may always wait: with fewer, the process pauses, but has not too much to do.
MIN_LIMIT = 32
# Handlers of a queue that wait for a database or a disk at the same time. More would only wait
# there instead of here.
MAX_RUNNING = 256


class QueuedRequest(Protocol):
    """A request that waits. `start` starts its handler, unless its client is gone."""

    def start(self) -> None: ...


class RequestQueue:
    """The waiting requests of one kind. `running` counts handlers that have started and wait for
    something else than their client."""

    __slots__ = (
        "_since",
        "_started",
        "is_refusing",
        "limit",
        "max_running",
        "name",
        "refused",
        "running",
        "waiting",
    )

    def __init__(self, name: str, *, max_running: float) -> None:
        self.name = name
        self.max_running = max_running
        self.waiting: deque[QueuedRequest] = deque()
        self.running = 0
        # Refused requests since the last iteration of the event loop.
        self.refused = 0
        # Unlimited while the queue becomes empty from time to time.
        self.limit = math.inf
        self.is_refusing = False
        # Handlers that started since then; None while the queue is empty.
        self._started = 0
        self._since: float | None = None

    def start_next(self) -> bool:
        """Start the handler that waits for longest. Return False if none can start."""
        if not self.waiting or self.running >= self.max_running:
            return False
        self._started += 1
        self.waiting.popleft().start()
        return True

    def update(self, now: float) -> None:
        """Compute how many requests may wait, after a slice."""
        if not self.waiting:
            self.limit, self._since = math.inf, None
        elif self._since is None:
            self._started, self._since = 0, now
        elif now - self._since > WINDOW_S:
            self.limit = max(MIN_LIMIT, self._started / (now - self._since) * MAX_WAIT_S)
            self._started, self._since = 0, now
        self.is_refusing = len(self.waiting) >= self.limit


class RequestQueues:
    """All queues of a process. `on_refusal` receives the name of a queue and the number of requests
    that it refused."""

    def __init__(self, on_refusal: Callable[[str, int], None] = lambda _, __: None) -> None:
        self.probes = RequestQueue("probes", max_running=math.inf)
        self.capture = RequestQueue("capture", max_running=MAX_RUNNING)
        self.flags = RequestQueue("flags", max_running=MAX_RUNNING)
        # These have limits of their own, and some take long: queries, exports, streams.
        self.api = RequestQueue("api", max_running=math.inf)
        self._taking_turns = (self.capture, self.flags, self.api)
        self.is_refusing = False
        self._on_refusal = on_refusal
        self._is_scheduled = False
        # Whether requests still waited after the last slice.
        self._has_waiting = False

    @property
    def waiting(self) -> int:
        return sum(len(queue.waiting) for queue in self._taking_turns)

    @property
    def running(self) -> int:
        return sum(queue.running for queue in self._taking_turns)

    def add(self, queue: RequestQueue, request: QueuedRequest) -> None:
        """Add a request. Its handler starts after all sockets are read: alternating between parsing
        and handling is slower, because each evicts the other from the CPU cache."""
        queue.waiting.append(request)
        if len(queue.waiting) >= queue.limit:
            self.is_refusing = queue.is_refusing = True
        if not self._is_scheduled:
            self._schedule()

    def begin(self, queue: RequestQueue) -> None:
        """Count a handler that waits for something else than its client."""
        queue.running += 1

    def end(self, queue: RequestQueue) -> None:
        queue.running -= 1
        if queue.waiting and not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._run_slice)

    def _run_slice(self) -> None:
        self._is_scheduled = False
        while self.probes.start_next():
            pass
        capture, flags, api = self.capture, self.flags, self.api
        deadline = perf_counter() + SLICE_S
        # No short circuit: each queue starts one.
        while capture.start_next() | flags.start_next() | api.start_next():
            if perf_counter() > deadline:
                self._schedule()
                break
        if self._has_waiting or capture.waiting or flags.waiting or api.waiting:
            self._update()

    def _update(self) -> None:
        now = perf_counter()
        self.is_refusing = False
        self._has_waiting = self.waiting > 0
        for queue in self._taking_turns:
            queue.update(now)
            self.is_refusing |= queue.is_refusing
            if queue.refused:
                self._on_refusal(queue.name, queue.refused)
                queue.refused = 0
