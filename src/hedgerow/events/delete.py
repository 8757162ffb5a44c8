"""Deleting events, which the audit trail tells of."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID

from hedgerow.errors import Invalid
from hedgerow.events.store import EventStore
from hedgerow.lib.clock import iso
from hedgerow.lib.text import cut_short, why_unstorable
from hedgerow.persons.store import PersonQuery, PersonStore
from hedgerow.projects.activity import Actor, Entry
from hedgerow.projects.model import ProjectId
from hedgerow.projects.store import ActivityStore

SCOPE = "Event"
EVENT_MAX = 200
# So many uuids of deleted events are told.
TOLD = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which events of a project: those for which all that is given holds."""

    uuids: Sequence[str] = ()
    distinct_ids: Sequence[str] = ()
    event: str = ""
    before: datetime | None = None


def checked_choice(
    *, uuids: Sequence[str], distinct_ids: Sequence[str], event: str, before: str | None
) -> Chosen:
    """What somebody asked for, or Invalid."""
    if not (uuids or distinct_ids or event or before):
        raise Invalid("Say which events: by uuid, by person, by name or before a moment.")
    if unstorable := why_unstorable(event):
        raise Invalid(unstorable[1], attr="event", code=unstorable[0])
    return Chosen(
        uuids=[_uuid(each) for each in uuids],
        distinct_ids=distinct_ids,
        event=event,
        before=None if before is None else _moment(before),
    )


async def ids_of_person(
    persons: PersonStore, project_id: ProjectId, who: str | None
) -> Sequence[str]:
    """All distinct ids of the person who has this uuid or distinct id. Of None, none."""
    if who is None:
        return ()
    if not why_unstorable(who):
        found = await persons.person(project_id, who)
        if found is None:
            query = PersonQuery(project_id=project_id, distinct_id=who, limit=1)
            found = next(iter((await persons.persons(query))[0]), None)
        if found is not None and found.distinct_ids:
            return found.distinct_ids
    raise Invalid("There is no such person.", attr="person", code="does_not_exist")


def _uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise Invalid(f'"{cut_short(text)}" is no uuid.', attr="uuids") from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        detail = "A date is required, such as 2026-01-31 or 2026-01-31T12:00:00Z."
        raise Invalid(detail, attr="before", code="invalid_date") from None


class CountedEvents(EventStore, Protocol):
    async def count(self, project_id: ProjectId, chosen: Chosen) -> int: ...


class Copies(Protocol):
    async def forget(
        self, project_id: ProjectId, uuids: Sequence[str], distinct_ids: Sequence[str]
    ) -> None:
        """Delete what waits to be sent elsewhere, or could not be, or could not be stored: of these
        events, or of all events of these ids."""
        ...


class Deletion:
    """`arrived` waits until events can be found that were accepted before."""

    def __init__(
        self,
        events: CountedEvents,
        copies: Sequence[Copies],
        activity: ActivityStore,
        arrived: Callable[[], Awaitable[None]],
    ) -> None:
        self._events = events
        self._copies = copies
        self._activity = activity
        self.arrived = arrived

    async def count(self, project_id: ProjectId, chosen: Chosen) -> int:
        """How many would be deleted."""
        await self.arrived()
        return await self._events.count(project_id, chosen)

    async def delete(
        self, project_id: ProjectId, chosen: Chosen, actor: Actor, now: datetime
    ) -> int:
        """How many they were."""
        number = await self.delete_untold(project_id, chosen)
        if number:
            await self._activity.record(_entry(project_id, chosen, number, actor), now)
        return number

    async def delete_untold(self, project_id: ProjectId, chosen: Chosen) -> int:
        """For those who tell it together with something else."""
        await self.arrived()
        if not (chosen.event or chosen.before):
            for copies in self._copies:
                await copies.forget(project_id, chosen.uuids, chosen.distinct_ids)
        return await self._events.delete(
            project_id,
            uuids=chosen.uuids,
            distinct_ids=chosen.distinct_ids,
            event=chosen.event,
            before=chosen.before,
        )


def _entry(project_id: ProjectId, chosen: Chosen, number: int, actor: Actor) -> Entry:
    which: dict[str, Any] = {
        "uuids": list(chosen.uuids[:TOLD]),
        "distinct_ids": len(chosen.distinct_ids),
        "event": chosen.event,
        "before": iso(chosen.before) if chosen.before else None,
    }
    return Entry(
        scope=SCOPE,
        item_id="",
        item_name=f"{number} event{'' if number == 1 else 's'}",
        activity="deleted",
        actor=actor,
        project_id=project_id,
        detail={"events_deleted": number, **{name: each for name, each in which.items() if each}},
    )
