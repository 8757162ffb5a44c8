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


class _Hold(Generic[K]):
    """A place of a key, which ends at a time of the event loop."""

    __slots__ = ("is_held", "key", "until")

    def __init__(self, key: K) -> None:
        self.key = key
        self.is_held = True
        self.until = 0.0


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
        # Places that end at a time, and the timer for the first of them.
        self._lent: deque[_Hold[K]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> int:
        return self._running_total

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def count_running(self, key: K) -> int:
        return self._running[key]

    @asynccontextmanager
    async def hold(self, key: K, max_s: float | None = None) -> AsyncIterator[None]:
        """Wait for a place of this key, and hold it during the block. After `max_s` the place is
        free again although the block continues: for work that costs most when it begins."""
        await self.acquire(key)
        held = _Hold(key)
        if max_s is not None:
            held.until = asyncio.get_running_loop().time() + max_s
            self._lent.append(held)
            self._schedule_expiry()
        try:
            yield
        finally:
            self._give_back(held)

    def _give_back(self, held: "_Hold[K]") -> None:
        if held.is_held:
            held.is_held = False
            self.release(held.key)

    def _expire(self) -> None:
        """Free the places whose time is over. They end in the order in which they were lent."""
        now = asyncio.get_running_loop().time()
        while self._lent and (not self._lent[0].is_held or self._lent[0].until <= now):
            self._give_back(self._lent.popleft())

    def _schedule_expiry(self) -> None:
        """One timer, and only while a key waits: most places are given back before their time."""
        if self._lent and self._waiting and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._lent[0].until, self._expire_and_continue)

    def _expire_and_continue(self) -> None:
        self._timer = None
        self._expire()
        self._schedule_expiry()

    async def acquire(self, key: K) -> None:
        self._expire()
        if key not in self._waiting and self._has_place(key):
            self._take(key)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        self._schedule_expiry()
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
