"""A full disk under the event store: appends fail, the move to typed columns pauses, and nothing is
lost or duplicated.
"""

import asyncio
import os
from pathlib import Path

import pytest

from hedgerow.errors import OperatorError, Unavailable
from hedgerow.storage.connect import EventStoreLocation, open_event_store
from hedgerow.storage.events import column_move, typed_columns
from hedgerow.storage.events.events import ClickHouseEventStore
from hedgerow.storage.events.folder_lock import is_locked
from tests.fault.append_process import build_events
from tests.fault.small_disk import fill_up, mount_disk
from tests.support.stored_events import parts_of

TIMEOUT_S = 60
SPACE_OF_A_STATEMENT = 64 << 10


async def test_append_fails_until_space_is_freed(tmp_path: Path) -> None:
    with mount_disk(tmp_path / "disk", "32m") as disk:
        events = open_event_store(EventStoreLocation(url="", folder=disk / "events", timeout_s=5))
        first, second = build_events(), build_events()
        assert await events.append(first) == len(first)
        fill_up(disk / "filler")
        for _ in range(3):
            with pytest.raises(Unavailable, match="disk of the event store is full"):
                await events.append(second)
        (disk / "filler").unlink()
        assert await events.append([*first, *second]) == len(second)
        assert (await parts_of(events))["rows"] == len(first) + len(second)
        await events.close()


async def test_a_new_store_opens_when_space_is_freed(tmp_path: Path) -> None:
    with mount_disk(tmp_path / "disk", "32m") as disk:
        place = EventStoreLocation(url="", folder=disk / "events", timeout_s=5)
        place.folder.mkdir(mode=0o700)
        fill_up(disk / "filler")
        for _ in range(2):
            with pytest.raises(OperatorError, match="cannot be opened: No space left on device"):
                open_event_store(place)
        assert not is_locked(place.folder)
        (disk / "filler").unlink()
        events = open_event_store(place)
        first = build_events()
        assert await events.append(first) == len(first)
        await events.close()


async def test_a_move_to_typed_columns_pauses_until_space_is_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A month is begun although it does not fit.
    monkeypatch.setattr(column_move, "RESERVED_DISK_BYTES", -1 << 40)
    with mount_disk(tmp_path / "disk", "128m") as disk:
        place = EventStoreLocation(url="", folder=disk / "events", timeout_s=5)
        count = await store_old_events(place)
        events = open_event_store(place)
        await events.prepare()
        fill_up(disk / "filler")
        # The statement still fits, and what it does not.
        os.truncate(disk / "filler", (disk / "filler").stat().st_size - SPACE_OF_A_STATEMENT)
        await events.move_columns()
        assert "The disk has 0 MiB free" in (await events.check()).move_problem
        assert await count_paths(events) == count
        for _ in range(2):
            await events.move_columns()
        assert not events.reads_typed_columns
        (disk / "filler").unlink()
        async with asyncio.timeout(TIMEOUT_S):
            while not events.reads_typed_columns:
                await events.move_columns()
                await asyncio.sleep(0.05)
        assert await count_paths(events) == count
        await events.close()


async def store_old_events(place: EventStoreLocation) -> int:
    """Store events of some months without typed columns. Return how many."""
    events = open_event_store(place)
    await events.prepare()
    dropped = ", ".join(f"DROP COLUMN {name}" for name in typed_columns.list_column_names())
    await events.run(lambda client: client.command(f"ALTER TABLE events {dropped}"))
    stored = await events.append([event for _ in range(5) for event in build_events()])
    await events.close()
    return stored


async def count_paths(events: ClickHouseEventStore) -> int:
    sql = "SELECT countIf(properties_other.path.:String = '=/') AS found FROM events"
    (row,) = await events.query(sql, {}, max_rows=1, timeout_s=30)
    return int(row["found"])
