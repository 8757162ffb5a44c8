"""Deleting events, which the audit trail tells of."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hedgerow.events.store import EventStore
from hedgerow.kit.clock import iso
from hedgerow.projects.activity import Actor, Entry
from hedgerow.projects.model import ProjectId
from hedgerow.projects.store import ActivityStore

SCOPE = "Event"
# So many uuids of deleted events are told.
TOLD = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which events of a project: those for which all that is given holds."""

    uuids: Sequence[str] = ()
    distinct_ids: Sequence[str] = ()
    event: str = ""
    before: datetime | None = None


class Deletion:
    """`arrived` waits until events can be found that were accepted before."""

    def __init__(
        self,
        events: EventStore,
        activity: ActivityStore,
        arrived: Callable[[], Awaitable[None]],
    ) -> None:
        self._events = events
        self._activity = activity
        self._arrived = arrived

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
        await self._arrived()
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
