"""A service keeps the lock of its data directory, and closes no file of others, whatever happens to
the event store.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from hedgerow.errors import OperatorError
from hedgerow.storage.events.embedded.chdb import open_chdb
from tests.support.live import (
    PROJECT_KEY,
    LiveServer,
    find_engine,
    read_error,
    run_hedgerow,
    wait_for,
)

FAILED_OPENINGS = 12


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    """A service whose event store cannot be opened."""
    (tmp_path / "events").mkdir(mode=0o700)
    (tmp_path / "events" / "chdb").write_text("not a folder")
    with LiveServer(tmp_path) as running:
        yield running


def list_descriptors(server: LiveServer) -> dict[str, int]:
    """Count the open files of the service by what they are, without the pages of its database."""
    counts: dict[str, int] = {}
    for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            kind = os.readlink(link).partition(":")[0]
        except FileNotFoundError:  # closed in the meantime
            continue
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def count_events(client: httpx.Client) -> httpx.Response:
    body = {"query": {"kind": "HogQLQuery", "query": "SELECT count() FROM events"}}
    return client.post("/api/projects/1/query/", json=body)


def capture(client: httpx.Client) -> None:
    event = {"event": "seen", "distinct_id": "ann", "api_key": PROJECT_KEY}
    assert client.post("/capture/", json=event).status_code == 200


def test_failed_openings_keep_the_lock_and_all_descriptors(
    server: LiveServer, tmp_path: Path
) -> None:
    with server.client() as client:
        response = count_events(client)
        assert response.status_code == 503
        assert "cannot be opened" in read_error(response)["detail"]
        lock = str(tmp_path.resolve() / "events" / "lock")
        before = list_descriptors(server)
        assert before[lock] == 1
        for _ in range(FAILED_OPENINGS):
            assert count_events(client).status_code == 503
        wait_for(lambda: list_descriptors(server)[lock] == 1, at_most_s=120)
        # A few sockets more or less belong to an attempt that a background task makes.
        after = list_descriptors(server)
        assert abs(after["socket"] - before["socket"]) < FAILED_OPENINGS / 2, (before, after)
        second = run_hedgerow("serve", "--port", "0", data=tmp_path)
        assert (second.returncode, "is in use by process" in second.stderr) == (1, True)
        capture(client)
        (tmp_path / "events" / "chdb").unlink()
        wait_for(lambda: count_events(client).json().get("results") == [[1]], at_most_s=60)


def test_the_reason_of_a_failed_opening_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "chdb").write_text("not a folder")
    with pytest.raises(OperatorError, match="File exists") as raised:
        open_chdb(tmp_path)
    assert "Stack trace" not in str(raised.value)


def test_the_lock_outlives_the_engine_and_ends_with_both_processes(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server, server.client() as client:
        capture(client)
        wait_for(lambda: count_events(client).json().get("results") == [[1]], at_most_s=60)
        engine = find_engine(server.process.pid)
        assert engine is not None
        inherited = [os.readlink(link) for link in Path(f"/proc/{engine}/fd").iterdir()]
        assert [name for name in inherited if name.endswith(("hedgerow.db", "-wal"))] == []
        os.kill(engine, signal.SIGKILL)
        second = run_hedgerow("serve", "--port", "0", data=tmp_path)
        assert (second.returncode, "is in use by process" in second.stderr) == (1, True)
        capture(client)
        wait_for(lambda: count_events(client).json().get("results") == [[2]], at_most_s=60)
        engine = find_engine(server.process.pid)
        assert engine is not None
        server.process.kill()
        server.process.wait(30)
    wait_for(lambda: not Path(f"/proc/{engine}").exists(), at_most_s=120)
    with LiveServer(tmp_path) as server, server.client() as client:
        wait_for(lambda: count_events(client).json().get("results") == [[2]], at_most_s=60)
