"""A crash between the parts of a fan-out: each event reaches each destination once."""

from dataclasses import replace

import pytest
from sqlalchemy import func

from hedgerow.ingestion import fan_out
from hedgerow.pipelines.deliveries import routing
from hedgerow.pipelines.model import ComponentId
from hedgerow.plugin.component import Family
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.ingestion import inbox_packing
from hedgerow.storage.pipelines.records import SqlRecordStore
from hedgerow.storage.tables import delivery_events
from tests.fault.capture_batches import build_event
from tests.fault.test_capture_steps import (
    NOW,
    TRANSFORMATION,
    Crash,
    Killed,
    World,
    assert_once,
    build_entry,
)
from tests.fault.test_capture_steps import world as world

DESTINATION = replace(
    TRANSFORMATION, family=Family.DESTINATION, component_id=ComponentId(1), component_version="1"
)


@pytest.mark.parametrize("slices", [1, 3, 4])
async def test_crash_during_a_fan_out_adds_each_delivery_once(
    world: World, slices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_packing, "FAN_OUT_EVENTS", 2)
    monkeypatch.setattr(fan_out, "FAN_OUT_EVENTS", 2)
    records = SqlRecordStore(world.database)
    made = [await records.add(DESTINATION, build_entry, None, NOW) for _ in range(3)]
    batch = [build_event("seen", f"{number}") for number in range(9)]
    node = await world.process(Crash("after stored", turns=slices - 1))
    await node.accept(batch)
    with pytest.raises(Killed):
        await node.work()
    events = await world.number_of(func.count(delivery_events.c.id))
    assert events == 2 * slices
    last = await world.process(Crash(""))
    assert last.progress.waiting == len(batch) - events
    await last.work()
    queue = SqlDeliveryStore(world.database)
    for record in made:
        due = await queue.due(record.id, 100, 0)
        assert [each.event.distinct_id for each in due] == [each["distinct_id"] for each in batch]
    assert await world.number_of(func.count(delivery_events.c.id)) == len(batch)


async def test_events_whose_filters_take_long_are_routed_in_turns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in a turn at worst. A crash leaves the others where they are."""
    monkeypatch.setattr(routing, "MATCH_BUDGET_S", 1e-9)
    record = await SqlRecordStore(world.database).add(DESTINATION, build_entry, None, NOW)
    batch = [build_event("seen", f"{number}") for number in range(9)]
    node = await world.process(Crash(""))
    await node.accept(batch)
    await node.work()
    queue = SqlDeliveryStore(world.database)
    for routed in range(1, 10):
        due = await queue.due(record.id, 100, 0)
        assert [each.event.distinct_id for each in due] == [f"{n}" for n in range(routed)]
        await (await world.process(Crash(""))).processor.work_off_routing()
    await assert_once(world, batch)
