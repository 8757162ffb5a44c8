"""A ClickHouse server that goes away and comes back: appends are refused meanwhile, not lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hedgerow.errors import Unavailable
from hedgerow.storage.connect import EventPlace, open_events
from tests.clickhouse_http import OwnClickHouse
from tests.fault.appending import some_events
from tests.stored_events import parts_of


@pytest.fixture
def own_clickhouse(tmp_path: Path) -> Iterator[OwnClickHouse]:
    server = OwnClickHouse(tmp_path / "clickhouse")
    yield server
    server.kill()


async def test_an_append_is_refused_and_then_stored(
    own_clickhouse: OwnClickHouse, tmp_path: Path
) -> None:
    url = own_clickhouse.new_database()
    events = open_events(EventPlace(url=url, folder=tmp_path, timeout_s=1))
    first, second = some_events(), some_events()
    assert await events.append(first) == len(first)
    own_clickhouse.kill()
    for _ in range(3):
        with pytest.raises(Unavailable):
            await events.append(second)
    own_clickhouse.start()
    assert await events.append([*first, *second]) == len(second)
    assert (await parts_of(events))["rows"] == len(first) + len(second)
    await events.close()
