"""Writes of the embedded engine that fail: chDB reports success, and leaves incomplete files.

What has been acknowledged is stored once, before and after the engine starts again.
"""

import asyncio
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from hedgerow.errors import Unavailable
from hedgerow.events.model import Event, PersonMode
from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import EventStoreLocation, open_event_store
from hedgerow.storage.events.events import ClickHouseEventStore
from tests.support.failing_writes import SHORT, WRONG, FailingWrites

NOW = datetime(2026, 3, 29, tzinfo=UTC)
TIMEOUT_S = 60

# Every kind of file of a part.
PART_FILES = [
    "checksums.txt",
    "columns.txt",
    "columns_substreams.txt",
    "count.txt",
    "data.bin",
    "data.cmrk*",
    "default_compression_codec.txt",
    "metadata_version.txt",
    "minmax_timestamp.idx",
    "partition.dat",
    "primary.cidx",
    "serialization.json",
    "skp_idx.packed",
]


def build_events(number: int = 20) -> list[Event]:
    return [
        Event(
            project_id=ProjectId(1),
            uuid=str(uuid4()),
            event="$pageview",
            distinct_id=f"user {index}",
            properties='{"path": "/"}',
            elements_chain="",
            timestamp=NOW,
            created_at=NOW,
            person_id=str(uuid4()),
            person_created_at=NOW,
            person_properties="{}",
            person_mode=PersonMode.FULL,
            historical_migration=False,
        )
        for index in range(number)
    ]


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FailingWrites:
    writes = FailingWrites(tmp_path)
    for name, value in writes.environment.items():
        monkeypatch.setenv(name, value)
    return writes


@asynccontextmanager
async def open_store(folder: Path) -> AsyncIterator[ClickHouseEventStore]:
    store = open_event_store(EventStoreLocation(url="", folder=folder / "events", timeout_s=5))
    try:
        yield store
    finally:
        await store.close()


async def read_uuids(store: ClickHouseEventStore) -> list[str]:
    sql = "SELECT uuid FROM events WHERE properties != ''"
    rows = await store.query(sql, {}, max_rows=100_000, timeout_s=30)
    return sorted(str(row["uuid"]) for row in rows)


async def wait_until_stored(store: ClickHouseEventStore, expected: Sequence[Event]) -> None:
    """Append until it succeeds, as the worker does, and compare what can be read."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                await store.append(expected)
                break
            except Unavailable:
                await asyncio.sleep(0.05)
    assert await read_uuids(store) == sort_uuids(expected)


async def wait_until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.05)


def sort_uuids(events: Sequence[Event]) -> list[str]:
    return sorted(event.uuid for event in events)


def list_quarantined(folder: Path) -> list[Path]:
    return list(folder.glob("events/chdb/store/*/*/detached/quarantined_*"))


def list_sources(folder: Path) -> list[Path]:
    return list(folder.glob("events/chdb/store/*/*/detached/source_*"))


INSERT_BY_THE_ENGINE_ALONE = """
import sys
from hedgerow.storage.events.embedded.chdb_server import import_chdb
engine = import_chdb().connect(sys.argv[1])
engine.query("CREATE TABLE t (a Int64) ENGINE = MergeTree ORDER BY a")
engine.query("INSERT INTO t SETTINGS insert_deduplicate = 0 VALUES (1)")
"""


def test_chdb_reports_no_failed_write(tmp_path: Path, failing: FailingWrites) -> None:
    """If this fails, chDB reports failed writes by itself: see decision 61 for what can go."""
    failing.start("*/tmp_insert*/data.bin", failing=1)
    command = [sys.executable, "-c", INSERT_BY_THE_ENGINE_ALONE, str(tmp_path / "engine")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert failing.failed == 1
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("engine/store/*/*/all_*/data.bin")
    assert file.stat().st_size == 0


async def test_an_insert_whose_file_is_not_written_is_repeated(
    tmp_path: Path, failing: FailingWrites
) -> None:
    stored = build_events()
    async with open_store(tmp_path) as store:
        await store.append(stored)
        for file in PART_FILES:
            stored += build_events()
            failing.start(f"*tmp_insert*/{file}", failing=1)
            await wait_until_stored(store, stored)
            assert failing.failed == 1, file
    assert len(list_quarantined(tmp_path)) == len(PART_FILES)
    async with open_store(tmp_path) as store:
        assert await read_uuids(store) == sort_uuids(stored)


@pytest.mark.parametrize(
    ("call", "error"), [("write", WRONG), ("fsync", errno.EIO), ("rename", errno.EIO)]
)
async def test_an_insert_that_fails_in_another_way_is_repeated(
    tmp_path: Path, failing: FailingWrites, call: str, error: int
) -> None:
    stored = build_events()
    async with open_store(tmp_path) as store:
        await store.append(stored)
        stored += build_events()
        failing.start(
            "*/chdb/store/*/2026*" if call == "rename" else "*/data.bin", call, error=error
        )
        for _ in range(3):
            with pytest.raises(Unavailable):
                await store.append(stored)
        failing.stop()
        await wait_until_stored(store, stored)
    async with open_store(tmp_path) as store:
        assert await read_uuids(store) == sort_uuids(stored)


async def test_short_writes_are_continued(tmp_path: Path, failing: FailingWrites) -> None:
    stored = build_events()
    failing.start("*/events/*", "write pwrite", error=SHORT)
    async with open_store(tmp_path) as store:
        await store.append(stored)
        assert failing.failed > len(PART_FILES)
        assert await read_uuids(store) == sort_uuids(stored)
    assert not list_quarantined(tmp_path)


async def merge(store: ClickHouseEventStore) -> None:
    await store.run(lambda client: client.command("OPTIMIZE TABLE events FINAL"))


async def delete_first(store: ClickHouseEventStore) -> None:
    await store.delete(ProjectId(1), distinct_ids=["user 0"])


async def purge_deleted(store: ClickHouseEventStore) -> None:
    await delete_first(store)
    await store.purge()


@pytest.mark.parametrize(
    ("change", "file", "error"),
    [
        (merge, "data.bin", errno.ENOSPC),
        (merge, "data.bin", WRONG),
        (merge, "checksums.txt", errno.EIO),
        (delete_first, "columns.txt", errno.ENOSPC),
        (delete_first, "data.bin", WRONG),
    ],
)
async def test_what_replaces_parts_keeps_them_until_it_is_verified(
    tmp_path: Path,
    failing: FailingWrites,
    change: Callable[[ClickHouseEventStore], Awaitable[None]],
    file: str,
    error: int,
) -> None:
    stored: list[Event] = []
    async with open_store(tmp_path) as store:
        for _ in range(2):
            stored += build_events()
            await store.append(stored)
        failing.start(f"*/tmp_m*/{file}", failing=1, error=error)
        with suppress(Unavailable):
            await change(store)
        assert failing.failed == 1
        await wait_until(lambda: list_quarantined(tmp_path))
        failing.stop()
        if change is delete_first:
            await delete_first(store)
            stored = [event for event in stored if event.distinct_id != "user 0"]
        await wait_until_stored(store, stored)
        await wait_until(lambda: not list_sources(tmp_path))
    async with open_store(tmp_path) as store:
        assert await read_uuids(store) == sort_uuids(stored)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def change(file: Path) -> None:
    file.write_bytes(bytes(byte ^ 0xFF for byte in file.read_bytes()))


@pytest.mark.parametrize("damage", [truncate, change])
async def test_sources_stay_over_a_restart(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """The engine removes old sources when it starts, and finds no changed byte."""
    stored: list[Event] = []
    async with open_store(tmp_path) as store:
        for _ in range(2):
            stored += build_events()
            await store.append(stored)
        await merge(store)
    parts = tmp_path / "events/chdb/store"
    (merged,) = parts.glob("*/*/*_1_2_1/data.bin")
    damage(merged)
    for source in parts.glob("*/*/*_0"):
        os.utime(source, (1, 1))
    for kept in list_sources(tmp_path):
        shutil.rmtree(kept)
    async with open_store(tmp_path) as store:
        await store.prepare()
        await wait_until(lambda: list_quarantined(tmp_path))
        await wait_until_stored(store, stored)
        await wait_until(lambda: not list_sources(tmp_path))
    async with open_store(tmp_path) as store:
        assert await read_uuids(store) == sort_uuids(stored)


async def test_damage_that_only_the_engine_finds_at_its_start_brings_sources_back(
    tmp_path: Path,
) -> None:
    stored: list[Event] = []
    async with open_store(tmp_path) as store:
        for _ in range(2):
            stored += build_events()
            await store.append(stored)
        await merge(store)
    (merged,) = (tmp_path / "events/chdb/store").glob("*/*/*_1_2_1")
    columns = merged / "columns.txt"
    columns.write_text(columns.read_text().replace("Int64", "Int6x"))
    for kept in list_sources(tmp_path):
        shutil.rmtree(kept)
    # As after the time for which the engine keeps them: only the links are there.
    for source in merged.parent.glob("*_0"):
        source.rename(merged.parent / "detached" / f"source_{source.name}")
    async with open_store(tmp_path) as store:
        assert await read_uuids(store) == sort_uuids(stored)
        await wait_until(lambda: not list_sources(tmp_path))


async def test_merges_in_the_background_are_verified(
    tmp_path: Path, failing: FailingWrites
) -> None:
    stored: list[Event] = []
    failing.start("*/tmp_merge*/data.bin", failing=2)
    async with open_store(tmp_path) as store:
        while failing.failed < 2:
            stored += build_events(5)
            await wait_until_stored(store, stored)
        await wait_until(lambda: list_quarantined(tmp_path))
        await wait_until_stored(store, stored)
    async with open_store(tmp_path) as store:
        assert await read_uuids(store) == sort_uuids(stored)


@pytest.mark.parametrize("pattern", ["*/events.sql*", "*/hedgerow.sql*", "*/format_version.txt"])
async def test_tables_that_are_not_created_are_created_later(
    tmp_path: Path, failing: FailingWrites, pattern: str
) -> None:
    failing.start(pattern, failing=1)
    async with open_store(tmp_path) as store:
        stored = build_events()
        await wait_until_stored(store, stored)
        assert failing.failed == 1
    async with open_store(tmp_path) as store:
        assert await read_uuids(store) == sort_uuids(stored)


async def test_a_changed_definition_that_is_not_written_does_not_replace_the_old_one(
    tmp_path: Path, failing: FailingWrites
) -> None:
    async with open_store(tmp_path) as store:
        stored = build_events()
        await store.append(stored)
        failing.start("*/events.sql*", failing=1)
        statement = "ALTER TABLE events MODIFY SETTING old_parts_lifetime = 11"
        with pytest.raises(Unavailable):
            await store.run(lambda client: client.command(statement))
        assert failing.failed == 1
        assert await read_uuids(store) == sort_uuids(stored)
    async with open_store(tmp_path) as store:
        assert await read_uuids(store) == sort_uuids(stored)


async def test_a_deletion_that_is_not_written_is_refused(
    tmp_path: Path, failing: FailingWrites
) -> None:
    async with open_store(tmp_path) as store:
        stored = build_events()
        await store.append(stored)
        failing.start("*/tmp_mutation*", failing=1)
        with pytest.raises(Unavailable):
            await delete_first(store)
        assert failing.failed == 1
        await delete_first(store)
    async with open_store(tmp_path) as store:
        assert await read_uuids(store) == sort_uuids(stored[1:])
