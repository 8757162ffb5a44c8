"""The inbox keeps events in order and processes them atomically."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, update

from hedgerow.ingestion.model import CapturedEvent, InboxRow, IngestionWarning, ProcessedRow
from hedgerow.ingestion.persons.loaded_state import LoadedState
from hedgerow.ingestion.persons.process import process_batch
from hedgerow.ingestion.store import (
    PROCESS_BATCH_BYTES,
    PROCESS_BATCH_EVENTS,
    STORE_BATCH_BYTES,
    InboxBacklog,
    InboxWork,
    ProcessingResult,
    WarningQuery,
)
from hedgerow.lib import jsonio
from hedgerow.persons.store import PersonQuery
from hedgerow.projects.model import ProjectId
from hedgerow.storage.ingestion.bucket_leases import BALANCE_INTERVAL_S, LEASE_S
from hedgerow.storage.ingestion.inbox import STORE_BUCKETS, SqlInboxStore
from hedgerow.storage.ingestion.ingestion_warnings import SqlWarningStore
from hedgerow.storage.tables.ingestion import ready_events
from tests.contract.storage.conftest import (
    DEFAULT_PROJECT,
    LATER,
    NOW,
    Stores,
    run_before_statement,
    run_sql,
)
from tests.support.factories import captured_event, no_location, setting

BUCKETS = 16
ODD: dict[str, Any] = {
    "naïve 🌿": "ü \u2028 'quoted' \\ %_ ?",
    "nested": {"list": [1, 1.5, None, True, {"": ""}], "big": 2**70, "small": -(2**200)},
    "": 0,
}


def build_captured_event(number: int, distinct_id: str = "ann", **to_set: Any) -> CapturedEvent:
    uuid = f"0199aaaa-0000-7000-8000-{number:012}"
    return captured_event("seen", distinct_id, {"$set": to_set} if to_set else {}, uuid=uuid)


def decide(
    project_id: ProjectId, events: Sequence[CapturedEvent], known: LoadedState
) -> ProcessingResult:
    """Process events as the service does."""
    processed = process_batch(project_id, known, events, no_location)
    created = [event for event in processed.events if event is not None]
    warnings = [IngestionWarning(type="processed", detail=event.uuid) for event in events]
    calls = {("a-flag", "true"): len(events)}
    return ProcessingResult(
        events=created, changes=processed.changes, warnings=warnings, flag_calls=calls
    )


async def add(
    inbox: SqlInboxStore, *events: CapturedEvent, project: ProjectId = DEFAULT_PROJECT
) -> None:
    await inbox.add(project, events, (), NOW)


async def add_each(inbox: SqlInboxStore, *events: CapturedEvent) -> None:
    for event in events:
        await add(inbox, event)


def get_uuids(rows: Sequence[InboxRow | ProcessedRow]) -> list[str]:
    return [event.uuid for row in rows for event in row.events]


async def process_all(inbox: SqlInboxStore, bucket: int = 0) -> list[str]:
    processed_uuids = []
    while rows := await inbox.fetch_unprocessed(bucket):
        assert await inbox.process(bucket, rows, decide, NOW)
        processed_uuids += get_uuids(rows)
    return processed_uuids


async def get_properties(stores: Stores, distinct_id: str) -> Mapping[str, Any] | None:
    query = PersonQuery(project_id=DEFAULT_PROJECT, distinct_id=distinct_id)
    found, _ = await stores.persons.persons(query)
    return found[0].properties if found else None


async def list_stored_warnings(
    stores: Stores, project_id: ProjectId = DEFAULT_PROJECT
) -> list[str]:
    query = WarningQuery(project_id=project_id, type="", limit=100, offset=0)
    found, _ = await SqlWarningStore(stores.database).list_warnings(query)
    return [warning.detail for warning in reversed(found)]


async def test_events_are_returned_in_order(inbox: SqlInboxStore) -> None:
    assert await inbox.fetch_unprocessed(0) == []
    await add(inbox, build_captured_event(3), build_captured_event(1))
    await add(inbox, build_captured_event(2, "bob"))
    rows = await inbox.fetch_unprocessed(0)
    assert [[event.uuid[-1] for event in row.events] for row in rows] == [["3", "1"], ["2"]]
    assert rows[0].id < rows[1].id
    assert await inbox.fetch_unprocessed(0) == rows


async def test_captured_event_round_trips(inbox: SqlInboxStore) -> None:
    odd = captured_event(
        "naïve 🌿 '", "ann 🌿 \\", ODD, at=datetime(1900, 1, 1, tzinfo=UTC), ip="::1"
    )
    plain = captured_event("seen", "bob", at=datetime(2999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC))
    await add(inbox, odd, plain)
    [row] = await inbox.fetch_unprocessed(0)
    assert row.project_id == DEFAULT_PROJECT
    assert row.events == [odd, plain]


async def test_empty_batch_is_a_no_op(inbox: SqlInboxStore) -> None:
    assert await inbox.fetch_unprocessed(0) == []
    assert await inbox.fetch_processed(0) == ()
    assert await inbox.count_backlog() == InboxBacklog()


async def test_large_batch_is_processed_in_parts_and_in_order(inbox: SqlInboxStore) -> None:
    events = [
        build_captured_event(number, n=number) for number in range(2 * PROCESS_BATCH_EVENTS + 3)
    ]
    await add(inbox, *events)
    assert (await inbox.count_backlog()).total_unprocessed == len(events)
    assert len(get_uuids(await inbox.fetch_unprocessed(0))) == PROCESS_BATCH_EVENTS
    assert await process_all(inbox) == [event.uuid for event in events]
    assert get_uuids(await inbox.fetch_processed(0)) == [event.uuid for event in events]


async def test_small_batches_are_processed_together(inbox: SqlInboxStore) -> None:
    for start in range(
        0, PROCESS_BATCH_EVENTS + 20, 20
    ):  # no more than a busy server takes at once
        await asyncio.gather(
            *(add(inbox, build_captured_event(start + number)) for number in range(20))
        )
    assert len(await inbox.fetch_unprocessed(0)) == PROCESS_BATCH_EVENTS
    assert len(set(await process_all(inbox))) == PROCESS_BATCH_EVENTS + 20


async def test_large_events_are_returned_in_bounded_parts(inbox: SqlInboxStore) -> None:
    """Independent of the size of the backlog and its number of rows."""
    text = "x" * 100_000
    events = [build_captured_event(n, text=text) for n in range(180)]
    for start in range(0, 180, 60):
        await add(inbox, *events[start : start + 60])
    expected = [event.uuid for event in events]
    processed_uuids, stored = [], []
    while rows := await inbox.fetch_unprocessed(0):
        assert len(get_uuids(rows)) * len(text) <= PROCESS_BATCH_BYTES
        assert await inbox.process(0, rows, decide, NOW)
        processed_uuids += get_uuids(rows)
    assert processed_uuids == expected
    while ready := await inbox.fetch_processed(0):
        # Each event holds the text twice: as event property and as person property.
        assert sum(row.number for row in ready) * 2 * len(text) <= STORE_BATCH_BYTES
        await inbox.mark_stored(ready, {}, NOW)
        stored += get_uuids(ready)
    assert stored == expected


async def test_batch_beyond_the_limit_waits_for_the_next_round(inbox: SqlInboxStore) -> None:
    await add(inbox, *(build_captured_event(number) for number in range(PROCESS_BATCH_EVENTS - 1)))
    await add(inbox, build_captured_event(1000), build_captured_event(1001))
    await add(inbox, build_captured_event(1002))
    assert len(get_uuids(await inbox.fetch_unprocessed(0))) == PROCESS_BATCH_EVENTS - 1
    assert (await process_all(inbox))[-3:] == [
        build_captured_event(n).uuid for n in (1000, 1001, 1002)
    ]


async def test_events_of_a_distinct_id_share_a_bucket(shared: SqlInboxStore) -> None:
    events = [build_captured_event(number, f"person {number % 40}") for number in range(400)]
    await add(shared, *events[:200])
    await add_each(shared, *events[200:])
    found = {bucket: await shared.fetch_unprocessed(bucket) for bucket in range(BUCKETS)}
    owners: dict[str, set[int]] = {}
    for bucket, rows in found.items():
        assert get_uuids(rows) == sorted(get_uuids(rows))
        for row in rows:
            for event in row.events:
                owners.setdefault(event.distinct_id, set()).add(bucket)
    assert {len(buckets) for buckets in owners.values()} == {1}
    assert len(set.union(*owners.values())) > BUCKETS // 2
    assert sorted(uuid for rows in found.values() for uuid in get_uuids(rows)) == [
        event.uuid for event in events
    ]


async def test_processing_stores_results_and_removes_rows(
    stores: Stores, inbox: SqlInboxStore
) -> None:
    other = (await stores.new_project("Other")).id
    await add(inbox, build_captured_event(1, plan="free"), build_captured_event(2, plan="paid"))
    await add(inbox, build_captured_event(3), project=other)
    rows = await inbox.fetch_unprocessed(0)
    assert await inbox.process(0, rows, decide, NOW)
    assert await inbox.fetch_unprocessed(0) == []
    ready, of_other = await inbox.fetch_processed(0)
    assert (ready.project_id, ready.number) == (DEFAULT_PROJECT, 2)
    assert (of_other.project_id, of_other.number) == (other, 1)
    assert [event.uuid[-1] for event in (*ready.events, *of_other.events)] == ["1", "2", "3"]
    assert jsonio.decode(ready.events[0].person_properties)["plan"] == "free"
    assert ready.events[1].timestamp == build_captured_event(2).timestamp
    stored = await get_properties(stores, "ann")
    assert stored is not None
    assert stored["plan"] == "paid"
    assert await list_stored_warnings(stores) == [
        build_captured_event(1).uuid,
        build_captured_event(2).uuid,
    ]
    assert await list_stored_warnings(stores, other) == [build_captured_event(3).uuid]


def _fails_before(statement: str) -> AbstractContextManager[None]:
    def fail() -> None:
        raise RuntimeError("killed")

    return run_before_statement(statement, fail)


@pytest.mark.parametrize("step", ["add the results", "remove the rows"])
async def test_processing_is_atomic(stores: Stores, inbox: SqlInboxStore, step: str) -> None:
    statement = "INSERT INTO ready_events"
    if step == "remove the rows":
        statement = "INSERT INTO inbox_positions" if inbox.has_stream else "DELETE FROM inbox"
    await add(inbox, build_captured_event(1, plan="paid"))
    rows = await inbox.fetch_unprocessed(0)
    with _fails_before(statement), pytest.raises(RuntimeError, match="killed"):
        await inbox.process(0, rows, decide, NOW)
    await _assert_untouched(stores, inbox, rows)
    assert await inbox.process(0, rows, decide, NOW)
    assert await get_properties(stores, "ann") is not None


async def test_nothing_is_stored_when_processing_fails(
    stores: Stores, inbox: SqlInboxStore
) -> None:
    other = (await stores.new_project("Other")).id
    await add(inbox, build_captured_event(1, plan="paid"))
    await add(inbox, build_captured_event(2), project=other)
    rows = await inbox.fetch_unprocessed(0)

    def fail_halfway(
        project_id: ProjectId, events: Sequence[CapturedEvent], known: LoadedState
    ) -> ProcessingResult:
        if project_id == other:
            raise RuntimeError("killed")
        return decide(project_id, events, known)

    with pytest.raises(RuntimeError, match="killed"):
        await inbox.process(0, rows, fail_halfway, NOW)
    await _assert_untouched(stores, inbox, rows)


async def _assert_untouched(stores: Stores, inbox: SqlInboxStore, rows: Sequence[InboxRow]) -> None:
    assert await inbox.fetch_unprocessed(0) == rows
    assert await inbox.fetch_processed(0) == ()
    assert await get_properties(stores, "ann") is None
    assert await list_stored_warnings(stores) == []


async def test_warnings_are_stored_with_accepted_events(
    stores: Stores, inbox: SqlInboxStore
) -> None:
    warnings = [IngestionWarning(type="t", detail=text, event="naïve 🌿") for text in ("a", "b")]
    await inbox.add(DEFAULT_PROJECT, [build_captured_event(1)], warnings, NOW)
    await inbox.add(DEFAULT_PROJECT, [], warnings[:1], NOW)
    assert await list_stored_warnings(stores) == ["a", "b", "a"]
    assert get_uuids(await inbox.fetch_unprocessed(0)) == [build_captured_event(1).uuid]
    with _fails_before("INSERT INTO ingestion_warnings"), pytest.raises(RuntimeError):
        await inbox.add(DEFAULT_PROJECT, [build_captured_event(2)], warnings, NOW)
    assert get_uuids(await inbox.fetch_unprocessed(0)) == [build_captured_event(1).uuid]


async def count_backlog(inbox: SqlInboxStore) -> tuple[int, int]:
    """Of all projects: a stream does not count its events by project."""
    backlog = await inbox.count_backlog()
    return backlog.total_unprocessed, backlog.total_unstored


async def test_backlog_is_counted(inbox: SqlInboxStore) -> None:
    for minute in range(3):
        at = NOW + timedelta(minutes=minute)
        await inbox.add(
            DEFAULT_PROJECT,
            [build_captured_event(minute), build_captured_event(minute + 10)],
            (),
            at,
        )
    assert await count_backlog(inbox) == (6, 0)
    rows = await inbox.fetch_unprocessed(0)
    assert await inbox.process(0, rows[:1], decide, NOW)
    assert await count_backlog(inbox) == (4, 2)
    await process_all(inbox)
    assert await count_backlog(inbox) == (0, 6)
    await inbox.mark_stored(await inbox.fetch_processed(0), {}, NOW)
    assert await count_backlog(inbox) == (0, 0)


async def test_stored_rows_are_removed_and_no_others(inbox: SqlInboxStore) -> None:
    for number in range(3):
        await add(inbox, build_captured_event(number))
        await process_all(inbox)
    first, *rest = await inbox.fetch_processed(0)
    await inbox.mark_stored([first], {}, NOW)
    await inbox.mark_stored([first], {}, NOW)
    assert await inbox.fetch_processed(0) == rest


async def test_pending_events_are_known_by_key(inbox: SqlInboxStore) -> None:
    await add(inbox, *(build_captured_event(n) for n in range(PROCESS_BATCH_EVENTS + 1)))
    await add(inbox, build_captured_event(900))
    assert await inbox.list_pending_keys() == []
    sent = [(DEFAULT_PROJECT, uuid) for uuid in await process_all(inbox)]
    assert await inbox.list_pending_keys() == sent
    await inbox.mark_stored((await inbox.fetch_processed(0))[:1], {}, NOW)
    assert await inbox.list_pending_keys() == sent[PROCESS_BATCH_EVENTS:]


async def test_dropped_events_count_until_their_row_is_stored(inbox: SqlInboxStore) -> None:
    """A dropped event is never stored, but still releases the read barrier."""
    dropped = captured_event("$identify", "ann", {"$process_person_profile": False})
    await add(inbox, dropped)
    await process_all(inbox)
    [ready] = await inbox.fetch_processed(0)
    assert (ready.events, ready.number) == ([], 1)


async def test_concurrently_created_persons_cause_a_retry(
    stores: Stores, inbox: SqlInboxStore, on_postgres: None
) -> None:
    """Detected when saving; then the batch is processed again."""
    await add(inbox, build_captured_event(1, plan="paid"))
    rows = await inbox.fetch_unprocessed(0)

    def create_person_in_another_process() -> None:
        columns = "project_id, uuid, properties, is_identified, created_at, updated_at"
        person = "(1, 'a0000000-0000-0000-0000-000000000001', '{\"old\": 1}', false, now(), now())"
        [(id,)] = run_sql(
            stores.location, f"INSERT INTO persons ({columns}) VALUES {person} RETURNING id"
        )
        run_sql(
            stores.location,
            "INSERT INTO person_distinct_ids (project_id, distinct_id, person_id)"
            " VALUES (1, 'ann', :id)",
            id=id,
        )

    with run_before_statement("INSERT INTO persons", create_person_in_another_process):
        assert await inbox.process(0, rows, decide, NOW)
    stored = await get_properties(stores, "ann")
    assert stored is not None
    assert (stored["old"], stored["plan"]) == (1, "paid")
    assert get_uuids(await inbox.fetch_processed(0)) == [build_captured_event(1).uuid]


async def find_bucket(inbox: SqlInboxStore) -> int:
    """Return the first nonempty bucket."""
    first, *_ = [bucket for bucket in range(BUCKETS) if await inbox.fetch_unprocessed(bucket)]
    return first


async def test_nonempty_buckets_are_listed(
    stores: Stores, shared: SqlInboxStore, on_postgres: None
) -> None:
    assert await shared.find_work() == InboxWork(unprocessed={}, has_unstored=False)
    assert await shared.unstored_buckets() == []
    await add_each(shared, *(build_captured_event(n, f"person {n}") for n in range(5)))
    waiting = [bucket for bucket in range(BUCKETS) if await shared.fetch_unprocessed(bucket)]
    assert list((await shared.find_work()).unprocessed) == waiting
    for bucket in waiting[:2]:
        await process_all(shared, bucket)
    work = await shared.find_work()
    assert (list(work.unprocessed), work.has_unstored) == (waiting[2:], True)
    assert await shared.unstored_buckets() == sorted({each % STORE_BUCKETS for each in waiting[:2]})


async def test_rows_processed_by_another_worker_are_skipped(
    stores: Stores, shared: SqlInboxStore, others: SqlInboxStore, on_postgres: None
) -> None:
    await add_each(shared, build_captured_event(1, n=1), build_captured_event(2, n=2))
    bucket = await find_bucket(shared)
    rows = await shared.fetch_unprocessed(bucket)
    assert await others.process(bucket, rows[:1], decide, NOW)
    assert not await shared.process(bucket, rows, decide, LATER)
    assert await list_stored_warnings(stores) == [build_captured_event(1).uuid]
    assert await process_all(shared, bucket) == [build_captured_event(2).uuid]
    assert get_uuids(await shared.fetch_processed(bucket % STORE_BUCKETS)) == [
        build_captured_event(1).uuid,
        build_captured_event(2).uuid,
    ]


async def test_bucket_has_one_worker_at_a_time(
    stores: Stores, shared: SqlInboxStore, others: SqlInboxStore, on_postgres: None
) -> None:
    await add_each(shared, *(build_captured_event(number, n=number) for number in range(40)))
    bucket = await find_bucket(shared)
    rows = await shared.fetch_unprocessed(bucket)
    outcomes = await asyncio.gather(
        *(each.process(bucket, rows, decide, NOW) for each in (shared, others) * 3)
    )
    assert outcomes.count(True) == 1
    stored = await get_properties(stores, "ann")
    assert stored is not None
    assert stored["n"] == 39
    assert len(get_uuids(await shared.fetch_processed(bucket))) == len(get_uuids(rows))


async def test_concurrent_workers_process_each_event_once_and_in_order(
    stores: Stores, shared: SqlInboxStore, others: SqlInboxStore, on_postgres: None
) -> None:
    events = [setting(f"person {n % 7}", n=n) for n in range(300)]
    for start in range(0, 300, 20):
        await add(shared, *events[start : start + 20])

    async def work(inbox: SqlInboxStore) -> int:
        processed_uuids = 0
        for bucket in [*range(BUCKETS)] * 3:
            while rows := await inbox.fetch_unprocessed(bucket):
                if not await inbox.process(bucket, rows, decide, NOW):
                    break
                processed_uuids += len(get_uuids(rows))
        return processed_uuids

    assert sum(await asyncio.gather(*(work(each) for each in (shared, others) * 2))) == 300
    assert (await shared.count_backlog()).total_unstored == 300
    for bucket in range(BUCKETS):
        last: dict[str, int] = {}
        for ready in await shared.fetch_processed(bucket):
            for event in ready.events:
                n = jsonio.decode(event.properties)["$set"]["n"]
                assert last.get(event.distinct_id, -1) < n
                last[event.distinct_id] = n


def expire(connection: Connection) -> None:
    connection.exec_driver_sql(
        "UPDATE inbox_leases SET expires_at = clock_timestamp() - interval '1 millisecond'"
    )


async def test_storing_a_bucket_needs_its_lease(
    stores: Stores, shared: SqlInboxStore, others: SqlInboxStore, on_postgres: None
) -> None:
    await _make_ready(stores, bucket=5)
    assert await shared.fetch_processed(5)
    assert await others.fetch_processed(5) == ()
    assert await shared.fetch_processed(5)
    await stores.database.write(expire)
    assert await others.fetch_processed(5)
    assert await shared.fetch_processed(5) == ()


async def test_lease_expires_and_is_renewed_by_the_database_clock(
    stores: Stores, shared: SqlInboxStore, others: SqlInboxStore, on_postgres: None
) -> None:
    def remaining_s(connection: Connection) -> float:
        sql = "SELECT extract(epoch FROM expires_at - clock_timestamp()) FROM inbox_leases"
        return float(connection.exec_driver_sql(sql).scalar_one())

    def shorten_lease(connection: Connection) -> None:
        sql = "UPDATE inbox_leases SET expires_at = clock_timestamp() + interval '3 seconds'"
        connection.exec_driver_sql(sql)

    await _make_ready(stores, bucket=5)
    await shared.renew_leases()
    assert await shared.fetch_processed(5)
    assert 3 < await stores.database.read(remaining_s) <= LEASE_S
    await stores.database.write(shorten_lease)
    await others.renew_leases()
    assert await stores.database.read(remaining_s) <= 3
    await shared.renew_leases()
    assert await stores.database.read(remaining_s) > 3
    await stores.database.write(expire)
    await shared.renew_leases()  # too late: another process may hold it by now
    assert await others.fetch_processed(5)


async def test_leases_from_before_the_database_clock_was_set_back_do_not_count(
    stores: Stores, shared: SqlInboxStore, others: SqlInboxStore, on_postgres: None
) -> None:
    def age(connection: Connection) -> None:
        for table in ("inbox_leases", "inbox_workers"):
            connection.exec_driver_sql(
                f"UPDATE {table} SET expires_at = expires_at + interval '1 hour'"
            )

    for bucket in range(BUCKETS):
        await _make_ready(stores, bucket)
    for bucket in await shared.unstored_buckets():
        assert await shared.fetch_processed(bucket)
    await stores.database.write(age)
    for bucket in await others.unstored_buckets():
        assert await others.fetch_processed(bucket)


async def test_rows_stored_by_the_previous_holder_are_not_returned(
    stores: Stores, shared: SqlInboxStore, others: SqlInboxStore, on_postgres: None
) -> None:
    await _make_ready(stores, bucket=5)

    def store_in_another_process() -> None:
        run_sql(stores.location, "DELETE FROM ready_events")

    with run_before_statement("INSERT INTO inbox_leases", store_in_another_process):
        assert await shared.fetch_processed(5) == ()


async def test_lease_covers_one_bucket(
    stores: Stores, shared: SqlInboxStore, others: SqlInboxStore, on_postgres: None
) -> None:
    for bucket in (1, 2):
        await _make_ready(stores, bucket)
    assert await shared.fetch_processed(1)
    assert await others.fetch_processed(2)
    assert await others.fetch_processed(1) == ()
    assert await others.fetch_processed(3) == ()


async def test_one_of_many_workers_acquires_the_lease(
    stores: Stores, shared: SqlInboxStore, others: SqlInboxStore, on_postgres: None
) -> None:
    await _make_ready(stores, bucket=0)
    leased = await asyncio.gather(*(each.fetch_processed(0) for each in (shared, others) * 5))
    assert len({id(each) for each in leased if each}) == 5
    assert {bool(each) for each in leased[::2]} != {bool(each) for each in leased[1::2]}


async def test_worker_that_takes_over_repeats_the_same_batch(
    stores: Stores, shared: SqlInboxStore, others: SqlInboxStore, on_postgres: None
) -> None:
    """So the event store recognizes it, even if the previous holder is still sending it."""
    await _make_ready(stores, bucket=5)
    batch = await shared.fetch_processed(5)
    await _make_ready(stores, bucket=5)
    await stores.database.write(expire)
    assert not shared.is_held(6)
    assert await others.fetch_processed(5) == batch
    await others.release_leases()
    assert not others.is_held(5)
    assert await shared.fetch_processed(5) == batch
    assert shared.is_held(5)
    await shared.mark_stored(batch, {}, NOW)
    assert len(await shared.fetch_processed(5)) == 1


async def test_workers_share_the_buckets(
    stores: Stores, shared: SqlInboxStore, others: SqlInboxStore, on_postgres: None
) -> None:
    for bucket in range(1, BUCKETS):
        await _make_ready(stores, bucket)

    async def count_held(inbox: SqlInboxStore) -> int:
        buckets = await inbox.unstored_buckets()
        return sum([bool(await inbox.fetch_processed(bucket)) for bucket in buckets])

    assert await count_held(shared) == BUCKETS - 1
    assert await count_held(others) == 0
    await asyncio.sleep(BALANCE_INTERVAL_S)
    assert sorted([await count_held(each) for each in (shared, others)]) == [
        BUCKETS / 2 - 1,  # nothing is ready in bucket 0
        BUCKETS / 2,
    ]
    await shared.release_leases()
    await asyncio.sleep(BALANCE_INTERVAL_S)
    assert await count_held(others) == BUCKETS - 1


async def _make_ready(stores: Stores, bucket: int) -> None:
    """Process with one bucket, as on SQLite, then move the row to `bucket`."""
    single = SqlInboxStore(stores.database, 1)
    await add(single, build_captured_event(bucket))
    await process_all(single)
    moved = update(ready_events).where(ready_events.c.bucket == 0).values(bucket=bucket)
    await stores.database.write(lambda connection: connection.execute(moved).close())
