"""Events of an older version get typed columns while the store is in use."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from clickhouse_connect.driver.client import Client

from hedgerow.storage.connect import EventStoreLocation, open_event_store
from hedgerow.storage.events import column_move, granules, typed_columns
from hedgerow.storage.events.events import ClickHouseEventStore
from hedgerow.storage.events.schema import COLUMNS, GRANULE_ROWS
from hedgerow.storage.events.table_layout import find_layout
from tests.contract.storage.events.test_events import NOW, PROJECT, event
from tests.support.clickhouse_http import ClickHouseTestServer

MONTHS = 3
TEXT = '{"$browser": "Chrome", "plan": "pro", "price": 12.5, "due": "2026-01-01"}'
READ = """
    SELECT properties_common.`$browser` AS browser, properties_other.plan.:String AS plan,
           properties_other.price.:Float64 AS price, properties_other.due.:String AS due
    FROM events
"""
REPEATS = 4_000
REPEAT_EVENTS = f"""
    INSERT INTO events ({", ".join(COLUMNS)})
    SELECT {", ".join(COLUMNS)} FROM events CROSS JOIN numbers({REPEATS}) AS repeats
"""
COUNT = (
    "SELECT count() AS events, countIf(properties_other.plan.:String = '=pro') AS plans FROM events"
)
OWN_TABLES = "FROM system.tables WHERE database = currentDatabase() AND name"
DEFINITIONS = """
    SELECT name, type, default_kind, default_expression, compression_codec FROM system.columns
    WHERE database = currentDatabase() AND table = 'events' ORDER BY position
"""
ENGINE = f"SELECT engine_full {OWN_TABLES} = 'events'"
STATEMENT = f"SELECT create_table_query AS statement {OWN_TABLES} = 'events'"
TIMEOUT_S = 60


@pytest.fixture(params=["chdb", "server"])
def location(
    request: pytest.FixtureRequest, tmp_path: Path, clickhouse: ClickHouseTestServer
) -> EventStoreLocation:
    url = "" if request.param == "chdb" else clickhouse.create_database()
    return EventStoreLocation(url=url, folder=tmp_path, timeout_s=60)


@pytest.fixture
async def old_store(location: EventStoreLocation) -> EventStoreLocation:
    """A store with events in several months whose table has no typed columns."""
    store = open_event_store(location)
    await store.prepare()
    dropped = ", ".join(f"DROP COLUMN {name}" for name in typed_columns.list_column_names())
    await store.run(lambda client: client.command(f"ALTER TABLE events {dropped}"))
    for month in range(MONTHS):
        moment = NOW.replace(month=month + 1, day=1)
        await store.append([event(properties=TEXT, timestamp=moment) for _ in range(5)])
    await store.close()
    return location


def inspect_events(client: Client) -> column_move.MoveState:
    layout = find_layout(client)
    assert layout is not None
    return column_move.inspect_move(client, layout)


async def finish_move(store: ClickHouseEventStore) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not store.reads_typed_columns:
            await store.move_columns()
            await asyncio.sleep(0.05)


async def check_values(store: ClickHouseEventStore, count: int) -> None:
    rows = await store.query(READ, {}, max_rows=100, timeout_s=TIMEOUT_S)
    expected = {"browser": "Chrome", "plan": "=pro", "price": 12.5, "due": "=2026-01-01"}
    assert rows == [expected] * count


async def test_older_events_are_moved_and_readable_throughout(
    old_store: EventStoreLocation,
) -> None:
    store = open_event_store(old_store)
    try:
        await store.prepare()
        assert not store.reads_typed_columns
        assert (await store.check()).unmoved == 5 * MONTHS
        await check_values(store, 5 * MONTHS)
        await store.move_columns()
        await store.append([event(properties=TEXT)])
        await check_values(store, 5 * MONTHS + 1)
        await finish_move(store)
        await check_values(store, 5 * MONTHS + 1)
        findings = await store.check()
        assert not findings.missing
        assert not findings.unmoved
    finally:
        await store.close()


async def test_an_older_table_gets_the_columns_and_settings_of_a_new_one(
    old_store: EventStoreLocation, tmp_path: Path, clickhouse: ClickHouseTestServer
) -> None:
    url = clickhouse.create_database() if old_store.url else ""
    tables = []
    for location in (old_store, replace(old_store, url=url, folder=tmp_path / "new")):
        store = open_event_store(location)
        try:
            columns = await store.query(DEFINITIONS, {}, max_rows=100, timeout_s=TIMEOUT_S)
            (row,) = await store.query(ENGINE, {}, max_rows=1, timeout_s=TIMEOUT_S)
        finally:
            await store.close()
        engine, _, settings = row["engine_full"].partition(" SETTINGS ")
        tables.append((columns, engine, sorted(settings.split(", "))))
    older, new = tables
    assert older == new
    assert [column["name"] for column in new[0]][-4:] == typed_columns.list_column_names()


async def test_a_move_continues_after_a_kill(old_store: EventStoreLocation) -> None:
    store = open_event_store(old_store)
    # Enough that a month is not done before the kill.
    await store.run(lambda client: client.command(REPEAT_EVENTS))
    await store.move_columns()
    assert (await store.run(inspect_events)).mutation_id
    await store.close()  # kills an embedded engine
    store = open_event_store(old_store)
    try:
        await finish_move(store)
        assert (await store.run(inspect_events)).rows_left == 0
        expected = {"events": 5 * MONTHS * (1 + REPEATS), "plans": 5 * MONTHS * (1 + REPEATS)}
        assert await store.query(COUNT, {}, max_rows=1, timeout_s=TIMEOUT_S) == [expected]
    finally:
        await store.close()


def run_command(statement: str, client: Client) -> None:
    client.command(statement)


async def make_coarse(store: ClickHouseEventStore) -> int:
    """Store events in a table with the granules of an older version. Return how many."""
    (row,) = await store.query(STATEMENT, {}, max_rows=1, timeout_s=TIMEOUT_S)
    statement = row["statement"].replace(f"= {GRANULE_ROWS}", "= 8192")
    dropped = ", ".join(f"DROP COLUMN {name}" for name in typed_columns.list_column_names())
    for each in ("DROP TABLE events SYNC", statement, f"ALTER TABLE events {dropped}"):
        await store.run(partial(run_command, each))
    for month in range(MONTHS):
        moment = NOW.replace(month=month + 1, day=1)
        await store.append([event(properties=TEXT, timestamp=moment) for _ in range(5)])
    await store.run(partial(run_command, REPEAT_EVENTS))
    return 5 * MONTHS * (1 + REPEATS)


async def count_granules(store: ClickHouseEventStore) -> int:
    sql = "SELECT sum(marks) AS marks FROM system.parts WHERE active AND table = 'events'"
    (row,) = await store.query(sql, {}, max_rows=1, timeout_s=TIMEOUT_S)
    return int(row["marks"])


@pytest.mark.parametrize("is_left_over", [False, True])
async def test_an_older_table_is_replaced_and_its_parts_are_rewritten(
    tmp_path: Path, is_left_over: bool
) -> None:
    location = EventStoreLocation(url="", folder=tmp_path, timeout_s=60)
    store = open_event_store(location)
    count = await make_coarse(store)
    coarse = await count_granules(store)
    assert await store.delete(PROJECT, event="none") == 0
    if is_left_over:  # by a crash before the tables were exchanged
        copy = f"CREATE TABLE {granules.NEXT_TABLE} AS events"
        await store.run(partial(run_command, copy))
    await store.close()
    store = open_event_store(location)
    try:
        await store.prepare()
        expected = [{"events": count, "plans": count}]
        assert await store.query(COUNT, {}, max_rows=1, timeout_s=TIMEOUT_S) == expected
        await store.move_columns()
        assert (await store.run(inspect_events)).mutation_id
        await store.close()  # kills the engine
        store = open_event_store(location)
        await store.append([event(properties=TEXT)])
        async with asyncio.timeout(TIMEOUT_S):
            while (await store.run(inspect_events)).all_rows_left:
                await store.move_columns()
                await asyncio.sleep(0.05)
        await finish_move(store)
        expected = [{"events": count + 1, "plans": count + 1}]
        assert await store.query(COUNT, {}, max_rows=1, timeout_s=TIMEOUT_S) == expected
        assert await count_granules(store) > 4 * coarse
        tables = f"SELECT name {OWN_TABLES} LIKE 'events%'"
        found = await store.query(tables, {}, max_rows=10, timeout_s=TIMEOUT_S)
        assert found == [{"name": "events"}]
        assert not (await store.check()).missing
    finally:
        await store.close()


async def test_a_table_with_parts_that_were_set_aside_is_kept(tmp_path: Path) -> None:
    location = EventStoreLocation(url="", folder=tmp_path, timeout_s=60)
    store = open_event_store(location)
    await make_coarse(store)
    await store.run(partial(run_command, "ALTER TABLE events DETACH PARTITION ID '202601'"))
    await store.close()
    store = open_event_store(location)
    try:
        await store.prepare()
        (row,) = await store.query(STATEMENT, {}, max_rows=1, timeout_s=TIMEOUT_S)
        assert "index_granularity = 8192" in row["statement"]
        parts = "SELECT count() > 0 AS has_parts FROM system.detached_parts WHERE table = 'events'"
        found = await store.query(parts, {}, max_rows=1, timeout_s=TIMEOUT_S)
        assert found == [{"has_parts": 1}]
    finally:
        await store.close()


async def test_a_full_disk_stops_the_move_until_there_is_space(
    old_store: EventStoreLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_event_store(old_store)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(column_move, "RESERVED_DISK_BYTES", 1 << 60)
            await store.prepare()
            for _ in range(3):
                await store.move_columns()
            assert not store.reads_typed_columns
            assert "The disk has" in (await store.check()).move_problem
            await check_values(store, 5 * MONTHS)
        await finish_move(store)
    finally:
        await store.close()


async def test_a_new_store_has_typed_columns(location: EventStoreLocation) -> None:
    store = open_event_store(location)
    try:
        await store.append([event(properties=TEXT)])
        assert store.reads_typed_columns
        await check_values(store, 1)
        assert await store.delete(PROJECT, distinct_ids=["user"]) == 1
        await store.purge()
        await check_values(store, 0)
    finally:
        await store.close()
