"""Another process keeps the SQLite file locked: writes say so in time, everything else goes on."""

import itertools
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.live import Installation, LiveServer, error_of, side_by_side

TIMEOUT = {"database_timeout_s": "0.5"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("locked"), **TIMEOUT) as server:
        yield server


@contextmanager
def _locked(data: Path) -> Iterator[None]:
    with closing(sqlite3.connect(data / "hedgerow.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def _create(client: httpx.Client, name: str = "Locked out") -> httpx.Response:
    return client.post("/api/projects/", json={"name": name})


def test_a_write_is_answered_503_after_the_time_limit(server: LiveServer) -> None:
    with server.client() as client, _locked(server.data):
        started = time.monotonic()
        refused = _create(client)
        took_s = time.monotonic() - started
    assert refused.status_code == 503
    assert "locked by another process" in error_of(refused)["detail"]
    assert int(refused.headers["retry-after"]) >= 1
    assert took_s > 0.4


def test_many_writes_at_once_are_all_answered_503_and_none_is_stored(server: LiveServer) -> None:
    with server.client() as client:
        with _locked(server.data):
            refused = side_by_side([partial(_create, client, "Crowd") for _ in range(20)])
        assert {answer.status_code for answer in refused} == {503}
        names = [one["name"] for one in client.get("/api/projects/").json()["results"]]
        assert "Crowd" not in names


def test_reads_and_probes_go_on_while_a_write_waits(server: LiveServer) -> None:
    paths = ("/api/projects/", "/api/projects/1/activity_log/", "/_liveness", "/_readiness")

    def write() -> list[int]:
        status = _create(writer).status_code
        is_answered.set()
        return [status]

    def read() -> list[int]:
        seen: list[int] = []
        for path in itertools.cycle(paths):
            status = reader.get(path).status_code
            if is_answered.is_set():
                return seen
            seen.append(status)
        raise AssertionError

    with server.client() as writer, server.client() as reader:
        # A machine that does other things has little time for reading while one write waits.
        for _ in range(60):
            is_answered = threading.Event()
            with _locked(server.data):
                written, seen = side_by_side([write, read])
            assert written == [503]
            assert set(seen) <= {200}
            if len(seen) >= len(paths):
                return
    pytest.fail("no write left time for a read of each kind")


def test_writes_work_again_when_the_lock_is_gone(server: LiveServer) -> None:
    with server.client() as client:
        with _locked(server.data):
            assert _create(client).status_code == 503
        assert _create(client).status_code == 201


def test_a_verb_that_writes_is_one_line_and_one_that_reads_works(server: LiveServer) -> None:
    here = Installation(data=server.data, settings=TIMEOUT)
    with _locked(server.data):
        write, read = side_by_side(
            [
                partial(here.run, "keys", "create", "--label", "x"),
                partial(here.run, "keys", "list", "--json"),
            ]
        )
    assert (write.returncode, write.stdout) == (1, "")
    assert write.stderr == "hedgerow: The database is locked by another process.\n"
    assert (read.returncode, read.stderr) == (0, "")
