"""What the event store does with its parts: purges, merges and backups, on chDB and on a server."""

import asyncio
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from hedgerow.errors import OperatorError
from hedgerow.storage.connect import EventStoreLocation, open_event_store
from hedgerow.storage.events.events import MAX_PARTS, ClickHouseEventStore
from hedgerow.storage.events.purge import EARLIER_PURGE_POLL_S
from tests.contract.storage.events.test_events import (
    NOW,
    PROJECT,
    event,
    event_store_location,
    events,
    list_stored,
    sort_by_uuid,
)
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.stored_events import parts_of

__all__ = ["event_store_location", "events"]


async def test_purge_removes_deleted_events_from_the_parts(events: ClickHouseEventStore) -> None:
    kept, deleted = event(), event()
    await events.append([kept, deleted])
    await events.delete(PROJECT, uuids=[deleted.uuid])
    assert (await parts_of(events))["rows"] == 2
    await events.purge()
    assert (await parts_of(events))["rows"] == 1
    assert await list_stored(events) == [kept]
    await events.purge()


async def test_purge_waits_for_an_earlier_one_that_its_client_has_given_up(
    events: ClickHouseEventStore,
) -> None:
    """Another one would write the same parts again after it."""
    deleted = event()
    await events.append([event(), deleted])
    await events.delete(PROJECT, uuids=[deleted.uuid])
    await events.query("SYSTEM STOP MERGES events", {}, max_rows=1, timeout_s=30)
    earlier = "ALTER TABLE events APPLY DELETED MASK SETTINGS mutations_sync = 0"
    await events.run(lambda client: client.command(earlier))
    purging = asyncio.ensure_future(events.purge())
    # It waits for longer than it takes to begin another one.
    await asyncio.wait({purging}, timeout=2 * EARLIER_PURGE_POLL_S)
    count = "SELECT count() AS count FROM system.mutations WHERE command LIKE '%DELETED MASK%'"
    own = f"{count} AND database = currentDatabase()"
    assert await events.query(own, {}, max_rows=1, timeout_s=30) == [{"count": 1}]
    await events.query("SYSTEM START MERGES events", {}, max_rows=1, timeout_s=30)
    await purging
    assert (await parts_of(events))["rows"] == 1


async def test_purge_removes_deleted_persons(events: ClickHouseEventStore) -> None:
    columns = "project_id, id, properties, version, is_deleted"
    rows = "(1, '{0}', 'old', 1, 0), (1, '{0}', '', 2, 1), (1, '{1}', 'kept', 1, 0)"
    await events.prepare()
    values = rows.format(UUID(int=1), UUID(int=2))
    await events.run(
        lambda client: client.command(f"INSERT INTO persons ({columns}) VALUES {values}")
    )
    await events.purge()
    left = await events.query("SELECT properties FROM persons", {}, max_rows=9, timeout_s=30)
    assert left == [{"properties": "kept"}]


async def test_many_small_parts_are_merged(events: ClickHouseEventStore) -> None:
    await events.prepare()
    await events.query("SYSTEM STOP MERGES events", {}, max_rows=1, timeout_s=30)
    for _ in range(MAX_PARTS + 1):
        await events.append([event()])
    assert (await parts_of(events))["parts"] == MAX_PARTS + 1
    await events.query("SYSTEM START MERGES events", {}, max_rows=1, timeout_s=30)
    # The engine merges in the background too, so either may be first.
    async with asyncio.timeout(30):
        while (found := await parts_of(events))["parts"] > MAX_PARTS:
            await events.compact()
    assert found["rows"] == MAX_PARTS + 1
    assert await events.compact() == 0


async def test_backup_contains_the_events_of_its_snapshot(tmp_path: Path) -> None:
    place = EventStoreLocation(url="", folder=tmp_path / "events", timeout_s=1)
    backup = tmp_path / "it's a backup"
    events = open_event_store(place)
    kept = [event(), event(timestamp=NOW - timedelta(days=90))]
    gone, later = event(), event()
    await events.append([*kept, gone])
    await events.delete(PROJECT, uuids=[gone.uuid])
    await events.backup(backup)
    await events.append([later])
    with pytest.raises(OperatorError, match="exists"):
        await events.backup(backup)
    with pytest.raises(OperatorError, match="empty"):
        await events.restore(backup)
    await events.close()

    fresh = open_event_store(EventStoreLocation(url="", folder=tmp_path / "fresh", timeout_s=1))
    with pytest.raises(OperatorError, match="no backup"):
        await fresh.restore(tmp_path)
    await fresh.restore(backup)
    assert await list_stored(fresh) == sort_by_uuid(*kept)
    assert await fresh.append([*kept, gone, later]) == 2
    await fresh.close()


async def test_backup_of_a_server_is_rejected(
    clickhouse: ClickHouseTestServer, tmp_path: Path
) -> None:
    url = clickhouse.create_database()
    events = open_event_store(EventStoreLocation(url=url, folder=tmp_path, timeout_s=20))
    with pytest.raises(OperatorError, match="BACKUP"):
        await events.backup(tmp_path / "backup")
    await events.close()


async def test_embedded_engine_removes_parts_without_more_threads(tmp_path: Path) -> None:
    # Above a threshold of 100 parts it starts 128 threads, and keeps them.
    events = open_event_store(EventStoreLocation(url="", folder=tmp_path / "events", timeout_s=20))
    tables = "SELECT name, engine_full FROM system.tables WHERE database = currentDatabase()"
    try:
        await events.append([event()])
        rows = await events.query(tables, {}, max_rows=100, timeout_s=30)
    finally:
        await events.close()
    limited = [row for row in rows if "concurrent_part_removal_threshold" in row["engine_full"]]
    assert len(limited) == len(rows) > 1
