"""Fair queues: whatever waits takes turns by project, or by another key, so that none waits for the
backlog of a neighbor.

`Turns` chooses whose work is next, for work that is fetched. `Places` limits how much runs at the
same time, for work that waits in this process. Both are start-time fair queues.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# Forget the keys that have had no turn for a while when there are twice as many as this.
MIN_REMEMBERED_KEYS = 256


def weigh_equally(_: Hashable) -> float:
    return 1.0


class Turns(Generic[K]):
    """Orders keys by the work that each has had. `weight_of` returns the share of a key: one of
    weight 2 gets twice as much as one of weight 1, while both wait. A key that has not waited for a
    while is not owed anything: it is next, once."""

    def __init__(self, weight_of: Callable[[K], float] = weigh_equally) -> None:
        self._weight_of = weight_of
        # The virtual time: where the work began that began last. And where that of each key ends.
        self._now = 0.0
        self._ends: dict[K, float] = {}
        self._max_remembered = 2 * MIN_REMEMBERED_KEYS

    def sort(self, waiting: Iterable[K]) -> list[K]:
        """Return the keys, the next one first. Those that are equal keep their order."""
        return sorted(waiting, key=self._get_start)

    def choose(self, waiting: Iterable[K]) -> K:
        """Return the next key."""
        return min(waiting, key=self._get_start)

    def charge(self, key: K, cost: float) -> None:
        """Count work of a key, in any unit that is the same for all keys."""
        start = self._get_start(key)
        self._now = max(self._now, start)
        self._ends[key] = start + cost / self._weight_of(key)
        if len(self._ends) > self._max_remembered:
            self._ends = {key: end for key, end in self._ends.items() if end > self._now}
            self._max_remembered = 2 * max(MIN_REMEMBERED_KEYS, len(self._ends))

    def _get_start(self, key: K) -> float:
        return max(self._ends.get(key, 0.0), self._now)


class Places(Generic[K]):
    """A limit on what runs at the same time. A key gets as many places as it leaves free, and at
    most `per_key`: alone about half of them, so that the next one finds some, however long
    the work takes. A key without any gets each free place."""

    def __init__(
        self,
        total: int,
        per_key: int | None = None,
        weight_of: Callable[[K], float] = weigh_equally,
    ) -> None:
        self._total = total
        self._per_key = per_key or total
        self._turns = Turns(weight_of)
        self._running: Counter[K] = Counter()
        self._running_total = 0
        # The keys that wait, in the order in which they began to.
        self._waiting: dict[K, deque[asyncio.Future[None]]] = {}

    @property
    def running(self) -> int:
        return self._running_total

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def count_running(self, key: K) -> int:
        return self._running[key]

    @asynccontextmanager
    async def hold(self, key: K) -> AsyncIterator[None]:
        """Wait for a place of this key, and hold it during the block."""
        await self.acquire(key)
        try:
            yield
        finally:
            self.release(key)

    async def acquire(self, key: K) -> None:
        if key not in self._waiting and self._has_place(key):
            self._take(key)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(key, turn)
            else:
                self.release(key)
            raise

    def release(self, key: K) -> None:
        self._running_total -= 1
        self._running[key] -= 1
        if not self._running[key]:
            del self._running[key]
        self._start_next()

    def _has_place(self, key: K) -> bool:
        own = self._running[key]
        return own < self._per_key and own < self._total - self._running_total

    def _take(self, key: K) -> None:
        self._running[key] += 1
        self._running_total += 1
        self._turns.charge(key, 1)

    def _start_next(self) -> None:
        while startable := [key for key in self._waiting if self._has_place(key)]:
            key = self._turns.choose(startable)
            turn = self._waiting[key].popleft()
            if not self._waiting[key]:
                del self._waiting[key]
            if not turn.done():
                self._take(key)
                turn.set_result(None)

    def _forget(self, key: K, turn: asyncio.Future[None]) -> None:
        own = self._waiting.get(key)
        if own is not None and turn in own:
            own.remove(turn)
            if not own:
                del self._waiting[key]


class Starts(Generic[K]):
    """A limit on how much work begins in an iteration of the event loop, so that what else the loop
    has to do waits for a few pieces of it only. Keys take turns."""

    def __init__(self, per_iteration: int) -> None:
        self._per_iteration = per_iteration
        self._turns = Turns[K]()
        self._left = per_iteration
        self._is_scheduled = False
        self._waiting: dict[K, deque[asyncio.Future[None]]] = {}

    async def wait(self, key: K) -> None:
        """Wait until work of this key may begin."""
        loop = asyncio.get_running_loop()
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._begin_iteration, loop)
        if not self._waiting and self._left:
            self._left -= 1
            self._turns.charge(key, 1)
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        await turn

    def _begin_iteration(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left = self._per_iteration
        while self._waiting and self._left:
            key = self._turns.choose(self._waiting)
            turn = self._waiting[key].popleft()
            if not self._waiting[key]:
                del self._waiting[key]
            if not turn.done():
                self._left -= 1
                self._turns.charge(key, 1)
                turn.set_result(None)
        self._is_scheduled = bool(self._waiting) or self._left < self._per_iteration
        if self._is_scheduled:
            loop.call_soon(self._begin_iteration, loop)
