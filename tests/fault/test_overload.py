"""More requests than the service can answer: the surplus is refused at once, the rest is served."""

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import aiohttp
import psycopg
import pytest

from hedgerow.http.server.request_queues import MAX_RUNNING
from tests.support.live import PROJECT_KEY, LiveServer
from tests.support.postgres import PostgresTestServer

# Captures that wait for the database and for their handler. More are refused.
FILLING = MAX_RUNNING + 100
AT_MOST_S = 60.0
CAPTURE = {"api_key": PROJECT_KEY, "event": "viewed", "distinct_id": "ann"}
DECIDE = {"api_key": PROJECT_KEY, "distinct_id": "ann"}

# A service, and a function that returns a lock on its inbox.
Locked = tuple[LiveServer, Callable[[], contextlib.AbstractContextManager[object]]]


@pytest.fixture(params=["sqlite", "postgresql"])
def locked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Locked]:
    timeout = {"database_timeout_s": "120"}
    if request.param == "sqlite":
        with LiveServer(tmp_path, **timeout) as server:
            yield server, lambda: _lock_sqlite(tmp_path)
        return
    postgres: PostgresTestServer = request.getfixturevalue("postgres")
    url = postgres.create_migrated_database()
    with LiveServer(tmp_path, database_url=url, **timeout) as server:
        yield server, lambda: _lock_postgres(url)


@contextlib.contextmanager
def _lock_sqlite(data: Path) -> Iterator[None]:
    with contextlib.closing(
        sqlite3.connect(data / "hedgerow.db", isolation_level=None, timeout=60)
    ) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


@contextlib.contextmanager
def _lock_postgres(url: str) -> Iterator[None]:
    with psycopg.connect(url) as connection:
        connection.execute("LOCK TABLE inbox IN EXCLUSIVE MODE")
        yield


# Status, headers and body.
Response = tuple[int, Mapping[str, str], str]


async def test_overload_of_capture_is_refused_at_once_and_harms_nothing_else(
    locked: Locked,
) -> None:
    server, lock = locked
    # A client whose cost does not grow with its open connections.
    async with aiohttp.ClientSession(
        server.address,
        timeout=aiohttp.ClientTimeout(total=120),
        connector=aiohttp.TCPConnector(limit=0),
    ) as client:
        with lock():
            waiting = [asyncio.create_task(_capture(client)) for _ in range(FILLING)]
            refused = await _capture_until_refused(client, waiting)
            # All of this is answered while capture stands still.
            for path in ("/_liveness", "/_readiness"):
                assert (await _read(client.get(path)))[0] == 200
            assert (await _read(client.post("/decide/?v=3", json=DECIDE)))[0] == 200
            _, _, metrics = await _read(client.get("/metrics"))
            again = await _capture(client)
        served = [status for status, _, _ in await asyncio.gather(*waiting)]
    assert 'hedgerow_requests_refused_total{limit="overload_capture",project=""}' in metrics
    for status, headers, body in (refused, again):
        assert (status, headers["retry-after"]) == (503, "1")
        assert headers["access-control-allow-origin"] == "*"
        assert json.loads(body)["code"] == "service_unavailable"
    # On a busy machine the queue is shorter, and some are refused before all places are taken.
    assert served.count(200) >= MAX_RUNNING / 2
    assert set(served) <= {200, 503}


async def _capture(client: aiohttp.ClientSession) -> Response:
    return await _read(client.post("/e/", json=CAPTURE, headers={"Origin": "https://x.example"}))


async def _read(
    call: contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse],
) -> Response:
    async with call as response:
        return response.status, response.headers, await response.text()


async def _capture_until_refused(
    client: aiohttp.ClientSession, waiting: list[asyncio.Task[Response]]
) -> Response:
    """Send captures until one is answered, which none can be with success."""
    deadline = time.monotonic() + AT_MOST_S
    while time.monotonic() < deadline:
        waiting.append(asyncio.create_task(_capture(client)))
        done, _ = await asyncio.wait(waiting, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
        if done:
            return done.pop().result()
    raise AssertionError("no request was refused")
