"""A full disk under the event store: appends are refused, nothing is lost, nothing is doubled."""

from pathlib import Path

import pytest

from hedgerow.errors import Unavailable
from hedgerow.storage.connect import EventPlace, open_events
from tests.fault.appending import some_events
from tests.fault.small_disk import fill_up, mounted_disk
from tests.stored_events import parts_of


async def test_an_append_is_refused_until_there_is_room(tmp_path: Path) -> None:
    with mounted_disk(tmp_path / "disk", "32m") as disk:
        events = open_events(EventPlace(url="", folder=disk / "events", timeout_s=5))
        first, second = some_events(), some_events()
        assert await events.append(first) == len(first)
        fill_up(disk / "filler")
        for _ in range(3):
            with pytest.raises(Unavailable, match="disk of the event store is full"):
                await events.append(second)
        (disk / "filler").unlink()
        assert await events.append([*first, *second]) == len(second)
        assert (await parts_of(events))["rows"] == len(first) + len(second)
        await events.close()
