"""Events that come again. A client that hears no answer sends them once more: only the first
delivery changes persons, is counted and is stored.

An event is known by its uuid, from the moment it is settled: it is on its way to the event store,
or it is there. The same acceptance is no repeat even if its event is stored: a state that was
restored from a backup may be older than its events, and then their persons are still to be changed.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import takewhile

from hedgerow.errors import Unavailable
from hedgerow.events.model import EventKey
from hedgerow.events.store import EventStore
from hedgerow.ingestion.model import Accepted, Arrived
from hedgerow.projects.model import ProjectId

# An event store that does not answer in this time is not asked for a while: better to apply
# something twice than not to go on.
ASK_S = 5.0
PAUSE_S = 30.0
# Who does not store everything itself does not learn when that is done; it is by then.
ON_THE_WAY_S = 30.0


class Repeats:
    """One who `is_alone` settles and stores everything, and so knows exactly what is on its way."""

    def __init__(self, events: EventStore, *, is_alone: bool) -> None:
        self._events = events
        self._is_alone = is_alone
        # What was settled and is not stored, and when.
        self._on_the_way: dict[EventKey, float] = {}
        self._asks_again_at = 0.0

    def settled(self, keys: Iterable[EventKey]) -> None:
        now = asyncio.get_running_loop().time()
        if not self._is_alone:
            self._forget(now - ON_THE_WAY_S)
        self._on_the_way.update(dict.fromkeys(keys, now))

    def stored(self, keys: Iterable[EventKey]) -> None:
        for key in keys:
            self._on_the_way.pop(key, None)

    async def known(self, rows: Sequence[Accepted]) -> "KnownEvents":
        """What is known of the events of these rows. What is on its way is looked at first: it
        may arrive while the event store is asked."""
        keys = keys_of_rows(rows)
        on_the_way = self._on_the_way.keys() & set(keys)
        return KnownEvents(on_the_way, await self._accepted(keys), self._on_the_way)

    async def _accepted(self, keys: Sequence[EventKey]) -> Mapping[EventKey, datetime]:
        now = asyncio.get_running_loop().time()
        if now < self._asks_again_at:
            return {}
        try:
            async with asyncio.timeout(ASK_S):
                return await self._events.acceptances(keys)
        except (Unavailable, TimeoutError):
            self._asks_again_at = now + PAUSE_S
            return {}

    def _forget(self, before: float) -> None:
        old = takewhile(lambda each: each[1] <= before, self._on_the_way.items())
        for key, _ in list(old):
            del self._on_the_way[key]


class KnownEvents:
    """Of some events, which are settled already. `later` is what is settled since it was asked."""

    def __init__(
        self,
        on_the_way: Iterable[EventKey],
        accepted: Mapping[EventKey, datetime],
        later: Mapping[EventKey, float],
    ) -> None:
        self._on_the_way = frozenset(on_the_way)
        self._accepted = accepted
        self._later = later

    def without_repeats(self, project_id: ProjectId, events: Sequence[Arrived]) -> list[Arrived]:
        """The events that nobody has settled, each once."""
        new: dict[EventKey, Arrived] = {}
        for key, event in zip(keys_of(project_id, events), events, strict=True):
            if not self._is_repeat(key, event):
                new.setdefault(key, event)
        return list(new.values())

    def _is_repeat(self, key: EventKey, event: Arrived) -> bool:
        if key in self._on_the_way or key in self._later:
            return True
        return self._accepted.get(key, event.accepted_at) != event.accepted_at


def keys_of_rows(rows: Iterable[Accepted]) -> list[EventKey]:
    return [key for row in rows for key in keys_of(row.project_id, row.events)]


def keys_of(project_id: ProjectId, events: Iterable[Arrived]) -> list[EventKey]:
    return [(project_id, event.uuid) for event in events]
