"""The event store, opened on first use: chDB takes a second and much memory to load, and an
installation that only evaluates flags does not need it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import structlog

from hedgerow.app.state import events_folder
from hedgerow.errors import OperatorError, Unavailable
from hedgerow.events.deletion import CountableEvents, EventSelection
from hedgerow.events.model import Event, EventKey
from hedgerow.events.store import EventStore
from hedgerow.lib.threads import consume_exception, run_in_thread
from hedgerow.projects.model import ProjectId
from hedgerow.settings import Settings
from hedgerow.storage.connect import (
    EventStoreLocation,
    has_event_store,
    lock_event_store,
    open_event_store,
)

if TYPE_CHECKING:  # importing it loads the driver
    from hedgerow.storage.events.events import ClickHouseEventStore

_log = structlog.get_logger("hedgerow")


def event_store_location(settings: Settings) -> EventStoreLocation:
    return EventStoreLocation(
        url=settings.clickhouse_url,
        folder=events_folder(settings),
        timeout_s=settings.database_timeout_s,
    )


class LazyEventStore:
    """An event store that opens on first use. A failed attempt is repeated by the next call. With
    `locks_at_once`, no other process can open the same directory from now on."""

    def __init__(self, place: EventStoreLocation, *, locks_at_once: bool = False) -> None:
        self._place = place
        self._lock = lock_event_store(place) if locks_at_once else None
        # Whether events may have been stored before this process started.
        self._is_old = has_event_store(place)
        self._store: ClickHouseEventStore | None = None
        self._opening: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._store is not None

    @property
    def engine_restarts(self) -> int:
        """How often the embedded engine was started again."""
        return 0 if self._store is None else self._store.engine_restarts

    @property
    def damage_count(self) -> int:
        """How often damaged files were found."""
        return 0 if self._store is None else self._store.damage_count

    async def open(self) -> "ClickHouseEventStore":
        """Open and return the store. A cancelled caller does not cancel the opening for others."""
        if self._store is None:
            if self._opening is None:
                self._opening = asyncio.create_task(self._open())
                self._opening.add_done_callback(consume_exception)
            await asyncio.shield(self._opening)
        assert self._store is not None
        return self._store

    async def open_if_used(self) -> None:
        """Open a store that may hold events before the first request needs it."""
        if self._is_old and self._store is None and not self._place.url:
            await (await self.open()).load_uuid_filter()

    async def _open(self) -> None:
        try:
            self._store = await run_in_thread(lambda: open_event_store(self._place, self._lock))
        finally:
            self._opening = None

    async def open_or_unavailable(self) -> "ClickHouseEventStore":
        """Open the store for a request: raise Unavailable, so that the client can retry."""
        try:
            return await self.open()
        except OperatorError as error:
            _log.error("the event store cannot be opened", reason=str(error))
            detail = "The event store cannot be opened. Run `hedgerow doctor` for the reason."
            raise Unavailable(detail) from error

    async def append(self, events: Sequence[Event]) -> int:
        store: EventStore = await self.open()
        return await store.append(events)

    async def acceptances(self, keys: Sequence[EventKey]) -> Mapping[EventKey, datetime]:
        """An engine without events is not loaded for this."""
        if self._store is None and not self._is_old:
            return {}
        store: EventStore = await self.open_or_unavailable()
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
        store: EventStore = await self.open_or_unavailable()
        return await store.delete(
            project_id, uuids=uuids, distinct_ids=distinct_ids, event=event, before=before
        )

    async def count(self, project_id: ProjectId, chosen: EventSelection) -> int:
        store: CountableEvents = await self.open_or_unavailable()
        return await store.count(project_id, chosen)

    async def compact(self) -> None:
        """Compact the store if it is open."""
        if self._store is not None:
            await self._store.compact()

    @property
    def may_contain_data(self) -> bool:
        return self._store is not None or self._is_old or bool(self._place.url)

    async def delete_project(self, project_id: ProjectId) -> int:
        """Delete the events and the replicas of a project. Return the number of events."""
        if not self.may_contain_data:
            return 0
        return await (await self.open_or_unavailable()).delete_project(project_id)

    async def purge(self) -> None:
        """Remove deleted data from the files."""
        await (await self.open_or_unavailable()).purge()

    async def close(self) -> None:
        if self._opening is not None:
            await asyncio.wait({self._opening})
        if self._store is not None:
            await self._store.close()
        if self._lock is not None:
            self._lock.release()
