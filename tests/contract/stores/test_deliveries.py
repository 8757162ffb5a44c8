"""Deliveries: made as the store step ends, sent in their order, and none forgotten."""

import random
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, Update, func, insert, select, update

from hedgerow.events.model import Event, PersonMode
from hedgerow.pipelines.deliveries import (
    Ages,
    DeliveryStatus,
    LogLevel,
    LogLine,
    NewDelivery,
    Report,
)
from hedgerow.pipelines.grouping import with_groups
from hedgerow.pipelines.model import Record, RecordId
from hedgerow.pipelines.payload import payload_of
from hedgerow.pipelines.retry import HEALTHY, LONGEST_RETRY_AFTER_MS, Dead, Health, RetryAt
from hedgerow.pipelines.store import Backlog
from hedgerow.projects.model import ProjectId
from hedgerow.storage import delivery_ages, delivery_order
from hedgerow.storage.deliveries import UNREADABLE, DeliveryRecords, add
from hedgerow.storage.delivery_backlogs import DeliveryBacklogs
from hedgerow.storage.delivery_groups import DeliveredGroups
from hedgerow.storage.delivery_reading import DeliveryTrail
from hedgerow.storage.inbox import InboxRecords
from hedgerow.storage.notifications import NotificationRecords
from hedgerow.storage.tables import deliveries, group_types, groups
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


def _run(statement: Update, connection: Connection) -> None:
    connection.execute(statement)


async def test_what_cannot_be_read_is_dead_and_stands_in_nobodys_way(stores: Stores) -> None:
    records, id = await queue(stores, *(event(number) for number in range(4)))
    first, second, *_ = await records.due(id, 10, NOW_MS)
    for broken, spoiled in ((first.id, b"\xff\x00"), (second.id, b"")):
        spoil = update(deliveries).where(deliveries.c.id == broken).values(event=spoiled)
        await stores.database.write(partial(_run, spoil))
    assert [each.event for each in await records.due(id, 10, NOW_MS)] == [event(2), event(3)]
    assert [each.event for each in await records.due(id, 1, NOW_MS)] == [event(2)]
    trail = DeliveryTrail(stores.database)
    told, number = await trail.deliveries(id, DeliveryStatus.DEAD, limit=10, offset=0)
    assert number == 2
    assert [(each.event, each.uuid, each.error) for each in told] == [
        (None, event(1).uuid, UNREADABLE),
        (None, event(0).uuid, UNREADABLE),
    ]


async def test_order_holds_through_any_failures(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of each turn arrive, then one has to wait, for a time of its own."""
    monkeypatch.setattr(delivery_order, "WINDOW", 5)
    monkeypatch.setattr(delivery_order, "SETTLED_MS", 0)
    chance = random.Random(7)
    people = [chance.choice(["ann", "bob", "cid"]) for _ in range(60)]
    records, id = await queue(stores, *(event(number, by) for number, by in enumerate(people)))
    arrived: dict[str, list[int]] = {"ann": [], "bob": [], "cid": []}
    now_ms, turns = NOW_MS, 0
    while await count(stores, "waiting") or await count(stores, "retrying"):
        turns += 1
        now_ms += 500
        put_off: set[str] = set()
        left: set[str] = set()
        delivered, retried = [], {}
        for each in await records.due_in_order(id, 10, now_ms):
            by = each.event.distinct_id
            if by in left or (by in put_off and chance.random() < 0.5):
                # Those of one batch are put off together; later ones are left as they are.
                left.add(by)
                continue
            if by not in put_off and chance.random() < 0.7:
                arrived[by].append(each.id)
                delivered.append(each.id)
                continue
            put_off.add(by)
            wait_ms = chance.choice([0, 100, 1000, 5000])
            again = RetryAt(due_ms=now_ms + wait_ms, attempts=each.attempts + 1, reason="x")
            retried[each.id] = again
        await records.report(report(id, delivered=delivered, retried=retried), NOW)
        assert turns < 2000
    for came in arrived.values():
        assert came == sorted(came)
    assert sum(map(len, arrived.values())) == len(people)


async def test_what_is_behind_a_retry_is_passed_over_once(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_order, "WINDOW", 2)
    people = ["ann"] * 10 + ["bob", "cid", "bob"]
    records, id = await queue(stores, *(event(number, by) for number, by in enumerate(people)))
    (first,) = await records.due_in_order(id, 1, NOW_MS)
    again = RetryAt(due_ms=NOW_MS + 10**9, attempts=1, reason="HTTP 500")
    await records.report(report(id, retried={first.id: again}), NOW)
    later_ms = NOW_MS + 2 * delivery_order.SETTLED_MS
    reads = Reads(stores, monkeypatch)
    (bob,) = await records.due_in_order(id, 1, later_ms)
    assert (bob.event, reads.number) == (event(10, "bob"), 7)
    reads.number = 0
    assert [each.event.distinct_id for each in await records.due_in_order(id, 2, later_ms)] == [
        "bob",
        "cid",
    ]
    assert reads.number == 3
    await records.report(report(id, delivered=[first.id]), NOW)
    (second,) = await records.due_in_order(id, 1, later_ms)
    assert second.event == event(1, "ann")


class Reads:
    """How many hot reads there were."""

    def __init__(self, stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        fetch = stores.database.fetch

        async def counted(*asked: Any) -> Any:
            self.number += 1
            return await fetch(*asked)

        monkeypatch.setattr(stores.database, "fetch", counted)


async def test_old_ones_are_found_a_few_at_a_time(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_ages, "AT_ONCE", 2)
    records, id = await queue(stores, *(event(number) for number in range(7)))
    found = await records.due(id, 10, NOW_MS)
    far = RetryAt(due_ms=NOW_MS + 10**11, attempts=1, reason="HTTP 500")
    soon = RetryAt(due_ms=NOW_MS + 1000, attempts=1, reason="HTTP 500")
    retried = {found[0].id: soon, found[1].id: far, found[2].id: far}
    await records.report(report(id, retried=retried), NOW)
    await records.forget_old(AGES, NOW)
    # Nobody is put off for years: the clock was wrong.
    latest = select(func.max(deliveries.c.due_ms))
    assert await stores.scalar(latest) <= NOW_MS + LONGEST_RETRY_AFTER_MS
    assert (await count(stores, "waiting"), await count(stores, "retrying")) == (4, 3)
    await records.forget_old(AGES, NOW + timedelta(days=8))
    assert await count(stores, "dead") == 7
    await records.forget_old(AGES, NOW + timedelta(days=39))
    assert await count(stores, "dead") == 0


async def test_what_waits_is_counted_by_destination(stores: Stores) -> None:
    backlogs = DeliveryBacklogs(stores.database)
    assert await backlogs.backlogs() == {}
    records, id = await queue(stores, *(event(number) for number in range(4)))
    one, two, *_ = await records.due(id, 10, NOW_MS)
    again = RetryAt(due_ms=NOW_MS + 1000, attempts=1, reason="HTTP 500")
    dead = Dead(since_ms=NOW_MS, attempts=1, reason="HTTP 400")
    await records.report(report(id, retried={one.id: again}, dead={two.id: dead}), NOW)
    expected = Backlog(project_id=DEFAULT_PROJECT, waiting=2, retrying=1, dead=1, oldest_ms=NOW_MS)
    assert await backlogs.backlogs() == {id: expected}


async def test_a_notification_is_one_senders_at_a_time(
    stores: Stores, other_stores: Stores
) -> None:
    records, id = await queue(stores, event(1))
    told = report(id)
    told.notice = '{"type": "ü"}'
    await records.report(told, NOW)
    mine, others = NotificationRecords(stores.database), NotificationRecords(other_stores.database)
    (one,) = await mine.claimed(NOW, LATER, 10)
    assert (one.body, one.attempts, one.created_ms) == (told.notice, 0, NOW_MS)
    assert await others.claimed(NOW, LATER, 10) == ()
    await mine.put_off(one.id, 1, NOW)
    (again,) = await others.claimed(NOW, LATER, 10)
    assert (again.id, again.attempts) == (one.id, 1)
    await others.end(one.id)
    assert await mine.claimed(LATER, LATER, 10) == ()


async def test_groups_go_out_as_they_are_when_an_event_is_routed(stores: Stores) -> None:
    kind = {"project_id": DEFAULT_PROJECT, "index": 2, "name": "company"}
    group = {
        "project_id": DEFAULT_PROJECT,
        "type_index": 2,
        "key": "7",
        "properties": {"plan": "naïve 🌿"},
        "created_at": NOW,
        "updated_at": NOW,
    }

    def change(connection: Connection) -> None:
        connection.execute(insert(group_types), kind)
        connection.execute(insert(groups), group)

    await stores.database.write(change)
    named = '{"$groups": {"company": 7, "team": "new", "odd": [1]}}'
    sent = msgspec.structs.replace(event(1), properties=named)
    routed = await with_groups([sent, event(2)], DeliveredGroups(stores.database))
    assert list(routed) == [(DEFAULT_PROJECT, sent.uuid)]
    (with_them,) = routed.values()
    records, id = await queue(stores, with_them, event(2))
    one, two = await records.due(id, 10, NOW_MS)
    assert payload_of(one.event)["groups"] == {
        "company": {"index": 2, "key": "7", "properties": {"plan": "naïve 🌿"}},
        "team": {"index": None, "key": "new", "properties": {}},
    }
    assert payload_of(two.event)["groups"] == {}
