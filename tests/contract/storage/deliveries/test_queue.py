"""The delivery queue: creation, order, retries and retention."""

import random
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, Update, func, insert, select, update

from hedgerow.events.model import Event, PersonMode
from hedgerow.pipelines.deliveries.groups import add_groups
from hedgerow.pipelines.deliveries.model import (
    DeliveryReport,
    DeliveryStatus,
    LogLevel,
    LogLine,
    NewDelivery,
    RetentionPeriods,
)
from hedgerow.pipelines.deliveries.retry import (
    MAX_RETRY_AFTER_MS,
    NOT_PAUSED,
    DeadDelivery,
    PauseState,
    RetryAt,
)
from hedgerow.pipelines.model import Record, RecordId
from hedgerow.pipelines.records.audit import SCOPE
from hedgerow.pipelines.store import Backlog, DeliveryQuery
from hedgerow.plugin.payload import build_payload
from hedgerow.projects.activity import SYSTEM, ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries import ordering, retention
from hedgerow.storage.deliveries.backlogs import SqlBacklogStore
from hedgerow.storage.deliveries.groups import SqlGroupStore
from hedgerow.storage.deliveries.history import SqlDeliveryHistory
from hedgerow.storage.deliveries.new_deliveries import add_deliveries
from hedgerow.storage.deliveries.queue import (
    UNKEPT_MESSAGE,
    UNREADABLE_EVENT_ERROR,
    SqlDeliveryStore,
)
from hedgerow.storage.deliveries.quotes import DELETED_MESSAGE, QuotedEvents
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from hedgerow.storage.pipelines.notifications import SqlNotificationStore
from hedgerow.storage.tables import (
    deliveries,
    delivery_batches,
    delivery_events,
    group_types,
    groups,
)
from tests.contract.storage.conftest import (
    DEFAULT_PROJECT,
    LATER,
    NOW,
    Stores,
    edit_record,
    run_sql,
)
from tests.contract.storage.ingestion.test_inbox import build_captured_event, decide

NOW_MS = int(NOW.timestamp() * 1000)
PERIODS = RetentionPeriods(
    waiting_ms=7 * 86_400_000, dead_ms=30 * 86_400_000, delivered_ms=90 * 86_400_000
)


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


async def queue(stores: Stores, *events: Event) -> tuple[SqlDeliveryStore, RecordId]:
    record = await stores.new_record(enabled=True)
    created = [NewDelivery(event=each, record_ids=[record.id]) for each in events]
    await stores.database.write(lambda connection: add_deliveries(connection, created, NOW))
    return SqlDeliveryStore(stores.database), record.id


def report(record_id: RecordId, **fields: object) -> DeliveryReport:
    created = DeliveryReport(record_id=record_id, pause_state=NOT_PAUSED, **fields)  # type: ignore[arg-type]
    created.record_latency(3)
    return created


async def count(stores: Stores, status: str) -> int:
    if status == "waiting":
        return int(await stores.fetch_scalar(select(func.sum(delivery_batches.c.number))) or 0)
    statement = select(func.count()).where(deliveries.c.status == status)
    return int(await stores.fetch_scalar(statement))


async def test_deliveries_are_created_once_when_the_row_is_stored(stores: Stores) -> None:
    record = await stores.new_record(enabled=True)
    inbox = SqlInboxStore(stores.database, 1)
    await inbox.add(DEFAULT_PROJECT, [build_captured_event(1), build_captured_event(2)], (), NOW)
    assert await inbox.process(0, await inbox.fetch_unprocessed(0), decide, NOW)
    rows = await inbox.fetch_processed(0)
    new = {
        row.id: [NewDelivery(event=each, record_ids=[record.id]) for each in row.events]
        for row in rows
    }
    await inbox.mark_stored(rows, new, NOW)
    await inbox.mark_stored(rows, new, NOW)
    found = await SqlDeliveryStore(stores.database).due(record.id, 10, NOW_MS)
    assert [each.event for each in found] == [each for row in rows for each in row.events]


async def test_queue_returns_retries_first_then_waiting_in_order(stores: Stores) -> None:
    records, id = await queue(stores, *(event(number) for number in range(5)))
    first = await records.due(id, 10, NOW_MS)
    assert [each.event for each in first] == [event(number) for number in range(5)]
    again = RetryAt(due_ms=NOW_MS + 1000, attempts=1, reason="HTTP 500")
    await records.save_report(report(id, retried={first[3].id: again}), NOW)
    assert [each.id for each in await records.due(id, 10, NOW_MS)] == [
        first[place].id for place in (0, 1, 2, 4)
    ]
    later = await records.due(id, 2, NOW_MS + 1000)
    assert [(each.id, each.attempts) for each in later] == [(first[3].id, 1), (first[0].id, 0)]


async def test_ordered_destination_waits_for_a_retry_of_the_same_distinct_id(
    stores: Stores,
) -> None:
    events = [event(1, "ann"), event(2, "bob"), event(3, "ann"), event(4, "bob")]
    records, id = await queue(stores, *events)
    ann, *_ = await records.due_in_order(id, 10, NOW_MS)
    again = RetryAt(due_ms=NOW_MS + 1000, attempts=1, reason="HTTP 500")
    await records.save_report(report(id, retried={ann.id: again}), NOW)
    due = await records.due_in_order(id, 10, NOW_MS)
    assert [each.event.distinct_id for each in due] == ["bob", "bob"]
    later = await records.due_in_order(id, 1, NOW_MS + 1000)
    assert [each.id for each in later] == [ann.id]


async def test_results_of_deliveries_are_stored_and_counted(stores: Stores) -> None:
    records, id = await queue(stores, *(event(number) for number in range(4)))
    one, two, three, _ = await records.due(id, 10, NOW_MS)
    health = PauseState(error="HTTP 500", failures=2, paused_until_ms=5)
    dead = DeadDelivery(since_ms=NOW_MS, attempts=1, reason="HTTP 400")
    saved = DeliveryReport(
        record_id=id,
        pause_state=health,
        delivered=[one.id, two.id],
        dead={three.id: dead},
        logs=[LogLine(level=LogLevel.ERROR, message="ü 🌿", uuid=three.event.uuid)],
    )
    saved.record_latency(7)
    await records.save_report(saved, NOW)
    assert await records.pause_state(id) == health
    assert await records.errors() == {id: "HTTP 500"}
    hour = NOW_MS - NOW_MS % 3_600_000
    assert await records.counts_since(hour - 1) == {id: (2, 1)}
    assert await records.counts_since(hour) == {}
    await records.save_report(report(id, delivered=[three.id]), NOW)
    assert await records.counts_since(hour - 1) == {id: (3, 1)}
    assert await records.errors() == {}


async def test_old_deliveries_die_and_old_dead_ones_are_deleted(
    stores: Stores,
) -> None:
    records, id = await queue(stores, event(1), event(2))
    await records.expire_old(PERIODS, NOW + timedelta(days=6))
    assert await count(stores, "waiting") == 2
    await records.expire_old(PERIODS, NOW + timedelta(days=8))
    assert await count(stores, "dead") == 2
    assert await records.due(id, 10, NOW_MS) == ()
    await records.expire_old(PERIODS, NOW + timedelta(days=39))
    assert await count(stores, "dead") == 0


async def test_one_process_at_a_time_holds_a_queue(stores: Stores, other_stores: Stores) -> None:
    if stores.database.engine_name == "sqlite":
        pytest.skip("SQLite has one process")
    records, id = await queue(stores, event(1))
    others = SqlDeliveryStore(other_stores.database)
    assert await records.acquire(id)
    assert not await others.acquire(id)
    assert await records.acquire(id)
    await records.release()
    assert await others.acquire(id)
    assert not await records.acquire(id)
    # The clock of the database is set back.
    later = "UPDATE delivery_leases SET expires_at = expires_at + interval '1 hour'"
    run_sql(stores.location, later)
    assert await records.acquire(id)


async def test_record_stores_when_it_was_enabled(stores: Stores) -> None:
    record = await stores.new_record(enabled=True)
    assert record.switches == (NOW_MS,)
    renamed = await edit_record(stores, record, name="another")
    await edit_record(stores, renamed, enabled=False)
    (found,) = await stores.pipelines.destinations([DEFAULT_PROJECT])
    assert isinstance(found, Record)
    assert found.switches == (NOW_MS, int(LATER.timestamp() * 1000))


async def test_deleted_events_are_not_delivered(stores: Stores) -> None:
    sent = [event(1), event(2, by="bob"), event(3, by="bob"), event(4, by="cid")]
    records, id = await queue(stores, *sent)
    await records.delete_copies(DEFAULT_PROJECT, [sent[0].uuid], [])
    await records.delete_copies(DEFAULT_PROJECT, [sent[1].uuid], ["ann"])
    await records.delete_copies(ProjectId(DEFAULT_PROJECT + 1), [], ["cid"])
    await records.delete_copies(DEFAULT_PROJECT, [], [])
    assert [each.event for each in await records.due(id, 10, NOW_MS)] == sent[1:]
    await records.delete_copies(DEFAULT_PROJECT, [], ["bob"])
    assert [each.event for each in await records.due(id, 10, NOW_MS)] == sent[3:]


async def test_what_receivers_say_of_deleted_events_is_deleted(stores: Stores) -> None:
    """By uuid while an event waits, and by the distinct id in the message once it is delivered. A
    message about one event of a batch may quote the others."""
    records, id = await queue(stores, event(1), event(2, by="bob"))
    one, two = await records.due(id, 10, NOW_MS)
    lines = [
        LogLine(level=LogLevel.ERROR, message="HTTP 400: of ann", uuid=one.event.uuid),
        LogLine(level=LogLevel.ERROR, message="HTTP 400: of bob", uuid=two.event.uuid),
        LogLine(level=LogLevel.WARNING, message='HTTP 500: {"id":"ann"}', uuid=event(3).uuid),
        LogLine(level=LogLevel.WARNING, message='HTTP 500: {"id":"anna"}', uuid=event(4).uuid),
    ]
    quote = 'HTTP 500: {"id":"ann"}'
    report = DeliveryReport(
        record_id=id,
        pause_state=PauseState(error=quote, failures=2, paused_until_ms=5),
        retried={two.id: RetryAt(due_ms=NOW_MS, attempts=1, reason=quote)},
        logs=lines,
        entry=build_pause_entry(id, quote),
    )
    await records.save_report(report, NOW)
    await records.delete_copies(ProjectId(DEFAULT_PROJECT + 1), [], ["ann"])
    history = SqlDeliveryHistory(stores.database)
    assert (await history.logs(id, None, "", limit=10, offset=0))[1] == 4
    assert await records.delete_copies(DEFAULT_PROJECT, [], ["ann"]) == 1
    left, _ = await history.logs(id, None, "", limit=10, offset=0)
    assert [each.line.uuid for each in left] == [event(4).uuid, event(2).uuid]
    assert await records.errors() == {id: DELETED_MESSAGE}
    assert await read_quotes(stores, id) == [DELETED_MESSAGE, DELETED_MESSAGE]


async def test_what_receivers_say_of_an_event_that_is_deleted_by_uuid_is_deleted(
    stores: Stores,
) -> None:
    records, id = await queue(stores, event(2))
    of_one = f"HTTP 500: {event(1).uuid}"
    report = DeliveryReport(
        record_id=id,
        pause_state=PauseState(error=of_one, failures=2, paused_until_ms=5),
        logs=[
            LogLine(level=LogLevel.WARNING, message="HTTP 500: of ann", uuid=event(1).uuid),
            LogLine(level=LogLevel.ERROR, message=of_one),
            LogLine(level=LogLevel.WARNING, message="HTTP 500: of ann", uuid=event(2).uuid),
        ],
        entry=build_pause_entry(id, of_one),
    )
    await records.save_report(report, NOW)
    assert await records.delete_copies(DEFAULT_PROJECT, [event(1).uuid], []) == 0
    left, _ = await SqlDeliveryHistory(stores.database).logs(id, None, "", limit=10, offset=0)
    assert [each.line.uuid for each in left] == [event(2).uuid]
    assert await records.errors() == {id: DELETED_MESSAGE}
    assert await read_quotes(stores, id) == [DELETED_MESSAGE, ""]


@pytest.mark.parametrize("is_dead", [False, True])
async def test_event_that_is_deleted_while_it_is_sent_leaves_no_message(
    stores: Stores, *, is_dead: bool
) -> None:
    records, id = await queue(stores, event(1), event(2, by="bob"))
    one, two = await records.due(id, 10, NOW_MS)
    assert await records.delete_copies(DEFAULT_PROJECT, [], ["ann"]) == 1
    quote = "HTTP 500: of ann and bob"
    report = DeliveryReport(
        record_id=id,
        pause_state=PauseState(error=quote, failures=2, paused_until_ms=5),
        retried={two.id: RetryAt(due_ms=NOW_MS, attempts=1, reason=quote)},
        logs=[LogLine(level=LogLevel.ERROR, message=quote, uuid=two.event.uuid)],
        entry=build_pause_entry(id, quote),
        notification=quote,
    )
    if is_dead:
        report.dead[one.id] = DeadDelivery(since_ms=NOW_MS, attempts=1, reason=quote)
    else:
        report.retried[one.id] = RetryAt(due_ms=NOW_MS, attempts=1, reason=quote)
    await records.save_report(report, NOW)
    assert (await SqlDeliveryHistory(stores.database).logs(id, None, "", limit=1, offset=0))[1] == 0
    assert await records.errors() == {id: UNKEPT_MESSAGE}
    assert await read_quotes(stores, id) == [UNKEPT_MESSAGE, UNKEPT_MESSAGE]
    assert not await SqlNotificationStore(stores.database).claim(NOW, LATER, 10)


@pytest.mark.parametrize(
    ("message", "is_quote"),
    [
        ('{"id":"long-distinct-id"}', True),
        ("unknown user long-distinct-id.", True),
        (r'{"body": "{\"id\": \"long-distinct-id\"}"}', True),
        ('{"id":"long-disti', True),
        ('{"id":"long-distance"}', False),
        ('{"id":"u1"}', True),
        (r'{"body": "{\"id\": \"u1\"}"}', True),
        ("menu1", False),
        ('{"id":"u11"}', False),
        (f"no event {event(1).uuid.upper()}", True),
    ],
)
def test_messages_that_quote_a_deleted_event_are_found(message: str, *, is_quote: bool) -> None:
    assert QuotedEvents([event(1).uuid], ["u1", "long-distinct-id"]).is_in(message) == is_quote


def build_pause_entry(id: RecordId, reason: str) -> ActivityEntry:
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(id),
        item_name="",
        activity="paused",
        actor=SYSTEM,
        project_id=DEFAULT_PROJECT,
        detail={"reason": reason},
    )


async def read_quotes(stores: Stores, id: RecordId) -> list[str]:
    """Return the messages of the entry about the pause and of the delivery that failed."""
    (paused,) = await stores.list_entries(activity="paused", item_id=str(id))
    wanted = select(deliveries.c.error).where(deliveries.c.record_id == id)
    return [paused.entry.detail["reason"], await stores.fetch_scalar(wanted) or ""]


def _run(statement: Update, connection: Connection) -> None:
    connection.execute(statement)


async def test_undecodable_delivery_dies_and_does_not_block_others(stores: Stores) -> None:
    records, id = await queue(stores, *(event(number) for number in range(4)))
    first, second, *_ = await records.due(id, 10, NOW_MS)
    for broken, spoiled in ((first.id, b"\xff\x00"), (second.id, b"")):
        is_broken = delivery_events.c.id == broken
        spoil = update(delivery_events).where(is_broken).values(event=spoiled)
        await stores.database.write(partial(_run, spoil))
    assert [each.event for each in await records.due(id, 10, NOW_MS)] == [event(2), event(3)]
    assert [each.event for each in await records.due(id, 1, NOW_MS)] == [event(2)]
    trail = SqlDeliveryHistory(stores.database)
    dead, number = await trail.deliveries(
        DeliveryQuery(record_id=id, statuses=[DeliveryStatus.DEAD]), limit=10, offset=0
    )
    assert number == 2
    assert [(each.event, each.uuid, each.error) for each in dead] == [
        (None, event(1).uuid, UNREADABLE_EVENT_ERROR),
        (None, event(0).uuid, UNREADABLE_EVENT_ERROR),
    ]


async def test_order_per_distinct_id_survives_failures(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each round some deliveries succeed and some are retried after a random time."""
    monkeypatch.setattr(ordering, "WINDOW_EVENTS", 5)
    monkeypatch.setattr(ordering, "STABLE_AFTER_MS", 0)
    chance = random.Random(7)
    people = [chance.choice(["ann", "bob", "cid"]) for _ in range(60)]
    records, id = await queue(stores, *(event(number, by) for number, by in enumerate(people)))
    arrived: dict[str, list[int]] = {"ann": [], "bob": [], "cid": []}
    now_ms, turns = NOW_MS, 0
    while await count(stores, "waiting") or await count(stores, "retrying"):
        turns += 1
        now_ms += 500
        postponed: set[str] = set()
        left: set[str] = set()
        delivered, retried = [], {}
        for each in await records.due_in_order(id, 10, now_ms):
            by = each.event.distinct_id
            if by in left or (by in postponed and chance.random() < 0.5):
                # Retries of one batch are postponed together; later deliveries stay in the queue.
                left.add(by)
                continue
            if by not in postponed and chance.random() < 0.7:
                arrived[by].append(each.id)
                delivered.append(each.id)
                continue
            postponed.add(by)
            wait_ms = chance.choice([0, 100, 1000, 5000])
            again = RetryAt(due_ms=now_ms + wait_ms, attempts=each.attempts + 1, reason="x")
            retried[each.id] = again
        await records.save_report(report(id, delivered=delivered, retried=retried), NOW)
        assert turns < 2000
    for ids in arrived.values():
        assert ids == sorted(ids)
    assert sum(map(len, arrived.values())) == len(people)


async def test_blocked_prefix_is_not_read_again(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "WINDOW_EVENTS", 2)
    people = ["ann"] * 10 + ["bob", "cid", "bob"]
    record = await stores.new_record(enabled=True)
    records, id = SqlDeliveryStore(stores.database), record.id
    for number, by in enumerate(people):
        new = NewDelivery(event=event(number, by), record_ids=[id])
        await stores.database.write(partial(add_deliveries, made=[new], now=NOW))
    (first,) = await records.due_in_order(id, 1, NOW_MS)
    again = RetryAt(due_ms=NOW_MS + 10**9, attempts=1, reason="HTTP 500")
    await records.save_report(report(id, retried={first.id: again}), NOW)
    later_ms = NOW_MS + 2 * ordering.STABLE_AFTER_MS
    reads = FetchCounter(stores, monkeypatch)
    (bob,) = await records.due_in_order(id, 1, later_ms)
    assert (bob.event, reads.number) == (event(10, "bob"), 7)
    reads.number = 0
    assert [each.event.distinct_id for each in await records.due_in_order(id, 2, later_ms)] == [
        "bob",
        "cid",
    ]
    assert reads.number == 3
    await records.save_report(report(id, delivered=[first.id]), NOW)
    (second,) = await records.due_in_order(id, 1, later_ms)
    assert second.event == event(1, "ann")


class FetchCounter:
    """Counts prepared queries."""

    def __init__(self, stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        fetch = stores.database.fetch

        async def count_fetch(*args: Any) -> Any:
            self.number += 1
            return await fetch(*args)

        monkeypatch.setattr(stores.database, "fetch", count_fetch)


async def test_retention_works_in_batches(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH_SIZE", 2)
    records, id = await queue(stores, *(event(number) for number in range(7)))
    found = await records.due(id, 10, NOW_MS)
    far = RetryAt(due_ms=NOW_MS + 10**11, attempts=1, reason="HTTP 500")
    soon = RetryAt(due_ms=NOW_MS + 1000, attempts=1, reason="HTTP 500")
    retried = {found[0].id: soon, found[1].id: far, found[2].id: far}
    await records.save_report(report(id, retried=retried), NOW)
    await records.expire_old(PERIODS, NOW)
    # No retry is scheduled years ahead, unless the clock was wrong.
    latest = select(func.max(deliveries.c.due_ms))
    assert await stores.fetch_scalar(latest) <= NOW_MS + MAX_RETRY_AFTER_MS
    assert (await count(stores, "waiting"), await count(stores, "retrying")) == (4, 3)
    await records.expire_old(PERIODS, NOW + timedelta(days=8))
    assert await count(stores, "dead") == 7
    await records.expire_old(PERIODS, NOW + timedelta(days=39))
    assert await count(stores, "dead") == 0


async def test_backlog_is_counted_by_destination(stores: Stores) -> None:
    backlogs = SqlBacklogStore(stores.database)
    assert await backlogs.backlogs() == {}
    records, id = await queue(stores, *(event(number) for number in range(4)))
    one, two, *_ = await records.due(id, 10, NOW_MS)
    again = RetryAt(due_ms=NOW_MS + 1000, attempts=1, reason="HTTP 500")
    dead = DeadDelivery(since_ms=NOW_MS, attempts=1, reason="HTTP 400")
    await records.save_report(report(id, retried={one.id: again}, dead={two.id: dead}), NOW)
    expected = Backlog(project_id=DEFAULT_PROJECT, waiting=2, retrying=1, dead=1, oldest_ms=NOW_MS)
    assert await backlogs.backlogs() == {id: expected}


async def test_notification_is_claimed_by_one_sender_at_a_time(
    stores: Stores, other_stores: Stores
) -> None:
    records, id = await queue(stores, event(1))
    saved = report(id)
    saved.notification = '{"type": "ü"}'
    await records.save_report(saved, NOW)
    mine, others = (
        SqlNotificationStore(stores.database),
        SqlNotificationStore(other_stores.database),
    )
    (one,) = await mine.claim(NOW, LATER, 10)
    assert (one.body, one.attempts, one.created_ms) == (saved.notification, 0, NOW_MS)
    assert await others.claim(NOW, LATER, 10) == ()
    await mine.postpone(one.id, 1, NOW)
    (again,) = await others.claim(NOW, LATER, 10)
    assert (again.id, again.attempts) == (one.id, 1)
    await others.remove(one.id)
    assert await mine.claim(LATER, LATER, 10) == ()


async def test_delivered_event_has_its_groups_at_routing_time(stores: Stores) -> None:
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
    routed = await add_groups([sent, event(2)], SqlGroupStore(stores.database))
    assert list(routed) == [(DEFAULT_PROJECT, sent.uuid)]
    (with_them,) = routed.values()
    records, id = await queue(stores, with_them, event(2))
    one, two = await records.due(id, 10, NOW_MS)
    assert build_payload(one.event)["groups"] == {
        "company": {"index": 2, "key": "7", "properties": {"plan": "naïve 🌿"}},
        "team": {"index": None, "key": "new", "properties": {}},
    }
    assert build_payload(two.event)["groups"] == {}
