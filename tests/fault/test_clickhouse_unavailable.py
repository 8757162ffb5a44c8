"""Appends and queries fail while a ClickHouse server is unavailable, and nothing is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hedgerow.errors import Unavailable
from hedgerow.events.store import QueryLimits
from hedgerow.storage.connect import EventStoreLocation, open_event_store
from hedgerow.storage.events.events import ClickHouseEventStore
from hedgerow.storage.events.queries import ClickHouseEventReader
from tests.fault.append_process import build_events
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.stored_events import parts_of

LIMITS = QueryLimits(timeout_s=60, max_rows=100, max_bytes=1 << 20)


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


async def test_a_query_is_not_blamed_for_a_frozen_server(
    own_clickhouse: ClickHouseTestServer, tmp_path: Path
) -> None:
    """It fails with 503, and further queries of its project are not throttled."""
    url = own_clickhouse.create_database()
    events = open_event_store(EventStoreLocation(url=url, folder=tmp_path, timeout_s=1))

    async def open_store() -> ClickHouseEventStore:
        return events

    blamed: list[bool] = []
    limits = QueryLimits(
        timeout_s=0.5, max_rows=100, max_bytes=1 << 20, on_abort=lambda: blamed.append(True)
    )
    reader = ClickHouseEventReader(open_store)
    assert (await reader.read("SELECT 1", {}, LIMITS)).rows[0][0] == 1
    with own_clickhouse.freeze(), pytest.raises(Unavailable):
        await reader.read("SELECT 2", {}, limits)
    assert not blamed
    assert (await reader.read("SELECT 3", {}, LIMITS)).rows[0][0] == 3
    await events.close()
