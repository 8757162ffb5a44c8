"""Deliveries: made as the store step ends, sent in their order, and none forgotten."""

from datetime import timedelta

import pytest
from sqlalchemy import func, select

from hedgerow.events.model import Event, PersonMode
from hedgerow.pipelines.deliveries import Ages, LogLevel, LogLine, NewDelivery, Report
from hedgerow.pipelines.model import Record, RecordId
from hedgerow.pipelines.retry import HEALTHY, Dead, Health, RetryAt
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries import DeliveryRecords, add
from hedgerow.storage.inbox import InboxRecords
from hedgerow.storage.tables import deliveries
from tests.contract.stores.conftest import DEFAULT_PROJECT, LATER, NOW, Stores, edited
from tests.contract.stores.test_inbox import arrived, decide

NOW_MS = int(NOW.timestamp() * 1000)
AGES = Ages(waiting_ms=7 * 86_400_000, dead_ms=30 * 86_400_000, delivered_ms=90 * 86_400_000)


def event(number: int, by: str = "ann") -> Event:
    return Event(
        project_id=DEFAULT_PROJECT,
        uuid=f"0199aaaa-0000-7000-8000-{number:012}",
        event="seen",
        distinct_id=by,
        properties='{"naïve 🌿": "ü"}',
        elements_chain="",
        timestamp=NOW,
        created_at=NOW,
        person_id="p",
        person_created_at=NOW,
        person_properties="{}",
        person_mode=PersonMode.FULL,
        historical_migration=False,
    )


async def queue(stores: Stores, *events: Event) -> tuple[DeliveryRecords, RecordId]:
    record = await stores.new_record(enabled=True)
    made = [NewDelivery(record_id=record.id, event=each) for each in events]
    await stores.database.write(lambda connection: add(connection, made, NOW))
    return DeliveryRecords(stores.database), record.id


def report(record_id: RecordId, **fields: object) -> Report:
    made = Report(record_id=record_id, health=HEALTHY, **fields)  # type: ignore[arg-type]
    made.took(3)
    return made


async def count(stores: Stores, status: str) -> int:
    asked = select(func.count()).where(deliveries.c.status == status)
    return int(await stores.scalar(asked))


async def test_deliveries_are_made_once_by_whoever_ends_the_row(stores: Stores) -> None:
    record = await stores.new_record(enabled=True)
    inbox = InboxRecords(stores.database, 1)
    await inbox.add(DEFAULT_PROJECT, [arrived(1), arrived(2)], (), NOW)
    assert await inbox.settle(0, await inbox.oldest(0), decide, NOW)
    rows = await inbox.ready(0)
    new = {
        row.id: [NewDelivery(record_id=record.id, event=each) for each in row.events]
        for row in rows
    }
    await inbox.stored(rows, new, NOW)
    await inbox.stored(rows, new, NOW)
    found = await DeliveryRecords(stores.database).due(record.id, 10, NOW_MS)
    assert [each.event for each in found] == [each for row in rows for each in row.events]


async def test_a_queue_gives_retries_first_then_the_rest_in_order(stores: Stores) -> None:
    records, id = await queue(stores, *(event(number) for number in range(5)))
    first = await records.due(id, 10, NOW_MS)
    assert [each.event for each in first] == [event(number) for number in range(5)]
    again = RetryAt(due_ms=NOW_MS + 1000, attempts=1, reason="HTTP 500")
    await records.report(report(id, retried={first[3].id: again}), NOW)
    assert [each.id for each in await records.due(id, 10, NOW_MS)] == [
        first[place].id for place in (0, 1, 2, 4)
    ]
    later = await records.due(id, 2, NOW_MS + 1000)
    assert [(each.id, each.attempts) for each in later] == [(first[3].id, 1), (first[0].id, 0)]


async def test_who_keeps_order_waits_for_a_retry_of_the_same_distinct_id(stores: Stores) -> None:
    events = [event(1, "ann"), event(2, "bob"), event(3, "ann"), event(4, "bob")]
    records, id = await queue(stores, *events)
    ann, *_ = await records.due_in_order(id, 10, NOW_MS)
    again = RetryAt(due_ms=NOW_MS + 1000, attempts=1, reason="HTTP 500")
    await records.report(report(id, retried={ann.id: again}), NOW)
    due = await records.due_in_order(id, 10, NOW_MS)
    assert [each.event.distinct_id for each in due] == ["bob", "bob"]
    later = await records.due_in_order(id, 1, NOW_MS + 1000)
    assert [each.id for each in later] == [ann.id]


async def test_what_became_of_deliveries_is_kept_and_counted(stores: Stores) -> None:
    records, id = await queue(stores, *(event(number) for number in range(4)))
    one, two, three, _ = await records.due(id, 10, NOW_MS)
    health = Health(error="HTTP 500", failures=2, paused_until_ms=5)
    dead = Dead(since_ms=NOW_MS, attempts=1, reason="HTTP 400")
    told = Report(
        record_id=id,
        health=health,
        delivered=[one.id, two.id],
        dead={three.id: dead},
        logs=[LogLine(level=LogLevel.ERROR, message="ü 🌿", uuid=three.event.uuid)],
    )
    told.took(7)
    await records.report(told, NOW)
    assert await records.health(id) == health
    assert await records.errors() == {id: "HTTP 500"}
    hour = NOW_MS - NOW_MS % 3_600_000
    assert await records.counts_since(hour - 1) == {id: (2, 1)}
    assert await records.counts_since(hour) == {}
    await records.report(report(id, delivered=[three.id]), NOW)
    assert await records.counts_since(hour - 1) == {id: (3, 1)}
    assert await records.errors() == {}


async def test_what_waited_for_too_long_is_dead_and_what_was_dead_for_too_long_is_gone(
    stores: Stores,
) -> None:
    records, id = await queue(stores, event(1), event(2))
    await records.forget_old(AGES, NOW + timedelta(days=6))
    assert await count(stores, "waiting") == 2
    await records.forget_old(AGES, NOW + timedelta(days=8))
    assert await count(stores, "dead") == 2
    assert await records.due(id, 10, NOW_MS) == ()
    await records.forget_old(AGES, NOW + timedelta(days=39))
    assert await count(stores, "dead") == 0


async def test_one_process_at_a_time_has_a_queue(stores: Stores, other_stores: Stores) -> None:
    if stores.database.engine_name == "sqlite":
        pytest.skip("one process has it all")
    records, id = await queue(stores, event(1))
    others = DeliveryRecords(other_stores.database)
    assert await records.take(id)
    assert not await others.take(id)
    assert await records.take(id)
    await records.let_go()
    assert await others.take(id)
    assert not await records.take(id)


async def test_a_record_knows_when_it_was_enabled(stores: Stores) -> None:
    record = await stores.new_record(enabled=True)
    assert record.switches == (NOW_MS,)
    renamed = await edited(stores, record, name="another")
    await edited(stores, renamed, enabled=False)
    (found,) = await stores.pipelines.destinations([DEFAULT_PROJECT])
    assert isinstance(found, Record)
    assert found.switches == (NOW_MS, int(LATER.timestamp() * 1000))


async def test_what_is_deleted_is_sent_nowhere(stores: Stores) -> None:
    sent = [event(1), event(2, by="bob"), event(3, by="bob"), event(4, by="cid")]
    records, id = await queue(stores, *sent)
    await records.forget(DEFAULT_PROJECT, [sent[0].uuid], [])
    await records.forget(DEFAULT_PROJECT, [sent[1].uuid], ["ann"])
    await records.forget(ProjectId(DEFAULT_PROJECT + 1), [], ["cid"])
    await records.forget(DEFAULT_PROJECT, [], [])
    assert [each.event for each in await records.due(id, 10, NOW_MS)] == sent[1:]
    await records.forget(DEFAULT_PROJECT, [], ["bob"])
    assert [each.event for each in await records.due(id, 10, NOW_MS)] == sent[3:]
