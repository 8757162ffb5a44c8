"""How far events have come in this process, so that whoever reads can wait for what was accepted
before.

Events are settled and stored in the order in which they were accepted, so counts do: the n-th has
its person once n are settled, and can be queried once n are stored.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from hedgerow.lib.eager import own_task
from hedgerow.projects.model import ProjectId

Who = tuple[ProjectId, str]


class Progress:
    def __init__(self) -> None:
        self.accepted = self.settled = self.stored = 0
        # Those who were waiting when the process started; whose they are is not known.
        self._left_over = 0
        # What all processes together had on its way when somebody last looked.
        self._observed = 0
        # By whom the events are that are not settled, oldest first, and the last event of each.
        self._unsettled: deque[tuple[int, Who]] = deque()
        self._last_of: dict[Who, int] = {}
        # How many wait for events to be settled or stored.
        self._readers = 0
        self._moved = asyncio.Event()

    @property
    def waiting(self) -> int:
        return max(self.accepted - self.stored, self._observed)

    @property
    def is_all_stored(self) -> bool:
        return self.stored >= self.accepted

    def begin(self, *, unsettled: int, unstored: int) -> None:
        """What the process before left behind."""
        self.settled += unstored
        self.accepted += unsettled + unstored
        self._left_over = self.accepted
        self._move()

    def accept(self, project_id: ProjectId, distinct_ids: Iterable[str]) -> None:
        for distinct_id in distinct_ids:
            self.accepted += 1
            who = (project_id, distinct_id)
            self._unsettled.append((self.accepted, who))
            self._last_of[who] = self.accepted
        self._move()

    def also(self, project_id: ProjectId, distinct_id: str) -> None:
        """What was accepted last is about somebody else, too."""
        who = (project_id, distinct_id)
        self._unsettled.append((self.accepted, who))
        self._last_of[who] = self.accepted

    def settle(self, number: int) -> None:
        self.settled += number
        while self._unsettled and self._unsettled[0][0] <= self.settled:
            place, who = self._unsettled.popleft()
            if self._last_of.get(who) == place:
                del self._last_of[who]
        self._move()

    def store(self, number: int) -> None:
        self.stored += number
        self._move()

    def observe(self, accepted: int, *, unsettled: int, unstored: int) -> None:
        """What is on its way in all, where other processes accept and work too: as long as so much
        is, so much of ours may be. `accepted` is how many of ours were when somebody began to look:
        nothing is known of those that came meanwhile."""
        self._observed = unsettled + unstored
        self.settle(max(0, accepted - unsettled - self.settled))
        self.store(max(0, accepted - unsettled - unstored - self.stored))

    def is_settled(self, who: Who) -> bool:
        return who not in self._last_of and self.settled >= self._left_over

    async def wait_until_settled(self, who: Who, *, at_most_s: float) -> None:
        """Until what is accepted of somebody by now has changed them, or the time is over."""
        target = self._last_of.get(who, self._left_over)
        await self._read(lambda: self.settled >= target, at_most_s)
        if self.settled < target == self._left_over:
            # So many that it takes longer than anybody waits: one waited for all.
            self._left_over = 0

    async def wait_until_all_settled(self, *, at_most_s: float) -> None:
        """Until all that is accepted by now has changed its persons, or the time is over."""
        target = self.accepted
        await self._read(lambda: self.settled >= target, at_most_s)

    async def wait_until_stored(self, *, at_most_s: float) -> None:
        """Until all that is accepted by now can be queried, or the time is over."""
        target = self.accepted
        await self._read(lambda: self.stored >= target, at_most_s)

    async def wait_for_readers(self, *, idle_s: float) -> None:
        """Until somebody waits to read, or the time is over."""
        await self._wait(lambda: self._hurries, idle_s)

    async def wait_for_unsettled(self, enough: int, *, idle_s: float, linger_s: float) -> None:
        """Until there is something to settle, then a little longer for more: many at once cost
        little more than one. Nobody lingers while somebody waits to read."""
        await self._wait(lambda: self.accepted > self.settled, idle_s)
        await self._wait(lambda: self.accepted - self.settled >= enough or self._hurries, linger_s)

    async def wait_for_unstored(self, enough: int, *, idle_s: float, linger_s: float) -> None:
        await self._wait(lambda: self.settled > self.stored, idle_s)
        await self._wait(lambda: self.settled - self.stored >= enough or self._hurries, linger_s)

    @property
    def _hurries(self) -> bool:
        return self._readers > 0

    async def _read(self, is_so: Callable[[], bool], at_most_s: float) -> None:
        self._readers += 1
        self._move()
        try:
            await self._wait(is_so, at_most_s)
        finally:
            self._readers -= 1

    async def _wait(self, is_so: Callable[[], bool], at_most_s: float) -> None:
        if is_so():
            return
        await own_task()
        try:
            async with asyncio.timeout(at_most_s):
                while not is_so():
                    await self._moved.wait()
        except TimeoutError:
            return

    def _move(self) -> None:
        """Wake all who wait; who goes on waiting waits for the next move."""
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
