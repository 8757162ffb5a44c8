"""Fan out stored events: create the deliveries for the destinations whose filters match.

Users write the filters, so those of a project may take long. Then its further events wait in a
backlog of the project, from which a background task goes on. No other project waits for them.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from hedgerow.ingestion.model import ProcessedRow
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.store import FAN_OUT_BYTES, FAN_OUT_EVENTS, InboxStore
from hedgerow.lib.clock import Clock
from hedgerow.lib.workers.fair_queue import Turns
from hedgerow.pipelines.deliveries.routing import RoutingBudget, RoutingStage
from hedgerow.projects.model import ProjectId

# How often to look for a backlog, also for one that another process has left.
POLL_INTERVAL_S = 0.5


class FanOut:
    """`on_stored` receives rows that are removed: nothing but their deliveries may be missing."""

    def __init__(
        self,
        inbox: InboxStore,
        routing: RoutingStage,
        progress: Progress,
        on_stored: Callable[[Sequence[ProcessedRow]], None],
        clock: Clock,
    ) -> None:
        self._inbox = inbox
        self._on_stored = on_stored
        self._routing = routing
        self._progress = progress
        self._clock = clock
        self._turns = Turns[ProjectId]()
        self._has_backlog = asyncio.Event()

    async def refresh(self) -> None:
        await self._routing.refresh()

    async def run(self, rows: Sequence[ProcessedRow]) -> None:
        """Create the deliveries of events that are stored, and remove their rows. Events for which
        there is no time wait in the backlog of their project, as do those after them."""
        budget = RoutingBudget(exhausted=await self._inbox.list_unrouted_projects())
        for some in _split_rows(rows, FAN_OUT_EVENTS, FAN_OUT_BYTES):
            numbers, new = await self._routing.route({row.id: row.events for row in some}, budget)
            left = [
                replace(row, events=row.events[numbers[row.id] :], rest=(), number=0)
                for row in some
                if numbers[row.id] < len(row.events)
            ]
            await self._inbox.mark_stored(some, new, self._clock(), left)
            self._on_stored(some)
            self._routing.wake_destinations(new)
            if left:
                self._has_backlog.set()

    async def work_off(self) -> None:
        """Wait for a backlog, then create some deliveries of the project whose turn it is. A
        periodic task calls this."""
        backlog = await self._inbox.count_unrouted()
        self._progress.observe_unrouted(backlog)
        own = [id for id in backlog if self._inbox.is_assigned(id)]
        if not own:
            await self._wait()
            return
        await self._routing.refresh()
        project_id = self._turns.choose(own)
        self._turns.charge(project_id, 1)
        rows = await self._inbox.fetch_unrouted(project_id)
        budget = RoutingBudget()
        numbers, new = await self._routing.route({row.id: row.events for row in rows}, budget)
        done = [
            replace(row, events=row.events[:number], rest=row.events[number:])
            for row in rows
            if (number := numbers[row.id]) or not row.events
        ]
        await self._inbox.mark_routed(done, new, self._clock())
        self._routing.wake_destinations(new)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(POLL_INTERVAL_S):
                await self._has_backlog.wait()
        except TimeoutError:
            return
        self._has_backlog.clear()


def _split_rows(
    rows: Sequence[ProcessedRow], max_events: int, max_bytes: int
) -> Iterator[Sequence[ProcessedRow]]:
    """Split rows into parts of bounded size, at least one row each."""
    start, events, size = 0, 0, 0
    for at, row in enumerate(rows):
        events += len(row.events)
        size += row.size
        if at > start and (events > max_events or size > max_bytes):
            yield rows[start:at]
            start, events, size = at, len(row.events), row.size
    yield rows[start:]
