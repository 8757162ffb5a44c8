"""Deletion of events, recorded in the activity log, and retention."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, Protocol
from uuid import UUID

from hedgerow.errors import AppError, Invalid
from hedgerow.events.purge import Deletion, DeletionLog, DeletionQuery
from hedgerow.events.store import EventStore
from hedgerow.lib.clock import Clock, format_iso
from hedgerow.lib.dates import parse_iso_date
from hedgerow.lib.text import explain_unstorable, truncate
from hedgerow.persons.behaviors.store import BehaviorStore
from hedgerow.persons.store import PersonQuery, PersonStore
from hedgerow.projects.activity import SYSTEM, ActivityEntry, Actor
from hedgerow.projects.model import Project, ProjectId
from hedgerow.projects.store import ActivityStore

SCOPE = "Event"
MAX_EVENT_NAME_CHARS = 200
# The activity entry lists at most this many uuids.
MAX_AUDITED_UUIDS = 100
# Later than any timestamp that the event store can hold.
END_OF_TIME = datetime(2300, 1, 1, tzinfo=UTC)


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
    ) -> int:
        """Delete the copies of these events, or of all events with these distinct ids. Return
        their number."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRepair:
    """What a deletion of events changes for cohorts by behavior: what these distinct ids did, None
    for all, and only by this event, if one is given."""

    distinct_ids: Sequence[str] | None
    event: str


class BehaviorRepairs(Protocol):
    """Keeps what cohorts count in accordance with the stored events."""

    async def begin_deletion(
        self, project_id: ProjectId, selection: EventSelection
    ) -> PendingRepair | None:
        """Return what the deletion will change, None if cohorts count nothing. What it changes is
        counted again even if this process dies."""
        ...

    async def end_deletion(self, project_id: ProjectId, repair: PendingRepair) -> None: ...


class BehaviorRebuild(BehaviorRepairs):
    """For commands: the service counts everything again."""

    def __init__(self, store: BehaviorStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def begin_deletion(
        self, project_id: ProjectId, selection: EventSelection
    ) -> PendingRepair | None:
        if not await self._store.doubt(project_id, self._clock()):
            return None
        return PendingRepair(distinct_ids=None, event=selection.event)

    async def end_deletion(self, project_id: ProjectId, repair: PendingRepair) -> None:
        await self._store.rebuild(project_id, self._clock(), event=repair.event)
        await self._store.trust(project_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedEvents:
    """How to wait until all events of a project that were accepted before are readable: `wait`
    gives up after a while, `wait_for_all` then raises Unavailable."""

    wait: Callable[[ProjectId], Awaitable[None]]
    wait_for_all: Callable[[ProjectId], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedEvents:
    """How many events were deleted, and how many copies of them."""

    events: int
    copies: int


class EventDeletion:
    """Deletes events and their copies."""

    def __init__(
        self,
        events: CountableEvents,
        copies: Sequence[EventCopies],
        activity: ActivityStore,
        deletions: DeletionLog,
        accepted: AcceptedEvents,
        behaviors: BehaviorRepairs,
    ) -> None:
        self._behaviors = behaviors
        self._events = events
        self._copies = copies
        self._activity = activity
        self._deletions = deletions
        self._accepted = accepted

    async def select(
        self, persons: PersonStore, project_id: ProjectId, request: DeletionRequest
    ) -> EventSelection:
        """Validate a request. Waits for accepted events first, since their persons may be new or
        get other distinct ids."""
        if request.person is None:
            await self._accepted.wait(project_id)
        else:
            await self._accepted.wait_for_all(project_id)
        return validate_selection(
            uuids=request.uuids,
            distinct_ids=await find_person_ids(persons, project_id, request.person),
            event=request.event,
            before=request.before,
        )

    async def count(self, project_id: ProjectId, selection: EventSelection) -> int:
        """Return how many events would be deleted."""
        await self._accepted.wait(project_id)
        return await self._events.count(project_id, selection)

    async def count_all(self, project_id: ProjectId) -> int:
        """Return how many events a project has."""
        return await self.count(project_id, EventSelection(before=END_OF_TIME))

    async def delete(
        self, project_id: ProjectId, selection: EventSelection, actor: Actor, now: datetime
    ) -> int:
        """Delete the events and return their number."""
        is_personal = bool(selection.uuids or selection.distinct_ids)
        async with self.record(project_id, now, is_personal=is_personal):
            deleted = await self.delete_without_audit(project_id, selection)
        if deleted.events:
            await self._activity.record(_build_entry(project_id, selection, deleted, actor), now)
        return deleted.events

    async def delete_without_audit(
        self, project_id: ProjectId, selection: EventSelection
    ) -> DeletedEvents:
        """Delete the events without an activity entry, for callers that record the deletion
        themselves. Raises Unavailable if some of certain events may not be stored yet."""
        has_copies = not (selection.event or selection.before)
        copies = 0
        if has_copies:
            # First: a dead letter that is retried meanwhile would be stored after the deletion.
            copies = await self._delete_copies(project_id, selection)
            await self._accepted.wait_for_all(project_id)
        else:
            await self._accepted.wait(project_id)
        repair = await self._behaviors.begin_deletion(project_id, selection)
        events = await self._events.delete(
            project_id,
            uuids=selection.uuids,
            distinct_ids=selection.distinct_ids,
            event=selection.event,
            before=selection.before,
        )
        if repair is not None:
            await self._behaviors.end_deletion(project_id, repair)
        if has_copies:
            # Again: until now, more copies may have been made of the stored events.
            copies += await self._delete_copies(project_id, selection)
        return DeletedEvents(events=events, copies=copies)

    async def wait_for_accepted(self, project_id: ProjectId) -> None:
        """Wait until all accepted events of the project are stored. Raises Unavailable after a
        while: what is deleted before could come back."""
        await self._accepted.wait_for_all(project_id)

    async def _delete_copies(self, project_id: ProjectId, selection: EventSelection) -> int:
        deleted = [
            await each.delete_copies(project_id, selection.uuids, selection.distinct_ids)
            for each in self._copies
        ]
        return sum(deleted)

    @asynccontextmanager
    async def record(
        self,
        project_id: ProjectId,
        now: datetime,
        *,
        person_uuid: str = "",
        is_personal: bool = True,
    ) -> AsyncIterator[None]:
        """Record a deletion before it begins: its data is purged even if this process ends. One
        that fails is not reported as completed."""
        id = await self._deletions.begin(project_id, person_uuid, now)
        try:
            yield
        except AppError:
            await self._deletions.end(id, now, is_personal=is_personal, is_complete=False)
            raise
        await self._deletions.end(id, now, is_personal=is_personal)

    async def list_deletions(self, query: DeletionQuery) -> tuple[list[Deletion], int]:
        """Return a page of the deletions of persons, newest first, and their number."""
        return await self._deletions.list_deletions(query)


def _build_entry(
    project_id: ProjectId, selection: EventSelection, deleted: DeletedEvents, actor: Actor
) -> ActivityEntry:
    which: dict[str, Any] = {
        "uuids": list(selection.uuids[:MAX_AUDITED_UUIDS]),
        "distinct_ids": len(selection.distinct_ids),
        "event": selection.event,
        "before": format_iso(selection.before) if selection.before else None,
        "copies_deleted": deleted.copies,
    }
    number = deleted.events
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
                if await self._deletion.count(project.id, selection):
                    await self._deletion.delete(project.id, selection, SYSTEM, now)


def _midnight(moment: datetime) -> datetime:
    return datetime.combine(moment.date(), time.min, moment.tzinfo)
