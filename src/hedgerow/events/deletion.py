"""Deletion of events, recorded in the activity log, and retention."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, Protocol
from uuid import UUID

from hedgerow.errors import Invalid
from hedgerow.events.store import EventStore
from hedgerow.lib.clock import Clock, format_iso
from hedgerow.lib.dates import parse_iso_date
from hedgerow.lib.text import explain_unstorable, truncate
from hedgerow.persons.store import PersonQuery, PersonStore
from hedgerow.projects.activity import SYSTEM, ActivityEntry, Actor
from hedgerow.projects.model import Project, ProjectId
from hedgerow.projects.store import ActivityStore

SCOPE = "Event"
MAX_EVENT_NAME_CHARS = 200
# The activity entry lists at most this many uuids.
MAX_AUDITED_UUIDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSelection:
    """The events of a project that match all given conditions."""

    uuids: Sequence[str] = ()
    distinct_ids: Sequence[str] = ()
    event: str = ""
    before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRequest:
    """What a user sends: `person` is a uuid or a distinct id, `before` a date. All must match."""

    uuids: Sequence[str] = ()
    person: str | None = None
    event: str = ""
    before: str | None = None


def validate_selection(
    *, uuids: Sequence[str], distinct_ids: Sequence[str], event: str, before: str | None
) -> EventSelection:
    """Validate the conditions of a deletion. Raises Invalid."""
    if not (uuids or distinct_ids or event or before):
        raise Invalid(
            "Specify which events to delete: by uuid, by person, by name or before a date."
        )
    if unstorable := explain_unstorable(event):
        raise Invalid(unstorable[1], attr="event", code=unstorable[0])
    return EventSelection(
        uuids=[_parse_uuid(each) for each in uuids],
        distinct_ids=distinct_ids,
        event=event,
        before=None if before is None else _parse_before(before),
    )


async def find_person_ids(
    persons: PersonStore, project_id: ProjectId, person: str | None
) -> Sequence[str]:
    """Return all distinct ids of the person with this uuid or distinct id. Returns none for
    None."""
    if person is None:
        return ()
    if not explain_unstorable(person):
        found = await persons.person(project_id, person)
        if found is None:
            query = PersonQuery(project_id=project_id, distinct_id=person, limit=1)
            found = next(iter((await persons.persons(query))[0]), None)
        if found is not None and found.distinct_ids:
            return found.distinct_ids
    raise Invalid("Person not found.", attr="person", code="does_not_exist")


def _parse_uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise Invalid(f'"{truncate(text)}" is not a uuid.', attr="uuids") from None


def _parse_before(text: str) -> datetime:
    try:
        return parse_iso_date(text, UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        detail = "Expected a date such as 2026-01-31 or 2026-01-31T12:00:00Z."
        raise Invalid(detail, attr="before", code="invalid_date") from None


class CountableEvents(EventStore, Protocol):
    async def count(self, project_id: ProjectId, selection: EventSelection) -> int: ...


class EventCopies(Protocol):
    """Copies of events outside the event store: queued deliveries and dead letters."""

    async def delete_copies(
        self, project_id: ProjectId, uuids: Sequence[str], distinct_ids: Sequence[str]
    ) -> None:
        """Delete the copies of these events, or of all events with these distinct ids."""
        ...


class EventDeletion:
    """Deletes events and their copies. `read_barrier` waits until all accepted events are
    readable."""

    def __init__(
        self,
        events: CountableEvents,
        copies: Sequence[EventCopies],
        activity: ActivityStore,
        read_barrier: Callable[[], Awaitable[None]],
    ) -> None:
        self._events = events
        self._copies = copies
        self._activity = activity
        self.read_barrier = read_barrier

    async def select(
        self, persons: PersonStore, project_id: ProjectId, request: DeletionRequest
    ) -> EventSelection:
        """Validate a request. Waits for accepted events first, since their persons may be new."""
        await self.read_barrier()
        return validate_selection(
            uuids=request.uuids,
            distinct_ids=await find_person_ids(persons, project_id, request.person),
            event=request.event,
            before=request.before,
        )

    async def count(self, project_id: ProjectId, selection: EventSelection) -> int:
        """Return how many events would be deleted."""
        await self.read_barrier()
        return await self._events.count(project_id, selection)

    async def delete(
        self, project_id: ProjectId, selection: EventSelection, actor: Actor, now: datetime
    ) -> int:
        """Delete the events and return their number."""
        number = await self.delete_without_audit(project_id, selection)
        if number:
            await self._activity.record(_build_entry(project_id, selection, number, actor), now)
        return number

    async def delete_without_audit(self, project_id: ProjectId, selection: EventSelection) -> int:
        """Delete the events without an activity entry, for callers that record the deletion
        themselves."""
        await self.read_barrier()
        if not (selection.event or selection.before):
            for copies in self._copies:
                await copies.delete_copies(project_id, selection.uuids, selection.distinct_ids)
        return await self._events.delete(
            project_id,
            uuids=selection.uuids,
            distinct_ids=selection.distinct_ids,
            event=selection.event,
            before=selection.before,
        )


def _build_entry(
    project_id: ProjectId, selection: EventSelection, number: int, actor: Actor
) -> ActivityEntry:
    which: dict[str, Any] = {
        "uuids": list(selection.uuids[:MAX_AUDITED_UUIDS]),
        "distinct_ids": len(selection.distinct_ids),
        "event": selection.event,
        "before": format_iso(selection.before) if selection.before else None,
    }
    return ActivityEntry(
        scope=SCOPE,
        item_id="",
        item_name=f"{number} event{'' if number == 1 else 's'}",
        activity="deleted",
        actor=actor,
        project_id=project_id,
        detail={"events_deleted": number, **{name: each for name, each in which.items() if each}},
    )


class EventRetention:
    """Deletes events older than the retention period of their project."""

    def __init__(
        self,
        deletion: EventDeletion,
        projects: Callable[[], Awaitable[Iterable[Project]]],
        clock: Clock,
    ) -> None:
        self._deletion = deletion
        self._projects = projects
        self._clock = clock

    async def enforce(self) -> None:
        """Delete expired events. The cutoff is at midnight, so only the first run of a day deletes
        events."""
        now = self._clock()
        for project in await self._projects():
            if project.retention_days is not None:
                selection = EventSelection(
                    before=_midnight(now) - timedelta(days=project.retention_days)
                )
                await self._deletion.delete(project.id, selection, SYSTEM, now)


def _midnight(moment: datetime) -> datetime:
    return datetime.combine(moment.date(), time.min, moment.tzinfo)
