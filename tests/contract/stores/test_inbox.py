"""The inbox: what is accepted is kept in its order, and settled as a whole or not at all."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, update

from hedgerow.events.model import Event, PersonMode
from hedgerow.ingestion.model import Accepted, Arrived, IngestionWarning
from hedgerow.ingestion.store import (
    SETTLED_AT_ONCE,
    SETTLED_BYTES,
    STORED_BYTES,
    Ready,
    Settled,
    Waiting,
    WarningQuery,
)
from hedgerow.lib import jsonio
from hedgerow.persons.known import Known
from hedgerow.persons.process import process
from hedgerow.persons.store import PersonQuery
from hedgerow.projects.model import ProjectId
from hedgerow.storage.clickhouse import INSERT_S
from hedgerow.storage.inbox import InboxRecords
from hedgerow.storage.ingestion_warnings import WarningRecords
from hedgerow.storage.leases import LEASE_S
from hedgerow.storage.tables import ready_events
from tests.contract.stores.conftest import (
    DEFAULT_PROJECT,
    LATER,
    NOW,
    Stores,
    before_statement,
    run_sql,
)
from tests.happenings import happening, nowhere, setting

BUCKETS = 16
ODD: dict[str, Any] = {
    "naïve 🌿": "ü \u2028 'quoted' \\ %_ ?",
    "nested": {"list": [1, 1.5, None, True, {"": ""}], "big": 2**70, "small": -(2**200)},
    "": 0,
}


def arrived(number: int, distinct_id: str = "ann", **to_set: Any) -> Arrived:
    uuid = f"0199aaaa-0000-7000-8000-{number:012}"
    return happening("seen", distinct_id, {"$set": to_set} if to_set else {}, uuid=uuid)


def decide(project_id: ProjectId, events: Sequence[Arrived], known: Known) -> Settled:
    """What capture does, without the elements."""
    processed = process(project_id, known, events, nowhere)
    made = [
        Event(
            project_id=project_id,
            uuid=event.uuid,
            event=event.event,
            distinct_id=event.distinct_id,
            properties=jsonio.encode(placed.properties).decode(),
            elements_chain="",
            timestamp=event.timestamp,
            created_at=event.accepted_at,
            person_id=placed.person_uuid,
            person_created_at=placed.person_created_at,
            person_properties=placed.person_properties,
            person_mode=PersonMode(placed.mode),
            historical_migration=False,
        )
        for event, placed in zip(events, processed.placed, strict=True)
        if placed is not None
    ]
    warnings = [IngestionWarning(type="told", detail=event.uuid) for event in events]
    calls = {("a-flag", "true"): len(events)}
    return Settled(events=made, changes=processed.changes, warnings=warnings, flag_calls=calls)


async def add(inbox: InboxRecords, *events: Arrived, project: ProjectId = DEFAULT_PROJECT) -> None:
    await inbox.add(project, events, (), NOW)


async def add_each(inbox: InboxRecords, *events: Arrived) -> None:
    for event in events:
        await add(inbox, event)


def uuids(rows: Sequence[Accepted | Ready]) -> list[str]:
    return [event.uuid for row in rows for event in row.events]


async def all_settled(inbox: InboxRecords, bucket: int = 0) -> list[str]:
    settled = []
    while rows := await inbox.oldest(bucket):
        assert await inbox.settle(bucket, rows, decide, NOW)
        settled += uuids(rows)
    return settled


async def properties_of(stores: Stores, distinct_id: str) -> Mapping[str, Any] | None:
    query = PersonQuery(project_id=DEFAULT_PROJECT, distinct_id=distinct_id)
    found, _ = await stores.persons.persons(query)
    return found[0].properties if found else None


async def warnings_of(stores: Stores, project_id: ProjectId = DEFAULT_PROJECT) -> list[str]:
    query = WarningQuery(project_id=project_id, type="", limit=100, offset=0)
    found, _ = await WarningRecords(stores.database).warnings(query)
    return [warning.detail for warning in reversed(found)]


@pytest.fixture
def inbox(stores: Stores) -> InboxRecords:
    """As where one process does everything."""
    return InboxRecords(stores.database, 1)


@pytest.fixture
def shared(stores: Stores) -> InboxRecords:
    return InboxRecords(stores.database, BUCKETS)


@pytest.fixture
def others(other_stores: Stores) -> InboxRecords:
    """The same inbox, seen from another process."""
    return InboxRecords(other_stores.database, BUCKETS)


@pytest.fixture
def on_postgres(stores: Stores) -> None:
    if stores.place.is_sqlite:
        pytest.skip("only where several processes share a database")


async def test_what_was_accepted_comes_out_in_its_order(inbox: InboxRecords) -> None:
    assert await inbox.oldest(0) == []
    await add(inbox, arrived(3), arrived(1))
    await add(inbox, arrived(2, "bob"))
    rows = await inbox.oldest(0)
    assert [[event.uuid[-1] for event in row.events] for row in rows] == [["3", "1"], ["2"]]
    assert rows[0].id < rows[1].id
    assert await inbox.oldest(0) == rows


async def test_an_event_comes_out_as_it_went_in(inbox: InboxRecords) -> None:
    odd = happening("naïve 🌿 '", "ann 🌿 \\", ODD, at=datetime(1900, 1, 1, tzinfo=UTC), ip="::1")
    plain = happening("seen", "bob", at=datetime(2999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC))
    await add(inbox, odd, plain)
    [row] = await inbox.oldest(0)
    assert row.project_id == DEFAULT_PROJECT
    assert row.events == [odd, plain]


async def test_nothing_is_nothing(inbox: InboxRecords) -> None:
    assert await inbox.oldest(0) == []
    assert await inbox.ready(0) == ()
    assert await inbox.waiting() == Waiting(unsettled=0, unstored=0)


async def test_a_large_batch_is_settled_in_parts_and_in_order(inbox: InboxRecords) -> None:
    events = [arrived(number, n=number) for number in range(2 * SETTLED_AT_ONCE + 3)]
    await add(inbox, *events)
    assert (await inbox.waiting()).unsettled == len(events)
    assert len(uuids(await inbox.oldest(0))) == SETTLED_AT_ONCE
    assert await all_settled(inbox) == [event.uuid for event in events]
    assert uuids(await inbox.ready(0)) == [event.uuid for event in events]


async def test_so_many_small_batches_are_settled_at_once(inbox: InboxRecords) -> None:
    for start in range(0, SETTLED_AT_ONCE + 20, 20):  # no more than a busy server takes at once
        await asyncio.gather(*(add(inbox, arrived(start + number)) for number in range(20)))
    assert len(await inbox.oldest(0)) == SETTLED_AT_ONCE
    assert len(set(await all_settled(inbox))) == SETTLED_AT_ONCE + 20


async def test_what_is_large_comes_in_parts_that_fit_into_memory(inbox: InboxRecords) -> None:
    """However much waits, and in however few rows it was sent."""
    text = "x" * 100_000
    events = [arrived(n, text=text) for n in range(180)]
    for start in range(0, 180, 60):
        await add(inbox, *events[start : start + 60])
    expected = [event.uuid for event in events]
    settled, stored = [], []
    while rows := await inbox.oldest(0):
        assert len(uuids(rows)) * len(text) <= SETTLED_BYTES
        assert await inbox.settle(0, rows, decide, NOW)
        settled += uuids(rows)
    assert settled == expected
    while ready := await inbox.ready(0):
        # Each event holds the text twice: as its own and as its person's property.
        assert sum(row.number for row in ready) * 2 * len(text) <= STORED_BYTES
        await inbox.stored(ready, {}, NOW)
        stored += uuids(ready)
    assert stored == expected


async def test_a_batch_that_finds_no_room_waits_for_the_next_turn(inbox: InboxRecords) -> None:
    await add(inbox, *(arrived(number) for number in range(SETTLED_AT_ONCE - 1)))
    await add(inbox, arrived(1000), arrived(1001))
    await add(inbox, arrived(1002))
    assert len(uuids(await inbox.oldest(0))) == SETTLED_AT_ONCE - 1
    assert (await all_settled(inbox))[-3:] == [arrived(n).uuid for n in (1000, 1001, 1002)]


async def test_the_events_of_a_person_are_in_one_bucket(shared: InboxRecords) -> None:
    events = [arrived(number, f"person {number % 40}") for number in range(400)]
    await add(shared, *events[:200])
    await add_each(shared, *events[200:])
    found = {bucket: await shared.oldest(bucket) for bucket in range(BUCKETS)}
    owners: dict[str, set[int]] = {}
    for bucket, rows in found.items():
        assert uuids(rows) == sorted(uuids(rows))
        for row in rows:
            for event in row.events:
                owners.setdefault(event.distinct_id, set()).add(bucket)
    assert {len(buckets) for buckets in owners.values()} == {1}
    assert len(set.union(*owners.values())) > BUCKETS // 2
    assert sorted(uuid for rows in found.values() for uuid in uuids(rows)) == [
        event.uuid for event in events
    ]


async def test_settling_stores_everything_and_ends_the_rows(
    stores: Stores, inbox: InboxRecords
) -> None:
    other = (await stores.new_project("Other")).id
    await add(inbox, arrived(1, plan="free"), arrived(2, plan="paid"))
    await add(inbox, arrived(3), project=other)
    rows = await inbox.oldest(0)
    assert await inbox.settle(0, rows, decide, NOW)
    assert await inbox.oldest(0) == []
    [ready] = await inbox.ready(0)
    assert ready.number == 3
    assert [(event.project_id, event.uuid[-1]) for event in ready.events] == [
        (DEFAULT_PROJECT, "1"),
        (DEFAULT_PROJECT, "2"),
        (other, "3"),
    ]
    assert jsonio.decode(ready.events[0].person_properties)["plan"] == "free"
    assert ready.events[1].timestamp == arrived(2).timestamp
    stored = await properties_of(stores, "ann")
    assert stored is not None
    assert stored["plan"] == "paid"
    assert await warnings_of(stores) == [arrived(1).uuid, arrived(2).uuid]
    assert await warnings_of(stores, other) == [arrived(3).uuid]


def _fails_before(statement: str) -> AbstractContextManager[None]:
    def fail() -> None:
        raise RuntimeError("killed")

    return before_statement(statement, fail)


@pytest.mark.parametrize("statement", ["INSERT INTO ready_events", "DELETE FROM inbox"])
async def test_settling_is_all_or_nothing(
    stores: Stores, inbox: InboxRecords, statement: str
) -> None:
    await add(inbox, arrived(1, plan="paid"))
    rows = await inbox.oldest(0)
    with _fails_before(statement), pytest.raises(RuntimeError, match="killed"):
        await inbox.settle(0, rows, decide, NOW)
    await _assert_untouched(stores, inbox, rows)
    assert await inbox.settle(0, rows, decide, NOW)
    assert await properties_of(stores, "ann") is not None


async def test_nothing_is_stored_when_nobody_can_decide(
    stores: Stores, inbox: InboxRecords
) -> None:
    other = (await stores.new_project("Other")).id
    await add(inbox, arrived(1, plan="paid"))
    await add(inbox, arrived(2), project=other)
    rows = await inbox.oldest(0)

    def half(project_id: ProjectId, events: Sequence[Arrived], known: Known) -> Settled:
        if project_id == other:
            raise RuntimeError("killed")
        return decide(project_id, events, known)

    with pytest.raises(RuntimeError, match="killed"):
        await inbox.settle(0, rows, half, NOW)
    await _assert_untouched(stores, inbox, rows)


async def _assert_untouched(stores: Stores, inbox: InboxRecords, rows: Sequence[Accepted]) -> None:
    assert await inbox.oldest(0) == rows
    assert await inbox.ready(0) == ()
    assert await properties_of(stores, "ann") is None
    assert await warnings_of(stores) == []


async def test_what_was_refused_is_stored_with_what_was_accepted(
    stores: Stores, inbox: InboxRecords
) -> None:
    warnings = [IngestionWarning(type="t", detail=text, event="naïve 🌿") for text in ("a", "b")]
    await inbox.add(DEFAULT_PROJECT, [arrived(1)], warnings, NOW)
    await inbox.add(DEFAULT_PROJECT, [], warnings[:1], NOW)
    assert await warnings_of(stores) == ["a", "b", "a"]
    assert uuids(await inbox.oldest(0)) == [arrived(1).uuid]
    with _fails_before("INSERT INTO ingestion_warnings"), pytest.raises(RuntimeError):
        await inbox.add(DEFAULT_PROJECT, [arrived(2)], warnings, NOW)
    assert uuids(await inbox.oldest(0)) == [arrived(1).uuid]


async def test_what_waits_is_counted(inbox: InboxRecords) -> None:
    for minute in range(3):
        at = NOW + timedelta(minutes=minute)
        await inbox.add(DEFAULT_PROJECT, [arrived(minute), arrived(minute + 10)], (), at)
    assert await inbox.waiting() == Waiting(unsettled=6, unstored=0)
    rows = await inbox.oldest(0)
    assert await inbox.settle(0, rows[:1], decide, NOW)
    assert await inbox.waiting() == Waiting(unsettled=4, unstored=2)
    await all_settled(inbox)
    assert await inbox.waiting() == Waiting(unsettled=0, unstored=6)
    await inbox.stored(await inbox.ready(0), {}, NOW)
    assert await inbox.waiting() == Waiting(unsettled=0, unstored=0)


async def test_what_the_event_store_has_is_gone_and_nothing_else(inbox: InboxRecords) -> None:
    for number in range(3):
        await add(inbox, arrived(number))
        await all_settled(inbox)
    first, *rest = await inbox.ready(0)
    await inbox.stored([first], {}, NOW)
    await inbox.stored([first], {}, NOW)
    assert await inbox.ready(0) == rest


async def test_what_is_on_the_way_is_known_by_its_keys(inbox: InboxRecords) -> None:
    await add(inbox, *(arrived(n) for n in range(SETTLED_AT_ONCE + 1)))
    await add(inbox, arrived(900))
    assert await inbox.on_the_way() == []
    sent = [(DEFAULT_PROJECT, uuid) for uuid in await all_settled(inbox)]
    assert await inbox.on_the_way() == sent
    await inbox.stored((await inbox.ready(0))[:1], {}, NOW)
    assert await inbox.on_the_way() == sent[SETTLED_AT_ONCE:]


async def test_dropped_events_are_counted_until_they_are_done(inbox: InboxRecords) -> None:
    """An event that persons refuse is never stored, and whoever waits for it may go on."""
    dropped = happening("$identify", "ann", {"$process_person_profile": False})
    await add(inbox, dropped)
    await all_settled(inbox)
    [ready] = await inbox.ready(0)
    assert (ready.events, ready.number) == ([], 1)


async def test_persons_whom_another_process_makes_meanwhile(
    stores: Stores, inbox: InboxRecords, on_postgres: None
) -> None:
    """Found when they are stored; then all is decided again."""
    await add(inbox, arrived(1, plan="paid"))
    rows = await inbox.oldest(0)

    def step_in() -> None:
        columns = "project_id, uuid, properties, is_identified, created_at, updated_at"
        person = "(1, 'a0000000-0000-0000-0000-000000000001', '{\"old\": 1}', false, now(), now())"
        [(id,)] = run_sql(
            stores.place, f"INSERT INTO persons ({columns}) VALUES {person} RETURNING id"
        )
        run_sql(
            stores.place,
            "INSERT INTO person_distinct_ids (project_id, distinct_id, person_id)"
            " VALUES (1, 'ann', :id)",
            id=id,
        )

    with before_statement("INSERT INTO persons", step_in):
        assert await inbox.settle(0, rows, decide, NOW)
    stored = await properties_of(stores, "ann")
    assert stored is not None
    assert (stored["old"], stored["plan"]) == (1, "paid")
    assert uuids(await inbox.ready(0)) == [arrived(1).uuid]


async def bucket_of(inbox: InboxRecords) -> int:
    """The first in which somebody waits."""
    first, *_ = [bucket for bucket in range(BUCKETS) if await inbox.oldest(bucket)]
    return first


async def test_buckets_are_named_in_which_something_waits(
    stores: Stores, shared: InboxRecords, on_postgres: None
) -> None:
    assert (await shared.unsettled_buckets(), await shared.unstored_buckets()) == ([], [])
    await add_each(shared, *(arrived(n, f"person {n}") for n in range(5)))
    waiting = [bucket for bucket in range(BUCKETS) if await shared.oldest(bucket)]
    assert await shared.unsettled_buckets() == waiting
    for bucket in waiting[:2]:
        await all_settled(shared, bucket)
    assert await shared.unsettled_buckets() == waiting[2:]
    assert await shared.unstored_buckets() == waiting[:2]


async def test_rows_that_another_process_settled_are_left_alone(
    stores: Stores, shared: InboxRecords, others: InboxRecords, on_postgres: None
) -> None:
    await add_each(shared, arrived(1, n=1), arrived(2, n=2))
    bucket = await bucket_of(shared)
    rows = await shared.oldest(bucket)
    assert await others.settle(bucket, rows[:1], decide, NOW)
    assert not await shared.settle(bucket, rows, decide, LATER)
    assert await warnings_of(stores) == [arrived(1).uuid]
    assert await all_settled(shared, bucket) == [arrived(2).uuid]
    assert uuids(await shared.ready(bucket)) == [arrived(1).uuid, arrived(2).uuid]


async def test_a_bucket_has_one_worker_at_a_time(
    stores: Stores, shared: InboxRecords, others: InboxRecords, on_postgres: None
) -> None:
    await add_each(shared, *(arrived(number, n=number) for number in range(40)))
    bucket = await bucket_of(shared)
    rows = await shared.oldest(bucket)
    outcomes = await asyncio.gather(
        *(each.settle(bucket, rows, decide, NOW) for each in (shared, others) * 3)
    )
    assert outcomes.count(True) == 1
    stored = await properties_of(stores, "ann")
    assert stored is not None
    assert stored["n"] == 39
    assert len(uuids(await shared.ready(bucket))) == len(uuids(rows))


async def test_several_processes_settle_everything_once_and_in_order(
    stores: Stores, shared: InboxRecords, others: InboxRecords, on_postgres: None
) -> None:
    events = [setting(f"person {n % 7}", n=n) for n in range(300)]
    for start in range(0, 300, 20):
        await add(shared, *events[start : start + 20])

    async def work(inbox: InboxRecords) -> int:
        settled = 0
        for bucket in [*range(BUCKETS)] * 3:
            while rows := await inbox.oldest(bucket):
                if not await inbox.settle(bucket, rows, decide, NOW):
                    break
                settled += len(uuids(rows))
        return settled

    assert sum(await asyncio.gather(*(work(each) for each in (shared, others) * 2))) == 300
    assert (await shared.waiting()).unstored == 300
    for bucket in range(BUCKETS):
        last: dict[str, int] = {}
        for ready in await shared.ready(bucket):
            for event in ready.events:
                n = jsonio.decode(event.properties)["$set"]["n"]
                assert last.get(event.distinct_id, -1) < n
                last[event.distinct_id] = n


def expire(connection: Connection) -> None:
    connection.exec_driver_sql(
        "UPDATE inbox_leases SET expires_at = clock_timestamp() - interval '1 millisecond'"
    )


async def test_the_way_to_the_event_store_is_leased(
    stores: Stores, shared: InboxRecords, others: InboxRecords, on_postgres: None
) -> None:
    await _make_ready(stores, bucket=5)
    assert await shared.ready(5)
    assert await others.ready(5) == ()
    assert await shared.ready(5)
    await stores.database.write(expire)
    assert await others.ready(5)
    assert await shared.ready(5) == ()


async def test_a_lease_lasts_and_is_renewed_by_the_databases_clock(
    stores: Stores, shared: InboxRecords, others: InboxRecords, on_postgres: None
) -> None:
    def left_s(connection: Connection) -> float:
        sql = "SELECT extract(epoch FROM expires_at - clock_timestamp()) FROM inbox_leases"
        return float(connection.exec_driver_sql(sql).scalar_one())

    def shorten(connection: Connection) -> None:
        sql = "UPDATE inbox_leases SET expires_at = clock_timestamp() + interval '10 seconds'"
        connection.exec_driver_sql(sql)

    await _make_ready(stores, bucket=5)
    await shared.keep_leases()
    assert await shared.ready(5)
    assert INSERT_S < await stores.database.read(left_s) <= LEASE_S
    await stores.database.write(shorten)
    await others.keep_leases()
    assert await stores.database.read(left_s) <= 10
    await shared.keep_leases()
    assert await stores.database.read(left_s) > INSERT_S
    await stores.database.write(expire)
    await shared.keep_leases()  # too late: it may be somebody else's by now
    assert await others.ready(5)


async def test_what_others_stored_before_they_let_go_is_not_stored_again(
    stores: Stores, shared: InboxRecords, others: InboxRecords, on_postgres: None
) -> None:
    await _make_ready(stores, bucket=5)

    def stored_by_others() -> None:
        run_sql(stores.place, "DELETE FROM ready_events")

    with before_statement("INSERT INTO inbox_leases", stored_by_others):
        assert await shared.ready(5) == ()


async def test_a_lease_is_of_one_bucket(
    stores: Stores, shared: InboxRecords, others: InboxRecords, on_postgres: None
) -> None:
    for bucket in (1, 2):
        await _make_ready(stores, bucket)
    assert await shared.ready(1)
    assert await others.ready(2)
    assert await others.ready(1) == ()
    assert await others.ready(3) == ()


async def test_of_many_who_ask_one_gets_the_lease(
    stores: Stores, shared: InboxRecords, others: InboxRecords, on_postgres: None
) -> None:
    await _make_ready(stores, bucket=0)
    asked = await asyncio.gather(*(each.ready(0) for each in (shared, others) * 5))
    assert len({id(each) for each in asked if each}) == 5
    assert {bool(each) for each in asked[::2]} != {bool(each) for each in asked[1::2]}


async def _make_ready(stores: Stores, bucket: int) -> None:
    """Settled with one bucket, as SQLite does it, and moved."""
    single = InboxRecords(stores.database, 1)
    await add(single, arrived(bucket))
    await all_settled(single)
    moved = update(ready_events).where(ready_events.c.bucket == 0).values(bucket=bucket)
    await stores.database.write(lambda connection: connection.execute(moved).close())
