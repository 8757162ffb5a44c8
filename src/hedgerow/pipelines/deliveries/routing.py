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
# How long the filters of a project may take in a batch. They are written by users: at worst an
# event takes 5 ms for each pattern of each destination.
MATCH_BUDGET_S = 0.1


class RoutingBudget:
    """The time that the filters of each project have left in a batch. Projects that are `exhausted`
    have none: earlier events of theirs wait."""

    def __init__(self, exhausted: Iterable[ProjectId] = ()) -> None:
        self._left_s = dict.fromkeys(exhausted, 0.0)

    def has_left(self, project_id: ProjectId) -> bool:
        return self._left_s.get(project_id, MATCH_BUDGET_S) > 0

    def spend(self, project_id: ProjectId, seconds: float) -> None:
        self._left_s[project_id] = self._left_s.get(project_id, MATCH_BUDGET_S) - seconds


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

    async def route(
        self, events: Mapping[int, Sequence[Event]], budget: RoutingBudget
    ) -> tuple[Mapping[int, int], NewDeliveries]:
        """Return how many of the first events of each row have been routed, and their deliveries,
        both by the row that they come from. All, unless the filters of a project take long."""
        routers, now = self._destinations.routers, self._clock()
        if not routers:
            return {row: len(some) for row, some in events.items()}, {}
        # In a thread, because users write the filters. A pattern holds the interpreter for 5 ms at
        # most.
        matching = partial(_match_events, events, dict(routers), now, budget)
        numbers, matched = await run_in_thread(matching)
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
        return numbers, new

    def wake_destinations(self, deliveries: NewDeliveries) -> None:
        if deliveries:
            made = chain.from_iterable(deliveries.values())
            self._wake({id for each in made for id in each.record_ids})


def _match_events(
    events: Mapping[int, Sequence[Event]],
    routers: Mapping[ProjectId, DestinationRouter],
    now: datetime,
    budget: RoutingBudget,
) -> tuple[Mapping[int, int], MatchedEvents]:
    numbers: dict[int, int] = {}
    matched: dict[int, list[tuple[Event, Sequence[RecordId]]]] = {}
    for row, some in events.items():
        numbers[row] = len(some)
        for number, event in enumerate(some):
            router = routers.get(event.project_id)
            if router is None:
                continue
            if not budget.has_left(event.project_id):
                numbers[row] = number
                break
            started = time.perf_counter()
            ids = router.destinations(event, now)
            budget.spend(event.project_id, time.perf_counter() - started)
            if ids:
                matched.setdefault(row, []).append((event, ids))
    return numbers, matched
