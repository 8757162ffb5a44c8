"""Drop duplicate events: a client that gets no response sends its events again.

An event is identified by its uuid. It is a duplicate if an event with this uuid is already
processed: pending for the event store, or stored. The same acceptance is not a duplicate even if
the event is stored: after a restore from a backup, the state can be older than the event store, and
then the persons of these events still have to be updated.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import takewhile

from hedgerow.errors import Unavailable
from hedgerow.events.model import EventKey
from hedgerow.events.store import EventStore
from hedgerow.ingestion.model import CapturedEvent, InboxRow
from hedgerow.projects.model import ProjectId

# If the event store does not answer in time, continue without it for a while: applying an event
# twice is better than stopping.
LOOKUP_TIMEOUT_S = 5.0
RETRY_LOOKUP_AFTER_S = 30.0
# One of several workers does not learn when others store its events; by then they are stored.
PENDING_TTL_S = 30.0


class Deduplicator:
    """The only worker (`is_only_worker`) processes and stores all events, so it knows exactly which
    ones are pending."""

    def __init__(self, events: EventStore, *, is_only_worker: bool) -> None:
        self._events = events
        self._is_only_worker = is_only_worker
        # Events that are processed but not stored, with the time of processing.
        self._pending: dict[EventKey, float] = {}
        self._next_lookup_at = 0.0

    def mark_processed(self, keys: Iterable[EventKey]) -> None:
        now = asyncio.get_running_loop().time()
        if not self._is_only_worker:
            self._expire(now - PENDING_TTL_S)
        self._pending.update(dict.fromkeys(keys, now))

    def mark_stored(self, keys: Iterable[EventKey]) -> None:
        for key in keys:
            self._pending.pop(key, None)

    async def look_up(self, rows: Sequence[InboxRow]) -> "ProcessedEvents":
        """Find out which events of these rows are already processed. Reads the pending events
        first: they can move to the event store during the query."""
        keys = row_keys(rows)
        pending = self._pending.keys() & set(keys)
        return ProcessedEvents(pending, await self._fetch_acceptances(keys), self._pending)

    async def _fetch_acceptances(self, keys: Sequence[EventKey]) -> Mapping[EventKey, datetime]:
        now = asyncio.get_running_loop().time()
        if now < self._next_lookup_at:
            return {}
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT_S):
                return await self._events.acceptances(keys)
        except (Unavailable, TimeoutError):
            self._next_lookup_at = now + RETRY_LOOKUP_AFTER_S
            return {}

    def _expire(self, before: float) -> None:
        old = takewhile(lambda each: each[1] <= before, self._pending.items())
        for key, _ in list(old):
            del self._pending[key]


class ProcessedEvents:
    """The result of a lookup. `pending_now` is the live mapping: it also holds the events that were
    processed after the lookup."""

    def __init__(
        self,
        pending: Iterable[EventKey],
        acceptances: Mapping[EventKey, datetime],
        pending_now: Mapping[EventKey, float],
    ) -> None:
        self._pending = frozenset(pending)
        self._acceptances = acceptances
        self._pending_now = pending_now

    def drop_duplicates(
        self, project_id: ProjectId, events: Sequence[CapturedEvent]
    ) -> list[CapturedEvent]:
        """Return the unprocessed events, each once."""
        new: dict[EventKey, CapturedEvent] = {}
        for key, event in zip(event_keys(project_id, events), events, strict=True):
            if not self._is_duplicate(key, event):
                new.setdefault(key, event)
        return list(new.values())

    def _is_duplicate(self, key: EventKey, event: CapturedEvent) -> bool:
        if key in self._pending or key in self._pending_now:
            return True
        return self._acceptances.get(key, event.accepted_at) != event.accepted_at


def row_keys(rows: Iterable[InboxRow]) -> list[EventKey]:
    return [key for row in rows for key in event_keys(row.project_id, row.events)]


def event_keys(project_id: ProjectId, events: Iterable[CapturedEvent]) -> list[EventKey]:
    return [(project_id, event.uuid) for event in events]
