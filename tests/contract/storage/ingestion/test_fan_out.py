"""Events whose filters take long wait in the backlog of their project, in their order."""

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from hedgerow.events.model import Event
from hedgerow.ingestion.fan_out import FanOut
from hedgerow.ingestion.model import ProcessedRow
from hedgerow.ingestion.progress import Progress
from hedgerow.pipelines.deliveries.model import NewDeliveries, NewDelivery
from hedgerow.pipelines.deliveries.routing import RoutingBudget, RoutingStage
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from tests.contract.storage.conftest import DEFAULT_PROJECT, NOW, Stores, run_sql
from tests.contract.storage.ingestion.test_inbox import build_captured_event, decide

NOW_MS = int(NOW.timestamp() * 1000)
BUDGET_EVENTS = 3


class SlowFilters:
    """Routes the first events of the slow project in each batch, and those of others at once."""

    def __init__(self, records: Mapping[ProjectId, RecordId]) -> None:
        self._records = records

    async def refresh(self) -> None: ...

    def wake_destinations(self, deliveries: NewDeliveries) -> None: ...

    async def route(
        self, events: Mapping[int, Sequence[Event]], budget: RoutingBudget
    ) -> tuple[Mapping[int, int], NewDeliveries]:
        numbers: dict[int, int] = {}
        new: dict[int, list[NewDelivery]] = {}
        for row, some in events.items():
            numbers[row] = len(some)
            for number, event in enumerate(some):
                if not budget.has_left(event.project_id):
                    numbers[row] = number
                    break
                if event.project_id == DEFAULT_PROJECT:
                    budget.spend(event.project_id, 0.1 / BUDGET_EVENTS + 0.001)
                record_id = self._records[event.project_id]
                new.setdefault(row, []).append(NewDelivery(event=event, record_ids=[record_id]))
        return numbers, new


class World:
    def __init__(self, stores: Stores, records: Mapping[ProjectId, RecordId]) -> None:
        self.stores = stores
        self.inbox = SqlInboxStore(stores.database, 1)
        self.progress = Progress()
        self.stored: list[ProcessedRow] = []
        routing = cast(RoutingStage, SlowFilters(records))
        self.fan_out = FanOut(self.inbox, routing, self.progress, self.stored.extend, lambda: NOW)
        self.records = records

    async def add(self, project_id: ProjectId, numbers: range) -> None:
        events = [build_captured_event(number) for number in numbers]
        await self.inbox.add(project_id, events, (), NOW)
        rows = await self.inbox.fetch_unprocessed(0)
        assert await self.inbox.process(0, rows, decide, NOW)

    async def fan_out_all(self) -> None:
        await self.fan_out.run(await self.inbox.fetch_processed(0))

    async def list_delivered(self, project_id: ProjectId) -> list[int]:
        store = SqlDeliveryStore(self.stores.database)
        found = await store.due(self.records[project_id], 1000, NOW_MS)
        return [int(each.event.uuid[-12:]) for each in found]


@pytest.fixture
async def other(stores: Stores) -> ProjectId:
    return (await stores.new_project()).id


@pytest.fixture
async def world(stores: Stores, other: ProjectId) -> World:
    own = await stores.new_record(enabled=True)
    of_other = await stores.new_record(enabled=True, project_id=other)
    return World(stores, {DEFAULT_PROJECT: own.id, other: of_other.id})


async def test_others_do_not_wait_for_slow_filters(world: World, other: ProjectId) -> None:
    await world.add(DEFAULT_PROJECT, range(10))
    await world.add(other, range(4))
    await world.fan_out_all()
    assert await world.list_delivered(other) == [0, 1, 2, 3]
    assert await world.list_delivered(DEFAULT_PROJECT) == [0, 1, 2]
    # All are stored, and the rest is known.
    assert sum(row.number for row in world.stored) == 14
    assert not await world.inbox.fetch_processed(0)
    assert await world.inbox.count_unrouted() == {DEFAULT_PROJECT: 7}


async def test_later_events_do_not_overtake_the_backlog(world: World) -> None:
    await world.add(DEFAULT_PROJECT, range(5))
    await world.fan_out_all()
    await world.add(DEFAULT_PROJECT, range(5, 7))
    await world.fan_out_all()
    assert await world.list_delivered(DEFAULT_PROJECT) == [0, 1, 2]
    await world.fan_out.work_off()
    await world.fan_out.work_off()
    assert await world.list_delivered(DEFAULT_PROJECT) == list(range(7))
    assert await world.inbox.count_unrouted() == {}


async def test_backlog_counts_against_the_share_of_its_project(
    world: World, other: ProjectId
) -> None:
    await world.add(DEFAULT_PROJECT, range(10))
    await world.fan_out_all()
    await world.fan_out.work_off()
    assert world.progress.count_waiting(DEFAULT_PROJECT) == 7
    assert world.progress.count_waiting(other) == 0
    assert world.progress.waiting == 7


async def test_each_delivery_is_created_once_if_two_workers_do_the_same(world: World) -> None:
    await world.add(DEFAULT_PROJECT, range(10))
    await world.fan_out_all()
    rows = await world.inbox.fetch_unrouted(DEFAULT_PROJECT)
    new = {
        row.id: [
            NewDelivery(event=each, record_ids=[world.records[DEFAULT_PROJECT]])
            for each in row.events
        ]
        for row in rows
    }
    for _ in range(2):
        await world.inbox.mark_routed(rows, new, NOW)
    assert await world.list_delivered(DEFAULT_PROJECT) == list(range(10))


async def test_events_of_deleted_projects_are_dropped(world: World) -> None:
    await world.add(DEFAULT_PROJECT, range(10))
    await world.fan_out_all()
    run_sql(
        world.stores.location,
        "INSERT INTO project_deletions (project_id, requested_at, rows_deleted)"
        " VALUES (1, '2026-01-01 00:00:00', 0)",
    )
    await world.fan_out.work_off()
    assert await world.inbox.count_unrouted() == {}
    assert await world.list_delivered(DEFAULT_PROJECT) == [0, 1, 2]
