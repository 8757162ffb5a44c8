"""Another process locks the SQLite file: writes fail after the timeout, reads work."""

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

from tests.support.live import Installation, LiveServer, read_error, run_concurrently

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


def test_write_fails_with_503_after_the_timeout(server: LiveServer) -> None:
    with server.client() as client, _locked(server.data):
        started = time.monotonic()
        refused = _create(client)
        took_s = time.monotonic() - started
    assert refused.status_code == 503
    assert "locked by another process" in read_error(refused)["detail"]
    assert int(refused.headers["retry-after"]) >= 1
    assert took_s > 0.4


def test_concurrent_writes_all_fail_with_503_and_store_nothing(server: LiveServer) -> None:
    with server.client() as client:
        with _locked(server.data):
            refused = run_concurrently([partial(_create, client, "Crowd") for _ in range(20)])
        assert {answer.status_code for answer in refused} == {503}
        names = [one["name"] for one in client.get("/api/projects/").json()["results"]]
        assert "Crowd" not in names


def test_reads_and_probes_work_while_a_write_waits(server: LiveServer) -> None:
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
        # A busy machine completes few reads while one write waits.
        for _ in range(60):
            is_answered = threading.Event()
            with _locked(server.data):
                written, seen = run_concurrently([write, read])
            assert written == [503]
            assert set(seen) <= {200}
            if len(seen) >= len(paths):
                return
    pytest.fail("no write left time for a read of each kind")


def test_writes_work_after_the_lock_is_released(server: LiveServer) -> None:
    with server.client() as client:
        with _locked(server.data):
            assert _create(client).status_code == 503
        assert _create(client).status_code == 201


def test_writing_command_is_one_error_line_and_reading_command_works(server: LiveServer) -> None:
    here = Installation(data=server.data, settings=TIMEOUT)
    with _locked(server.data):
        write, read = run_concurrently(
            [
                partial(here.run, "keys", "create", "--label", "x"),
                partial(here.run, "keys", "list", "--json"),
            ]
        )
    assert (write.returncode, write.stdout) == (1, "")
    assert write.stderr == "hedgerow: The database is locked by another process.\n"
    assert (read.returncode, read.stderr) == (0, "")
