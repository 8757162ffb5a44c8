"""Count and delete events of an installation, whether its service runs or not."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from hedgerow.app.commands.state import open_state
from hedgerow.app.event_store import LazyEventStore, event_store_location
from hedgerow.app.event_store_requests import (
    EventStoreActions,
    StoreAction,
    request_from_service,
)
from hedgerow.app.state import State
from hedgerow.events.deletion import (
    END_OF_TIME,
    AcceptedEvents,
    BehaviorRebuild,
    DeletionRequest,
    EventDeletion,
)
from hedgerow.ingestion.read_barrier import wait_until_all_stored
from hedgerow.lib.clock import format_iso, utc_now
from hedgerow.projects.model import ProjectId
from hedgerow.settings import Settings
from hedgerow.storage.deletions import SqlDeletionLog
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.engine.database import Database
from hedgerow.storage.events.folder_lock import FolderInUseError
from hedgerow.storage.ingestion.dead_letters import SqlDeadLetterStore
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from hedgerow.storage.ingestion.ingestion_warnings import SqlWarningStore
from hedgerow.storage.persons.behaviors import SqlBehaviorStore
from hedgerow.storage.persons.persons import SqlPersonStore
from hedgerow.storage.projects.activity import SqlActivityStore
from hedgerow.storage.projects.deletions import SqlProjectDeletions

__all__ = ["DeletionRequest", "EventCommands", "open_events"]

RunAction = Callable[[StoreAction, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCommands:
    """Events of an installation, for commands. `run` works here or in the running service."""

    state: State
    run: RunAction

    @property
    def project_deletions(self) -> SqlProjectDeletions:
        return SqlProjectDeletions(self.state.database)

    async def count(self, project_id: ProjectId, request: DeletionRequest) -> int:
        return await self._delete(StoreAction.COUNT_EVENTS, project_id, request)

    async def delete(self, project_id: ProjectId, request: DeletionRequest) -> int:
        return await self._delete(StoreAction.DELETE_EVENTS, project_id, request)

    async def count_all(self, project_id: ProjectId) -> int:
        """Count the events of a project."""
        return await self.count(project_id, DeletionRequest(before=format_iso(END_OF_TIME)))

    async def _delete(
        self, action: StoreAction, project_id: ProjectId, request: DeletionRequest
    ) -> int:
        result = await self.run(action, {"project_id": project_id, **asdict(request)})
        number: int = result["events"]
        return number


@asynccontextmanager
async def open_events(
    settings: Settings, report: Callable[[str], None]
) -> AsyncIterator[EventCommands]:
    """Open the events here, or let the service that has them open do the work."""
    place = event_store_location(settings)
    events = LazyEventStore(place)
    async with open_state(settings) as state:
        run = _build_actions(state.database, events).run
        try:
            await events.open()
        except FolderInUseError:
            report("The service is running: waiting for it to do the work.")
            run = partial(request_from_service, place.folder)
        try:
            yield EventCommands(state=state, run=run)
        finally:
            await events.close()


def _build_actions(database: Database, events: LazyEventStore) -> EventStoreActions:
    copies = SqlDeliveryStore(database), SqlDeadLetterStore(database), SqlWarningStore(database)
    return EventStoreActions(
        events=events,
        deletion=EventDeletion(
            events,
            copies,
            SqlActivityStore(database),
            SqlDeletionLog(database),
            AcceptedEvents(
                wait=_do_not_wait,
                wait_for_all=partial(wait_until_all_stored, SqlInboxStore(database, buckets=1)),
            ),
            BehaviorRebuild(SqlBehaviorStore(database), utc_now),
        ),
        persons=SqlPersonStore(database),
    )


async def _do_not_wait(_: ProjectId) -> None:
    """Wait for no event: the service may be stopped."""
