"""The routing stage of ingestion: from stored events to new deliveries."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain

from hedgerow.events.model import Event
from hedgerow.lib.clock import Clock
from hedgerow.lib.threads import run_in_thread
from hedgerow.pipelines.deliveries.groups import add_groups
from hedgerow.pipelines.deliveries.model import NewDeliveries, NewDelivery
from hedgerow.pipelines.deliveries.router import DestinationRouter
from hedgerow.pipelines.destinations.registry import DestinationRegistry
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import GroupStore
from hedgerow.projects.model import ProjectId

MatchedEvents = Mapping[int, Sequence[tuple[Event, Sequence[RecordId]]]]
# How long the filters of a call may take. They are written by users: at worst an event takes 5 ms
# for each pattern of each destination.
MAX_MATCH_S = 0.5


class RoutingStage:
    """`wake` receives the records that have new deliveries."""

    def __init__(
        self,
        destinations: DestinationRegistry,
        groups: GroupStore,
        wake: Callable[[Iterable[RecordId]], None],
        clock: Clock,
    ) -> None:
        self._destinations = destinations
        self._groups = groups
        self._wake = wake
        self._clock = clock

    async def refresh(self) -> None:
        """Reload changed destinations. Call it after loading events and before routing them, so
        that every destination that was enabled before an event was accepted is known."""
        await self._destinations.refresh()

    async def route(self, events: Mapping[int, Sequence[Event]]) -> tuple[int, NewDeliveries]:
        """Return the deliveries of these events, by the inbox row that they come from. If the
        filters take long, only those of the first events, at least one. Returns the number of
        events, too."""
        routers, now = self._destinations.routers, self._clock()
        if not routers:
            return sum(map(len, events.values())), {}
        # In a thread, because users write the filters. A pattern holds the interpreter for 5 ms at
        # most.
        number, matched = await run_in_thread(partial(_match_events, events, dict(routers), now))
        grouped = await add_groups(
            (event for some in matched.values() for event, _ in some), self._groups
        )
        new = {
            row: [
                NewDelivery(
                    event=grouped.get((event.project_id, event.uuid), event), record_ids=ids
                )
                for event, ids in some
            ]
            for row, some in matched.items()
        }
        return number, new

    def wake_destinations(self, deliveries: NewDeliveries) -> None:
        if deliveries:
            made = chain.from_iterable(deliveries.values())
            self._wake({id for each in made for id in each.record_ids})


def _match_events(
    events: Mapping[int, Sequence[Event]],
    routers: Mapping[ProjectId, DestinationRouter],
    now: datetime,
) -> tuple[int, MatchedEvents]:
    deadline = time.monotonic() + MAX_MATCH_S
    number = 0
    matched: dict[int, list[tuple[Event, Sequence[RecordId]]]] = {}
    for row, some in events.items():
        for event in some:
            if number and time.monotonic() >= deadline:
                return number, matched
            number += 1
            router = routers.get(event.project_id)
            if router is not None and (ids := router.destinations(event, now)):
                matched.setdefault(row, []).append((event, ids))
    return number, matched
