"""Questions from outside, on either engine: they change nothing and have limits."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hedgerow.errors import Invalid, Unavailable
from hedgerow.events.store import Limits
from hedgerow.storage.connect import EventPlace, open_events
from hedgerow.storage.event_reading import EventQueries
from hedgerow.storage.events import EventRecords

LIMITS = Limits(timeout_s=60, max_rows=100, max_bytes=1 << 20)


@pytest.fixture(params=["chdb", "server"])
async def queries(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventQueries]:
    url = ""
    if request.param == "server":
        url = request.getfixturevalue("clickhouse").new_database()
    events = open_events(EventPlace(url=url, folder=tmp_path / "events", timeout_s=20))

    async def reached() -> EventRecords:
        return events

    yield EventQueries(reached)
    await events.close()


async def test_an_answer_has_rows_and_types(queries: EventQueries) -> None:
    answer = await queries.read("SELECT {a:String} AS x, 1 AS y", {"a": "'; --"}, LIMITS)
    assert list(answer.types) == ["String", "UInt8"]
    assert [tuple(row) for row in answer.rows] == [("'; --", 1)]


async def test_an_answer_without_rows_has_types(queries: EventQueries) -> None:
    answer = await queries.read("SELECT uuid, event FROM events", {}, LIMITS)
    assert list(answer.types) == ["UUID", "LowCardinality(String)"]
    assert list(answer.rows) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM file('/etc/passwd', 'LineAsString')",
        "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
        "SELECT 1 INTO OUTFILE '/tmp/x'",
        "SELECT 1 SETTINGS readonly = 0",
    ],
)
async def test_nothing_else_can_be_reached(queries: EventQueries, sql: str) -> None:
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
async def test_a_question_has_limits(queries: EventQueries, sql: str) -> None:
    limits = Limits(timeout_s=0.5, max_rows=100, max_bytes=1 << 20)
    with pytest.raises(Invalid) as refused:
        await queries.read(sql, {}, limits)
    assert refused.value.code == "query_limit_exceeded"


@pytest.mark.parametrize(
    "sql", ["SELECT nope", "SELECT nope(1)", "SELECT 'a' + 1", "SELECT match('a', '(')", "SELEC 1"]
)
async def test_what_cannot_be_run_is_told_without_the_engines_words(
    queries: EventQueries, sql: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await queries.read(sql, {}, LIMITS)
    assert refused.value.code == "invalid_query"
    assert "DB::" not in refused.value.detail
    assert "nope" not in refused.value.detail
