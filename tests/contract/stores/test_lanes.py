"""The deliver loop on a real database, alone and with another process beside it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select

from hedgerow.events.model import Event
from hedgerow.lib.clock import utc_now
from hedgerow.lib.sealing import SealingKeys, new_sealing_key
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.deliver import Deliverer
from hedgerow.pipelines.deliveries import NewDelivery
from hedgerow.pipelines.destinations import Destinations
from hedgerow.pipelines.model import ComponentId, Family, RecordId
from hedgerow.pipelines.sending import Outcome, Sent, Surroundings, WaysOut
from hedgerow.storage.deliveries import DeliveryRecords, add
from hedgerow.storage.tables import deliveries
from tests.contract.stores.conftest import NOW, Stores
from tests.contract.stores.test_deliveries import event

ODD = ComponentId(1000)
KEEP_MS = 10**12


class Loop:
    """One process's deliver loop, with a component that notes what it is given."""

    def __init__(self, stores: Stores) -> None:
        self.got: list[str] = []
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
        destinations = Destinations(stores.pipelines, catalogue, SealingKeys([new_sealing_key()]))
        self.defects: list[Exception] = []
        http: Any = None
        self.deliverer = Deliverer(
            destinations,
            DeliveryRecords(stores.database),
            WaysOut(http=http),
            utc_now,
            keep_ms=KEEP_MS,
            note=lambda _, error: self.defects.append(error),
        )

    async def _deliver(
        self, events: Sequence[Event], settings: Mapping[str, Any], around: Surroundings
    ) -> Sequence[Outcome]:
        await asyncio.sleep(0.001)
        self.got += [each.uuid for each in events]
        return [Sent()] * len(events)


async def queued(stores: Stores, id: RecordId, numbers: range) -> None:
    made = [NewDelivery(record_id=id, event=event(number)) for number in numbers]
    await stores.database.write(lambda connection: add(connection, made, NOW))


async def left(stores: Stores) -> int:
    return int(await stores.scalar(select(func.count()).select_from(deliveries)))


async def run_until_empty(stores: Stores, *loops: Loop) -> None:
    running = [asyncio.create_task(loop.deliverer.run()) for loop in loops]
    async with asyncio.timeout(60):
        while await left(stores):
            await asyncio.sleep(0.05)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert [error for loop in loops for error in loop.defects] == []


async def test_each_delivery_is_sent_once_whoever_works(
    stores: Stores, other_stores: Stores
) -> None:
    records = [await stores.new_record(enabled=True, component_id=ODD) for _ in range(3)]
    for number, record in enumerate(records):
        await queued(stores, record.id, range(number * 1000, number * 1000 + 450))
    is_alone = stores.database.engine_name == "sqlite"
    loops = [Loop(stores)] if is_alone else [Loop(stores), Loop(other_stores)]
    await run_until_empty(stores, *loops)
    got = [uuid for loop in loops for uuid in loop.got]
    assert len(got) == len(set(got)) == 3 * 450


async def test_a_queue_is_left_to_others_by_who_ends(stores: Stores, other_stores: Stores) -> None:
    record = await stores.new_record(enabled=True, component_id=ODD)
    await queued(stores, record.id, range(10))
    await run_until_empty(stores, Loop(stores))
    await queued(stores, record.id, range(10, 20))
    after = Loop(other_stores)
    await run_until_empty(stores, after)
    assert len(after.got) == 10


async def test_a_disabled_destination_is_sent_nothing_and_loses_nothing(stores: Stores) -> None:
    record = await stores.new_record(enabled=False, component_id=ODD)
    other = await stores.new_record(enabled=True, component_id=ODD)
    await queued(stores, record.id, range(10))
    await queued(stores, other.id, range(100, 110))
    loop = Loop(stores)
    running = asyncio.create_task(loop.deliverer.run())
    async with asyncio.timeout(60):
        while len(loop.got) < 10:
            await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert set(loop.got) == {event(number).uuid for number in range(100, 110)}
    assert await left(stores) >= 10
