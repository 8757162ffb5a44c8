"""The event store, opened when it is first needed: the engine takes a second to load and much
memory, and who only uses flags needs neither.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog

from hedgerow.errors import Unavailable, Unready
from hedgerow.events.delete import Chosen, CountedEvents
from hedgerow.events.model import Event, EventKey
from hedgerow.events.store import EventStore
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.projects.model import ProjectId
from hedgerow.settings import Settings
from hedgerow.storage.connect import EventPlace, lock_events, may_hold_events, open_events

_log = structlog.get_logger("hedgerow")


def event_place(settings: Settings) -> EventPlace:
    return EventPlace(
        url=settings.clickhouse_url,
        folder=settings.data.resolve() / "events",
        timeout_s=settings.database_timeout_s,
    )


class OpenedWhenNeeded:
    """An event store. What could not be opened is tried again at the next call. With
    `locks_at_once` no other process can open the same folder from now on."""

    def __init__(self, place: EventPlace, *, locks_at_once: bool = False) -> None:
        self._place = place
        self._lock = lock_events(place) if locks_at_once else None
        # Whether somebody may have stored events before this process began.
        self._is_old = may_hold_events(place)
        self._store: Any = None
        self._opening: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._store is not None

    async def opened(self) -> Any:
        """Who goes away while it is opened does not keep others from having it."""
        if self._store is None:
            if self._opening is None:
                self._opening = asyncio.create_task(self._open())
                self._opening.add_done_callback(_look)
            await asyncio.shield(self._opening)
        return self._store

    async def warm(self) -> None:
        """Open it before somebody has to wait for it, if there are events."""
        if self._is_old and self._store is None and not self._place.url:
            await (await self.opened()).learn()

    async def _open(self) -> None:
        try:
            self._store = await in_daemon_thread(lambda: open_events(self._place, self._lock))
        finally:
            self._opening = None

    async def reached(self) -> Any:
        """For those who were asked to do something now, and can be asked again."""
        try:
            return await self.opened()
        except Unready as error:
            _log.error("the event store cannot be opened", reason=str(error))
            raise Unavailable("The event store cannot be reached from this process.") from error

    async def append(self, events: Sequence[Event]) -> int:
        store: EventStore = await self.opened()
        return await store.append(events)

    async def acceptances(self, keys: Sequence[EventKey]) -> Mapping[EventKey, datetime]:
        """An engine that has no events yet is not loaded for this."""
        if self._store is None and not self._is_old:
            return {}
        store: EventStore = await self.reached()
        return await store.acceptances(keys)

    async def delete(
        self,
        project_id: ProjectId,
        *,
        uuids: Sequence[str] = (),
        distinct_ids: Sequence[str] = (),
        event: str = "",
        before: datetime | None = None,
    ) -> int:
        store: EventStore = await self.reached()
        return await store.delete(
            project_id, uuids=uuids, distinct_ids=distinct_ids, event=event, before=before
        )

    async def count(self, project_id: ProjectId, chosen: Chosen) -> int:
        store: CountedEvents = await self.reached()
        return await store.count(project_id, chosen)

    async def compact(self) -> None:
        """Once it is open."""
        if self._store is not None:
            await self._store.compact()

    async def close(self) -> None:
        if self._opening is not None:
            await asyncio.wait({self._opening})
        if self._store is not None:
            await self._store.close()
        elif self._lock is not None:
            self._lock.release()


def _look(opening: asyncio.Task[None]) -> None:
    """At the outcome that nobody may be waiting for any more, so that asyncio does not complain."""
    if not opening.cancelled():
        opening.exception()
