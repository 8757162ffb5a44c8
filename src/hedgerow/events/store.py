"""What is needed of an event store. storage/events.py, event_reading.py and event_persons.py
answer.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from hedgerow.errors import Invalid
from hedgerow.events.model import Event, EventKey
from hedgerow.events.record import EventPerson
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


class AnswerTooLarge(Invalid):
    """An answer that takes too much memory or has too many bytes. One with fewer rows may be
    possible."""

    status, type, code = 400, "validation_error", "query_limit_exceeded"
    default_detail = "The answer is too large: ask for fewer rows or for less."


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a query may take. With `is_enough_in_time`, what was found when the time is over is the
    answer; otherwise it is Invalid, as is a larger answer."""

    timeout_s: float
    max_rows: int
    max_bytes: int
    is_enough_in_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a query, and its columns' types."""

    types: Sequence[str]
    rows: Sequence[Sequence[Any]]


class EventReader(Protocol):
    async def read(self, sql: str, parameters: Mapping[str, Any], limits: Limits) -> Answer:
        """Run a query that changes nothing. Invalid for one that cannot be run."""
        ...


class EventPersons(Protocol):
    async def persons_of(
        self, project_id: ProjectId, distinct_ids: Collection[str]
    ) -> Mapping[str, EventPerson]:
        """Whose these distinct ids are today, of those that are somebody's."""
        ...
