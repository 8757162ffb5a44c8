"""The delivery loop on a real database, with one process and with two."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from sqlalchemy import func, select

from hedgerow.events.model import Event
from hedgerow.lib.clock import utc_now
from hedgerow.lib.encryption import EncryptionKeys, generate_encryption_key
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.deliveries.deliverer import PLACES, Deliverer
from hedgerow.pipelines.deliveries.model import Delivery, DeliveryReport, NewDelivery
from hedgerow.pipelines.deliveries.retry import PauseState
from hedgerow.pipelines.deliveries.round_memory import RoundMemory
from hedgerow.pipelines.destinations.attempt import OutboundClients
from hedgerow.pipelines.destinations.registry import DestinationRegistry
from hedgerow.pipelines.model import ComponentId, RecordId
from hedgerow.plugin.component import Component, Family
from hedgerow.plugin.delivery import DeliveryContext
from hedgerow.plugin.outcomes import Delivered, Outcome
from hedgerow.storage.deliveries.new_deliveries import add_deliveries
from hedgerow.storage.deliveries.queue import SqlDeliveryStore, end_pause
from hedgerow.storage.tables import delivery_batches
from tests.contract.storage.conftest import NOW, Stores
from tests.contract.storage.deliveries.test_queue import event

ODD = ComponentId(1000)
KEEP_MS = 10**12


class Loop:
    """The delivery loop of one process, with a component that records its events."""

    def __init__(
        self,
        stores: Stores,
        memory: RoundMemory | None = None,
        store: SqlDeliveryStore | None = None,
    ) -> None:
        self.got: list[str] = []
        self.memory = memory or RoundMemory()
        self.most_bytes = 0
        catalogue = Catalogue()
        component = Component(
            key="test/odd",
            family=Family.DESTINATION,
            name="Odd",
            description="",
            version="1",
            deliver=self._deliver,
        )
        catalogue.add({component.key: ODD}, [component], [])
        destinations = DestinationRegistry(
            stores.pipelines, catalogue, EncryptionKeys([generate_encryption_key()])
        )
        self.defects: list[Exception] = []
        http: Any = None
        self.deliverer = Deliverer(
            destinations,
            store or SqlDeliveryStore(stores.database),
            OutboundClients(http=http),
            utc_now,
            max_age_ms=KEEP_MS,
            on_error=lambda _, error: self.defects.append(error),
            memory=self.memory,
        )

    async def _deliver(
        self, events: Sequence[Event], settings: Mapping[str, Any], ctx: DeliveryContext
    ) -> Sequence[Outcome]:
        await asyncio.sleep(0.001)
        self.most_bytes = max(self.most_bytes, self.memory.used_bytes)
        self.got += [each.uuid for each in events]
        return [Delivered()] * len(events)


async def queue_events(stores: Stores, id: RecordId, numbers: range) -> None:
    created = [NewDelivery(event=event(number), record_ids=[id]) for number in numbers]
    await stores.database.write(lambda connection: add_deliveries(connection, created, NOW))


async def count_queued(stores: Stores) -> int:
    return int(await stores.fetch_scalar(select(func.sum(delivery_batches.c.number))) or 0)


async def run_until_empty(stores: Stores, *loops: Loop) -> None:
    running = [asyncio.create_task(loop.deliverer.run()) for loop in loops]
    async with asyncio.timeout(60):
        while await count_queued(stores):
            await asyncio.sleep(0.05)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert [error for loop in loops for error in loop.defects] == []


async def test_each_delivery_is_sent_once_by_concurrent_workers(
    stores: Stores, other_stores: Stores
) -> None:
    records = [await stores.new_record(enabled=True, component_id=ODD) for _ in range(3)]
    for number, record in enumerate(records):
        await queue_events(stores, record.id, range(number * 1000, number * 1000 + 450))
    is_alone = stores.database.engine_name == "sqlite"
    loops = [Loop(stores)] if is_alone else [Loop(stores), Loop(other_stores)]
    await run_until_empty(stores, *loops)
    got = [uuid for loop in loops for uuid in loop.got]
    assert len(got) == len(set(got)) == 3 * 450


async def test_lanes_of_a_project_hold_few_large_events_at_a_time(stores: Stores) -> None:
    records = [await stores.new_record(enabled=True, component_id=ODD) for _ in range(8)]
    large = msgspec.structs.replace(event(1), properties='{"text": "%s"}' % ("x" * 100_000))
    for number, record in enumerate(records):
        created = [
            NewDelivery(
                record_ids=[record.id],
                event=msgspec.structs.replace(large, uuid=event(number * 100 + each).uuid),
            )
            for each in range(5)
        ]
        await stores.database.write(partial(add_deliveries, made=created, now=NOW))
    loop = Loop(stores, RoundMemory(max_bytes=500_000, max_project_bytes=250_000))
    await run_until_empty(stores, loop)
    assert len(loop.got) == len(set(loop.got)) == 40
    assert 200_000 < loop.most_bytes <= 250_000
    assert loop.memory.used_bytes == 0


async def test_stopping_worker_releases_its_queues(stores: Stores, other_stores: Stores) -> None:
    record = await stores.new_record(enabled=True, component_id=ODD)
    await queue_events(stores, record.id, range(10))
    await run_until_empty(stores, Loop(stores))
    await queue_events(stores, record.id, range(10, 20))
    after = Loop(other_stores)
    await run_until_empty(stores, after)
    assert len(after.got) == 10


async def test_disabled_destination_receives_and_loses_nothing(stores: Stores) -> None:
    record = await stores.new_record(enabled=False, component_id=ODD)
    other = await stores.new_record(enabled=True, component_id=ODD)
    await queue_events(stores, record.id, range(10))
    await queue_events(stores, other.id, range(100, 110))
    loop = Loop(stores)
    running = asyncio.create_task(loop.deliverer.run())
    async with asyncio.timeout(60):
        while len(loop.got) < 10:
            await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert set(loop.got) == {event(number).uuid for number in range(100, 110)}
    assert await count_queued(stores) >= 10


class ObservedStore(SqlDeliveryStore):
    """Counts the polls, and the rounds. Loads of one project wait for an event."""

    def __init__(self, stores: Stores, slow: Collection[RecordId] = ()) -> None:
        super().__init__(stores.database)
        self.polled: list[set[RecordId]] = []
        self.rounds = self.loading = self.most_loading = 0
        self.released = asyncio.Event()
        self._slow = slow

    async def find_due(self, record_ids: Sequence[RecordId], now_ms: int) -> set[RecordId]:
        self.polled.append(set(record_ids))
        return await super().find_due(record_ids, now_ms)

    async def acquire(self, record_id: RecordId) -> bool:
        self.rounds += 1
        return await super().acquire(record_id)

    async def due(self, record_id: RecordId, *args: Any) -> Sequence[Delivery]:
        if record_id in self._slow:
            self.loading += 1
            self.most_loading = max(self.most_loading, self.loading)
            await self.released.wait()
            self.loading -= 1
        return await super().due(record_id, *args)


@asynccontextmanager
async def run(loop: Loop) -> AsyncIterator[None]:
    running = asyncio.create_task(loop.deliverer.run())
    async with asyncio.timeout(60):
        yield
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def test_idle_lanes_cost_one_query_for_all(stores: Stores) -> None:
    ids = {(await stores.new_record(enabled=True, component_id=ODD)).id for _ in range(8)}
    store = ObservedStore(stores)
    loop = Loop(stores, store=store)
    async with run(loop):
        await wait_until(lambda: store.polled.count(ids) >= 3)
        assert store.rounds == 0
        # Neither do lanes that are paused, until their pause ends.
        paused, *_ = ids
        await queue_events(stores, paused, range(10))
        state = PauseState(error="Paused", failures=9, paused_until_ms=pause_end_ms())
        await store.save_report(DeliveryReport(record_id=paused, pause_state=state), NOW)
        rounds, polled = store.rounds, len(store.polled)
        await wait_until(lambda: len(store.polled) > polled + 2)
        assert (store.rounds, loop.got) == (rounds, [])
        await stores.database.write(partial(end_pause, record_id=paused))
        await wait_until(lambda: len(loop.got) == 10)


def pause_end_ms() -> int:
    return int(utc_now().timestamp() * 1000) + 60_000


async def test_lanes_of_one_project_leave_places_for_another(stores: Stores) -> None:
    many = [await stores.new_record(enabled=True, component_id=ODD) for _ in range(20)]
    other = (await stores.new_project(token="phc_other")).id
    one = await stores.new_record(enabled=True, component_id=ODD, project_id=other)
    for record in many:
        await queue_events(stores, record.id, range(1))
    store = ObservedStore(stores, [record.id for record in many])
    loop = Loop(stores, store=store)
    async with run(loop):
        await wait_until(lambda: store.loading > 0)
        of_other = msgspec.structs.replace(event(1), project_id=other)
        new = [NewDelivery(event=of_other, record_ids=[one.id])]
        await stores.database.write(partial(add_deliveries, made=new, now=NOW))
        await wait_until(lambda: bool(loop.got))
        assert store.most_loading < PLACES
        store.released.set()
        await wait_until(lambda: len(loop.got) == 21)
