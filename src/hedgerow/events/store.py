"""What is needed of an event store. storage/events.py answers."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from hedgerow.events.model import Event, EventKey
from hedgerow.projects.model import ProjectId


class EventStore(Protocol):
    async def append(self, events: Sequence[Event]) -> int:
        """Add events; durable when this returns. Those whose uuid the project has already, and all
        but the first of those with the same uuid, are left out: safe to repeat. How many are new.
        """
        ...

    async def acceptances(self, keys: Sequence[EventKey]) -> Mapping[EventKey, datetime]:
        """When those were accepted, of these events, that are stored."""
        ...

    async def delete(
        self,
        project_id: ProjectId,
        *,
        uuids: Sequence[str] = (),
        distinct_ids: Sequence[str] = (),
        event: str = "",
        before: datetime | None = None,
    ) -> int:
        """Delete the events that all of the given conditions hold for; at least one must be given.
        How many they were. They are gone for every reader when this returns."""
        ...
