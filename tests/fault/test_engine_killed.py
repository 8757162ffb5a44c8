"""The process of the embedded engine is killed, or its service is: nothing acknowledged is lost,
and both start again.
"""

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from hedgerow.errors import OperatorError
from hedgerow.storage.connect import EventStoreLocation, lock_event_store, open_event_store
from tests.fault.append_process import build_events
from tests.support.live import PROJECT_KEY, LiveServer, find_engine, wait_for

KILLS = 5
TIMEOUT_S = 120
# More than the buffers of a connection hold.
EXPORTED = 12_000
# One block of rows, each of which takes seconds.
ENDLESS = (
    "select editDistance(concat(repeat('a', 60000), toString(n)), repeat('b', 60000)) "
    "from (select arrayJoin(range(100)) as n)"
)


def _query(client: httpx.Client, text: str, **extra: Any) -> httpx.Response:
    query = {"kind": "HogQLQuery", "query": text}
    return client.post("/api/projects/1/query/", json={"query": query, "refresh": True, **extra})


def _kill_engine(server: LiveServer) -> None:
    if (engine := server.find_engine()) is not None:
        with suppress(ProcessLookupError):
            os.kill(engine, signal.SIGKILL)


def _is_running(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_events_survive_kills_of_the_engine(tmp_path: Path) -> None:
    sent: list[str] = []
    stop = threading.Event()

    def write(server: LiveServer) -> None:
        with server.client() as client:
            while not stop.is_set():
                uuids = [str(uuid4()) for _ in range(20)]
                batch = [{"event": "seen", "distinct_id": "ann", "uuid": uuid} for uuid in uuids]
                body = {"api_key": PROJECT_KEY, "batch": batch}
                assert client.post("/batch", json=body).status_code == 200
                sent.extend(uuids)

    with LiveServer(tmp_path) as server, server.client() as client:
        writer = threading.Thread(target=write, args=(server,))
        writer.start()
        assert _query(client, "select 1").status_code == 200
        for _ in range(KILLS):
            time.sleep(random.uniform(0.2, 1.5))
            _kill_engine(server)
        stop.set()
        writer.join(TIMEOUT_S)
        count = "select count(), uniq(uuid) from events"

        def read_counts() -> Any:
            return _query(client, count).json().get("results")

        with suppress(AssertionError):
            wait_for(lambda: read_counts() == [[len(sent)] * 2], at_most_s=TIMEOUT_S)
        assert read_counts() == [[len(sent)] * 2]
        metrics = client.get("/metrics").text
    assert "hedgerow_event_engine_restarts_total 0" not in metrics
    assert "Traceback" not in server.errors


def test_interrupted_reads_are_repeated_or_refused_temporarily(tmp_path: Path) -> None:
    statuses: list[int] = []
    stop = threading.Event()

    def read(server: LiveServer) -> None:
        with server.client() as client:
            while not stop.is_set():
                statuses.append(_query(client, "select count() from events").status_code)

    with LiveServer(tmp_path) as server, server.client() as client:
        assert _query(client, "select 1").status_code == 200
        readers = [threading.Thread(target=read, args=(server,)) for _ in range(2)]
        for reader in readers:
            reader.start()
        for _ in range(KILLS):
            _wait_for_reads(statuses, statuses.count(200) + 2)
            _kill_engine(server)
        stop.set()
        for reader in readers:
            reader.join(TIMEOUT_S)
        assert _query(client, "select 1").status_code == 200
    assert set(statuses) <= {200, 503}


def _wait_for_reads(statuses: list[int], number: int) -> None:
    wait_for(lambda: statuses.count(200) >= number, at_most_s=TIMEOUT_S)


def test_a_query_that_does_not_end_is_killed_with_its_engine(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server, server.client() as client:
        other = client.post("/api/projects/", json={"name": "Other"}).json()["id"]
        assert _query(client, "select 1").status_code == 200
        engine = server.find_engine()
        response = _query(client, ENDLESS)
        assert (response.status_code, response.json()["code"]) == (400, "query_limit_exceeded")
        assert response.elapsed.total_seconds() < 30
        # Its project waits for a while, other projects do not.
        refused = _query(client, "select 1")
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        query = {"kind": "HogQLQuery", "query": "select 2"}
        path = f"/api/projects/{other}/query/"
        assert client.post(path, json={"query": query}).json()["results"] == [[2]]
        assert server.find_engine() not in (None, engine)


@pytest.mark.parametrize("select", ["", '["*", "properties.text"]'])
def test_export_under_way_outlives_the_block_of_its_project(tmp_path: Path, select: str) -> None:
    path = f"/api/projects/1/events.csv?select={select}" if select else "/api/projects/1/events.csv"
    with LiveServer(tmp_path) as server, server.client() as client:
        events = [
            {"event": "e", "distinct_id": "ann", "properties": {"text": "x" * 2_000}}
            for _ in range(2_000)
        ]
        for _ in range(EXPORTED // len(events)):
            body = {"api_key": PROJECT_KEY, "batch": events}
            assert client.post("/batch/", json=body).status_code == 200
        assert _query(client, "select count() from events").json()["results"] == [[EXPORTED]]
        with client.stream("GET", path) as response:
            assert response.status_code == 200
            lines = response.iter_lines()
            next(lines)
            # The rest waits for this client.
            assert _query(client, ENDLESS).status_code == 400
            assert _query(client, "select 1").status_code == 429
            assert client.get(path).status_code == 429
            assert sum(1 for _ in lines) == EXPORTED


def test_a_query_ends_when_its_client_disconnects(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server, server.client() as client:
        assert _query(client, "select 1").status_code == 200
        engine = server.find_engine()
        assert engine is not None
        idle_s = _read_cpu_s(engine)
        query = {"query": {"kind": "HogQLQuery", "query": ENDLESS}}
        request = client.build_request("POST", "/api/projects/1/query/", json=query)
        with server.connect() as connection:
            connection.sendall(_encode_request(request))
            wait_for(lambda: _read_cpu_s(engine) > idle_s + 0.3, at_most_s=TIMEOUT_S)
        # Its time limit would end it after 12 s.
        wait_for(lambda: not _is_running(engine), at_most_s=8)
        wait_for(lambda: server.find_engine() not in (None, engine), at_most_s=TIMEOUT_S)


def _read_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _encode_request(request: httpx.Request) -> bytes:
    head = [f"{request.method} {request.url.raw_path.decode()} HTTP/1.1"]
    head += [f"{name}: {value}" for name, value in request.headers.items()]
    return "\r\n".join([*head, "", ""]).encode() + request.read()


def test_the_engine_ends_with_its_service(tmp_path: Path) -> None:
    server = LiveServer(tmp_path).wait_ready()
    with server.client() as client:
        assert _query(client, "select 1").status_code == 200
    engine = server.find_engine()
    assert engine is not None
    os.kill(engine, signal.SIGTERM)  # as a service manager does
    os.kill(engine, signal.SIGINT)
    time.sleep(0.2)
    assert _is_running(engine)
    server.kill()
    # A start right after the kill waits for the old engine.
    with LiveServer(tmp_path) as again, again.client() as client:
        assert not _is_running(engine)
        assert _query(client, "select 1").status_code == 200
        second = again.find_engine()
    assert second is not None
    assert not _is_running(second)


async def test_appends_are_repeated_when_the_engine_is_killed(tmp_path: Path) -> None:
    place = EventStoreLocation(url="", folder=tmp_path / "events", timeout_s=5)
    store = open_event_store(place)
    stored = 0
    for _ in range(KILLS):
        block = build_events()
        stored += await store.append(block)
        engine = find_engine(os.getpid())
        assert engine is not None
        os.kill(engine, signal.SIGKILL)
        assert await store.append(block) == 0
    [row] = await store.query("SELECT count() AS n FROM events", {}, max_rows=1, timeout_s=30)
    assert row["n"] == stored
    assert store.engine_restarts == KILLS
    await store.close()


async def test_failed_opens_keep_the_lock_and_all_descriptors(tmp_path: Path) -> None:
    place = EventStoreLocation(url="", folder=tmp_path / "events", timeout_s=5)
    lock = lock_event_store(place)
    assert lock is not None
    (tmp_path / "events" / "chdb").write_text("not a folder")
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OperatorError, match="cannot be opened"):
            open_event_store(place, lock)
    assert set(os.listdir("/proc/self/fd")) == before
    with pytest.raises(OperatorError, match="in use by process"):
        lock_event_store(place)
    lock.release()
    lock.release()
    again = lock_event_store(place)
    assert again is not None
    again.release()
