"""Appends fail while a ClickHouse server is unavailable, and nothing is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hedgerow.errors import Unavailable
from hedgerow.storage.connect import EventStoreLocation, open_event_store
from tests.fault.append_process import build_events
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.stored_events import parts_of


@pytest.fixture
def own_clickhouse(tmp_path: Path) -> Iterator[ClickHouseTestServer]:
    server = ClickHouseTestServer(tmp_path / "clickhouse")
    yield server
    server.kill()


async def test_append_fails_while_unavailable_and_succeeds_later(
    own_clickhouse: ClickHouseTestServer, tmp_path: Path
) -> None:
    url = own_clickhouse.create_database()
    events = open_event_store(EventStoreLocation(url=url, folder=tmp_path, timeout_s=1))
    first, second = build_events(), build_events()
    assert await events.append(first) == len(first)
    own_clickhouse.kill()
    for _ in range(3):
        with pytest.raises(Unavailable):
            await events.append(second)
    own_clickhouse.start()
    assert await events.append([*first, *second]) == len(second)
    assert (await parts_of(events))["rows"] == len(first) + len(second)
    await events.close()
