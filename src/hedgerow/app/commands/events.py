"""Open the events of an installation, to delete some of them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hedgerow.app.commands.state import open_state
from hedgerow.app.event_store import LazyEventStore, event_store_location
from hedgerow.app.state import State
from hedgerow.events.deletion import (
    EventDeletion,
    EventSelection,
    find_person_ids,
    validate_selection,
)
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.model import ProjectId
from hedgerow.settings import Settings
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.events.folder_lock import FolderInUseError
from hedgerow.storage.ingestion.dead_letters import SqlDeadLetterStore
from hedgerow.storage.persons.persons import SqlPersonStore
from hedgerow.storage.projects.activity import SqlActivityStore

__all__ = ["EventCommands", "FolderInUseError", "open_events"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCommands:
    """Events of an installation, for commands."""

    state: State
    persons: SqlPersonStore
    deletion: EventDeletion

    async def select(
        self,
        project_id: ProjectId,
        *,
        uuids: Sequence[str],
        person: str | None,
        event: str,
        before: str | None,
    ) -> tuple[EventSelection, int]:
        """Return the selection that matches all of the arguments, and its number of events."""
        selection = validate_selection(
            uuids=uuids,
            distinct_ids=await find_person_ids(self.persons, project_id, person),
            event=event,
            before=before,
        )
        return selection, await self.deletion.count(project_id, selection)

    async def delete(self, project_id: ProjectId, selection: EventSelection) -> int:
        return await self.deletion.delete(project_id, selection, COMMAND_LINE, utc_now())


@asynccontextmanager
async def open_events(settings: Settings) -> AsyncIterator[EventCommands]:
    """Open the events. Raises FolderInUseError if another process has them open."""
    events = LazyEventStore(event_store_location(settings))
    async with open_state(settings) as state:
        try:
            await events.open()
            yield EventCommands(
                state=state,
                persons=SqlPersonStore(state.database),
                deletion=EventDeletion(
                    events,
                    (SqlDeliveryStore(state.database), SqlDeadLetterStore(state.database)),
                    SqlActivityStore(state.database),
                    _do_not_wait,
                ),
            )
        finally:
            await events.close()


async def _do_not_wait() -> None:
    """Wait for no event: this process does not know what other processes have accepted."""
