"""The event store, opened on first use: chDB takes a second and much memory to load, and an
installation that only evaluates flags does not need it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from hedgerow.app.state import events_folder
from hedgerow.errors import OperatorError, Unavailable
from hedgerow.events.deletion import CountableEvents, EventSelection
from hedgerow.events.model import Event, EventKey
from hedgerow.events.store import EventReader, EventStore, QueryLimits, QueryResult, Shape
from hedgerow.lib.optional_packages import import_package
from hedgerow.lib.threads import consume_exception, run_in_thread
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.projects.model import ProjectId
from hedgerow.settings import Settings
from hedgerow.storage.connect import (
    EventStoreLocation,
    describe_missing_packages,
    has_event_store,
    lock_event_store,
    open_event_store,
)

if TYPE_CHECKING:  # importing it loads the driver
    from hedgerow.storage.events.events import ClickHouseEventStore
    from hedgerow.storage.events.queries import ClickHouseEventReader

T = TypeVar("T")

READER_MODULE = "hedgerow.storage.events.queries"

_log = structlog.get_logger("hedgerow")


def event_store_location(settings: Settings) -> EventStoreLocation:
    return EventStoreLocation(
        url=settings.clickhouse_url,
        folder=events_folder(settings),
        timeout_s=settings.database_timeout_s,
    )


def warn_of_missing_packages(settings: Settings) -> None:
    """Log that events will wait if this installation lacks the packages of its event store."""
    if missing := describe_missing_packages(event_store_location(settings)):
        _log.warning("captured events wait until the event store can be opened", reason=missing)


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

    @property
    def quarantined_count(self) -> int:
        """How many parts are quarantined because they could not be written."""
        return 0 if self._store is None else self._store.quarantined_count

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
    def reads_typed_columns(self) -> bool:
        """Whether queries should read typed columns."""
        return self._store is not None and self._store.reads_typed_columns

    async def move_columns(self) -> None:
        """Move older events to typed columns if the store is open."""
        if self._store is not None:
            await self._store.move_columns()

    async def follow_column_move(self) -> None:
        """Look whether the move has ended if the store is open."""
        if self._store is not None:
            await self._store.follow_column_move()

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


class LazyEventReader(EventReader):
    """Queries on a store that opens on first use, and with it loads its driver."""

    def __init__(
        self,
        events: LazyEventStore,
        workers: FunctionPool | None = None,
        reads_typed_columns: Callable[[], bool] = lambda: False,
    ) -> None:
        self._events = events
        self._workers = workers
        self._reads_typed_columns = reads_typed_columns
        self._reader: ClickHouseEventReader | None = None

    @property
    def reads_typed_columns(self) -> bool:
        return self._reads_typed_columns()

    async def read(
        self,
        sql: str,
        parameters: Mapping[str, Any],
        limits: QueryLimits,
        tables: Mapping[str, bytes] = {},
    ) -> QueryResult:
        return await (await self._load()).read(sql, parameters, limits, tables)

    async def read_shaped(
        self,
        sql: str,
        parameters: Mapping[str, Any],
        limits: QueryLimits,
        shape: Shape[T],
        tables: Mapping[str, bytes] = {},
    ) -> T:
        return await (await self._load()).read_shaped(sql, parameters, limits, shape, tables)

    async def _load(self) -> "ClickHouseEventReader":
        if self._reader is None:
            await self._events.open_or_unavailable()
            self._reader = import_package(READER_MODULE).ClickHouseEventReader(
                self._events.open_or_unavailable, self._workers, self._reads_typed_columns
            )
        assert self._reader is not None
        return self._reader
