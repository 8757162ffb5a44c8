"""Deleting events at the terminal, joined with their storage."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hedgerow.app.events import OpenedWhenNeeded, event_place
from hedgerow.app.state import State, opened_state
from hedgerow.events.delete import Deletion
from hedgerow.settings import Settings
from hedgerow.storage.activity import ActivityRecords
from hedgerow.storage.deliveries import DeliveryRecords
from hedgerow.storage.persons import PersonRecords
from hedgerow.storage.set_aside import SetAsideRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRooms:
    state: State
    persons: PersonRecords
    deletion: Deletion


@asynccontextmanager
async def opened_events(settings: Settings) -> AsyncIterator[EventRooms]:
    """For verbs that work on the events of an installation; Unready if another process has them."""
    events = OpenedWhenNeeded(event_place(settings))
    async with opened_state(settings) as state:
        try:
            await events.opened()
            yield EventRooms(
                state=state,
                persons=PersonRecords(state.database),
                deletion=Deletion(
                    events,
                    (DeliveryRecords(state.database), SetAsideRecords(state.database)),
                    ActivityRecords(state.database),
                    _at_once,
                ),
            )
        finally:
            await events.close()


async def _at_once() -> None:
    """Nothing is known here of what others have accepted."""
