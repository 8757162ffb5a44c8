"""Queries with user input, on both engines: read-only and limited."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hedgerow.errors import Invalid, Unavailable
from hedgerow.events.store import QueryLimits, QueryResult
from hedgerow.storage.connect import EventStoreLocation, open_event_store
from hedgerow.storage.events.events import ClickHouseEventStore
from hedgerow.storage.events.queries import ClickHouseEventReader

LIMITS = QueryLimits(timeout_s=60, max_rows=100, max_bytes=1 << 20)


@pytest.fixture(params=["chdb", "server"])
async def queries(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[ClickHouseEventReader]:
    url = ""
    if request.param == "server":
        url = request.getfixturevalue("clickhouse").create_database()
    events = open_event_store(EventStoreLocation(url=url, folder=tmp_path / "events", timeout_s=20))

    async def get_store() -> ClickHouseEventStore:
        return events

    yield ClickHouseEventReader(get_store)
    await events.close()


async def test_result_has_rows_and_types(queries: ClickHouseEventReader) -> None:
    response = await queries.read("SELECT {a:String} AS x, 1 AS y", {"a": "'; --"}, LIMITS)
    assert list(response.types) == ["String", "UInt8"]
    assert [tuple(row) for row in response.rows] == [("'; --", 1)]


async def test_empty_result_has_types(queries: ClickHouseEventReader) -> None:
    response = await queries.read("SELECT uuid, event FROM events", {}, LIMITS)
    assert list(response.types) == ["UUID", "LowCardinality(String)"]
    assert list(response.rows) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM file('/etc/passwd', 'LineAsString')",
        "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
        "SELECT 1 INTO OUTFILE '/tmp/x'",
        "SELECT 1 SETTINGS readonly = 0",
    ],
)
async def test_query_cannot_reach_other_data(queries: ClickHouseEventReader, sql: str) -> None:
    with pytest.raises((Invalid, Unavailable)):
        await queries.read(sql, {}, LIMITS)
    assert (await queries.read("SELECT count() FROM events", {}, LIMITS)).rows[0][0] == 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT number FROM numbers(101)",
        "SELECT toString(groupArray(number)) FROM numbers(300000)",
        "SELECT groupArray(number) FROM numbers(200000000)",
        "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1",
    ],
)
async def test_reader_enforces_limits(queries: ClickHouseEventReader, sql: str) -> None:
    limits = QueryLimits(timeout_s=0.5, max_rows=100, max_bytes=1 << 20)
    with pytest.raises(Invalid) as refused:
        await queries.read(sql, {}, limits)
    assert refused.value.code == "query_limit_exceeded"


# On a server this query would run on.
@pytest.mark.parametrize("queries", ["chdb"], indirect=True)
async def test_a_query_that_does_not_end_is_aborted(queries: ClickHouseEventReader) -> None:
    """The engine checks its limits between blocks: this is one block of slow rows."""
    aborted: list[bool] = []
    limits = QueryLimits(
        timeout_s=0.5, max_rows=100, max_bytes=1 << 20, on_abort=lambda: aborted.append(True)
    )
    text = "concat(repeat('a', 60000), toString(number))"
    sql = f"SELECT editDistance({text}, repeat('b', 60000)) FROM numbers(5)"
    with pytest.raises(Invalid) as refused:
        await queries.read(sql, {}, limits)
    assert refused.value.code == "query_limit_exceeded"
    assert aborted == [True]
    assert (await queries.read("SELECT 1", {}, LIMITS)).rows[0][0] == 1


@pytest.mark.parametrize("kind", ["read", "read_shaped"])
async def test_a_cancelled_query_is_ended(queries: ClickHouseEventReader, kind: str) -> None:
    endless = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1"
    if kind == "read":
        reading = asyncio.create_task(queries.read(endless, {}, LIMITS))
    else:
        reading = asyncio.create_task(queries.read_shaped(endless, {}, LIMITS, _return_result))
    await _wait_for_running(queries, 1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(reading, 60)
    await _wait_for_running(queries, 0)


async def _wait_for_running(queries: ClickHouseEventReader, number: int) -> None:
    """Wait until so many of the endless queries run."""
    running = "SELECT count() FROM system.processes WHERE position(query, 'sip' || 'Hash64') > 0"
    async with asyncio.timeout(30):
        while (await queries.read(running, {}, LIMITS)).rows[0][0] != number:
            await asyncio.sleep(0.05)


def _return_result(result: QueryResult) -> QueryResult:
    return result


@pytest.mark.parametrize(
    "sql", ["SELECT nope", "SELECT nope(1)", "SELECT 'a' + 1", "SELECT match('a', '(')", "SELEC 1"]
)
async def test_query_error_does_not_expose_engine_messages(
    queries: ClickHouseEventReader, sql: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await queries.read(sql, {}, LIMITS)
    assert refused.value.code == "invalid_query"
    assert "DB::" not in refused.value.detail
    assert "nope" not in refused.value.detail
