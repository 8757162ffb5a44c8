"""From stored events to deliveries: which destinations they go to, by the records as they are."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from hedgerow.events.model import Event
from hedgerow.lib.clock import Clock
from hedgerow.pipelines.deliveries import NewDeliveries, NewDelivery
from hedgerow.pipelines.destinations import Destinations
from hedgerow.pipelines.grouping import with_groups
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import GroupStore


class Routing:
    """`wake` hears of the records that there is something new for."""

    def __init__(
        self,
        destinations: Destinations,
        groups: GroupStore,
        wake: Callable[[Iterable[RecordId]], None],
        clock: Clock,
    ) -> None:
        self._destinations = destinations
        self._groups = groups
        self._wake = wake
        self._clock = clock

    async def refresh(self) -> None:
        """Call between reading events and routing them: who was enabled before they were accepted
        is known then."""
        await self._destinations.refresh()

    async def routed(self, events: Mapping[int, Sequence[Event]]) -> NewDeliveries:
        """The deliveries to be made of events, by the number of the row that they come from."""
        routers, now = self._destinations.routers, self._clock()
        if not routers:
            return {}
        wanted = {
            row: [
                (event, ids)
                for event in some
                if (router := routers.get(event.project_id)) is not None
                and (ids := router.destinations(event, now))
            ]
            for row, some in events.items()
        }
        grouped = await with_groups(
            (event for some in wanted.values() for event, _ in some), self._groups
        )
        return {
            row: [
                NewDelivery(record_id=id, event=grouped.get((event.project_id, event.uuid), event))
                for event, ids in some
                for id in ids
            ]
            for row, some in wanted.items()
            if some
        }

    def made(self, deliveries: NewDeliveries) -> None:
        if deliveries:
            self._wake({each.record_id for some in deliveries.values() for each in some})
