"""A full disk under the event store: appends fail, nothing is lost or duplicated."""

from pathlib import Path

import pytest

from hedgerow.errors import Unavailable
from hedgerow.storage.connect import EventStoreLocation, open_event_store
from tests.fault.append_process import build_events
from tests.fault.small_disk import fill_up, mount_disk
from tests.support.stored_events import parts_of


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
