"""Admission by queue time: requests wait here for their handler, in one queue per kind of work.

Each iteration of the event loop parses and starts handlers for a short time only, so that the
server keeps accepting and reading. The queues take turns, and so do the senders inside a queue. A
sender that has more requests waiting than the process starts for it within MAX_WAIT_S is refused.
"""

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable, Hashable
from time import perf_counter

# Start handlers for this long, then read from the connections again.
SLICE_S = 0.01
# While requests on open connections are refused: reading and refusing evict from the CPU cache what
# handlers need, so that it pays to do both less often. All that is read waits longer for it.
REFUSING_SLICE_S = 0.02
# Handlers of probes and of the API run in tasks after the slice, so that it does not measure their
# time. So many of each may start in a slice.
MAX_STARTED_TASKS = 2
# Parse requests for this long, and leave the others for the next iteration.
READING_S = 0.005
# How long a request may wait for its handler to start.
MAX_WAIT_S = 0.1
# How long to count the started handlers of a queue that does not become empty.
WINDOW_S = 0.1
# So many requests may always wait: with fewer, the process pauses, but has not too much to do.
MIN_LIMIT = 32
# The surplus of a larger burst is refused.
MAX_LIMIT = 1000
# If more requests wait or run, their senders take turns. With fewer, it does not pay to find out
# who sends a request.
CROWD = 16
# Handlers of a queue that wait for a database or a disk at the same time. More would only wait
# there instead of here. A sender gets as many as it leaves for others.
MAX_RUNNING = 512

# Who sends a request: a project, or an address if the project is not known.
Sender = Hashable
Start = Callable[[], None]


class RequestQueue:
    """The waiting requests of one kind. `running` counts handlers that have started and wait for
    something else than their client."""

    __slots__ = (
        "_by_sender",
        "_reserved",
        "_running_by_sender",
        "_since",
        "_started",
        "_turns",
        "is_refusing",
        "limit",
        "max_running",
        "name",
        "refused",
        "running",
        "waiting",
    )

    def __init__(self, name: str, *, max_running: float = math.inf) -> None:
        self.name = name
        self.max_running = max_running
        self.waiting = 0
        self.running = 0
        # Refused requests since the last iteration of the event loop.
        self.refused = 0
        # Doubles whenever the queue becomes empty.
        self.limit = float(MAX_LIMIT)
        self.is_refusing = False
        # The senders that wait, the next one first, and the requests of each.
        self._turns: deque[tuple[Sender, deque[Start]]] = deque()
        self._by_sender: dict[Sender, deque[Start]] = {}
        self._running_by_sender: dict[Sender, int] = {}
        # Requests of connections that opened since the last slice.
        self._reserved: Counter[Sender] = Counter()
        # Handlers that started since then; None while the queue is empty.
        self._started = 0
        self._since: float | None = None

    def add(self, sender: Sender, start: Start) -> None:
        own = self._by_sender.get(sender)
        if own is None:
            own = self._by_sender[sender] = deque()
            self._turns.append((sender, own))
        own.append(start)
        self.waiting += 1

    def start_next(self) -> bool:
        """Start the request that waits for longest, of the next sender. Return False if none can
        start."""
        turns = self._turns
        for _ in range(len(turns)):
            sender, own = turns[0]
            if self._running_by_sender.get(sender, 0) >= self.max_running - self.running:
                turns.rotate(-1)
                continue
            start = own.popleft()
            if own:
                turns.rotate(-1)
            else:
                turns.popleft()
                del self._by_sender[sender]
            self.waiting -= 1
            self._started += 1
            start()
            return True
        return False

    def refuses(self, sender: Sender) -> bool:
        """Whether a sender uses its share of a queue that is too long. The share is the same for
        all senders, so that each waits for itself."""
        if not self.is_refusing:
            return False
        own = len(self._by_sender.get(sender, ()))
        return own * len(self._turns) >= self.limit or self.waiting >= 2 * self.limit

    def reserve(self, sender: Sender) -> bool:
        """Reserve a place until the next slice, for the request of a new connection. Return False
        if the sender has used its share."""
        own = len(self._by_sender.get(sender, ())) + self._reserved[sender]
        senders = max(len(self._turns), len(self._reserved))
        if own * senders >= self.limit or self.refuses(sender):
            return False
        self._reserved[sender] += 1
        return True

    def end_reservations(self) -> None:
        if self._reserved:
            self._reserved.clear()

    def begin(self, sender: Sender) -> None:
        self.running += 1
        self._running_by_sender[sender] = self._running_by_sender.get(sender, 0) + 1

    def end(self, sender: Sender) -> None:
        self.running -= 1
        self._running_by_sender[sender] -= 1
        if not self._running_by_sender[sender]:
            del self._running_by_sender[sender]

    def update(self, now: float) -> None:
        """Compute how many requests may wait, after a slice."""
        if not self.waiting:
            self.limit = min(MAX_LIMIT, self.limit * 2)
            self._since = None
        elif self._since is None:
            self._started, self._since = 0, now
        elif now - self._since > WINDOW_S:
            measured = self._started / (now - self._since) * MAX_WAIT_S
            # The process may have paused. That must not halve it again and again.
            self.limit = min(MAX_LIMIT, max(MIN_LIMIT, self.limit / 2, measured))
            self._started, self._since = 0, now
        self.is_refusing = self.waiting >= self.limit


class RequestQueues:
    """All queues of a process. `on_refusal` receives the name of a queue and the number of requests
    that it refused."""

    def __init__(self, on_refusal: Callable[[str, int], None] = lambda _, __: None) -> None:
        self.probes = RequestQueue("probes")
        self.capture = RequestQueue("capture", max_running=MAX_RUNNING)
        self.flags = RequestQueue("flags", max_running=MAX_RUNNING)
        # These have limits of their own, and some take long: queries, exports, streams.
        self.api = RequestQueue("api")
        # Bytes that are not parsed yet.
        self.unparsed = RequestQueue("unparsed")
        # Connections whose requests were refused since the last slice, and what they are sent.
        self._refused: list[asyncio.Transport] = []
        self._refusal = b""
        self._taking_turns = (self.capture, self.flags, self.api)
        self.is_refusing = False
        # Whether so many requests wait that it matters whose turn it is.
        self.is_crowded = False
        self._on_refusal = on_refusal
        self._is_scheduled = False
        # Whether requests still waited after the last slice.
        self._has_waiting = False
        # When this iteration has parsed for long enough; None if it has not begun.
        self._parsing_ends: float | None = None

    @property
    def waiting(self) -> int:
        return sum(queue.waiting for queue in self._taking_turns)

    @property
    def running(self) -> int:
        return sum(queue.running for queue in self._taking_turns)

    def add(self, queue: RequestQueue, sender: Sender, start: Start) -> None:
        """Add a request. Its handler starts after all sockets are read: alternating between parsing
        and handling is slower, because each evicts the other from the CPU cache."""
        queue.add(sender, start)
        if queue.waiting > CROWD:
            self.is_crowded = True
            if queue.waiting >= queue.limit:
                self.is_refusing = queue.is_refusing = True
        self._schedule()

    def reserve(self, queue: RequestQueue, sender: Sender) -> bool:
        """Reserve a place for the request of a new connection. Return False if there is none."""
        self._schedule()
        return queue.reserve(sender)

    def refuse(self, queue: RequestQueue, transport: asyncio.Transport, refusal: bytes) -> None:
        """Send a refusal before the next slice. Sending those of an iteration one after the other
        takes less time: sending evicts from the CPU cache what reading needs."""
        queue.refused += 1
        self._refused.append(transport)
        self._refusal = refusal
        self._schedule()

    def begin(self, queue: RequestQueue, sender: Sender) -> None:
        """Count a handler that waits for something else than its client."""
        queue.begin(sender)
        if queue.running > CROWD:
            self.is_crowded = True

    def end(self, queue: RequestQueue, sender: Sender) -> None:
        queue.end(sender)
        if queue.waiting:
            self._schedule()

    def can_parse(self) -> bool:
        """Whether this iteration has time left to parse requests, and none waits for that."""
        if self.unparsed.waiting:
            return False
        now = perf_counter()
        if self._parsing_ends is None:
            self._parsing_ends = now + READING_S
            self._schedule()
        return now < self._parsing_ends

    def _schedule(self) -> None:
        """Run one slice in the next iteration, after the sockets are read."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run_slice)

    def _run_slice(self) -> None:
        self._is_scheduled = False
        self._parsing_ends = None
        slice_s = REFUSING_SLICE_S if self._refused else SLICE_S
        self.send_refusals()
        for queue in self._taking_turns:
            queue.end_reservations()
        if self.unparsed.waiting:
            self._parse()
        probes, capture, flags, api = self.probes, self.capture, self.flags, self.api
        deadline = perf_counter() + slice_s
        rounds_with_tasks = MAX_STARTED_TASKS
        # No short circuit between the queues: each starts one.
        while (
            (rounds_with_tasks > 0 and probes.start_next())
            | capture.start_next()
            | flags.start_next()
            | (rounds_with_tasks > 0 and api.start_next())
        ):
            rounds_with_tasks -= 1
            if perf_counter() > deadline:
                self._schedule()
                break
        if probes.waiting or api.waiting:
            self._schedule()
        if self._has_waiting or self.is_crowded or capture.waiting or flags.waiting or api.waiting:
            self._update()

    def send_refusals(self) -> None:
        if self._refused:
            refused, self._refused = self._refused, []
            for transport in refused:
                if not transport.is_closing():
                    transport.write(self._refusal)

    def _parse(self) -> None:
        deadline = perf_counter() + READING_S
        while self.unparsed.start_next():
            if perf_counter() > deadline:
                break
        if self.unparsed.waiting:
            self._schedule()

    def _update(self) -> None:
        now = perf_counter()
        self.is_refusing = False
        waiting = self.waiting
        self._has_waiting = waiting > 0
        self.is_crowded = waiting + self.running + self.unparsed.waiting > CROWD
        for queue in self._taking_turns:
            queue.update(now)
            self.is_refusing |= queue.is_refusing
            if queue.refused:
                self._on_refusal(queue.name, queue.refused)
                queue.refused = 0
