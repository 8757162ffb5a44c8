"""The origin and the edge process are killed and frozen while clients send events to the edge
process: what was acknowledged is stored once, in the order of each person.
"""

import itertools
import json
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.fault.small_disk import fill_up, mount_disk
from tests.support.edge import LiveEdge, Origin, query
from tests.support.live import (
    PROJECT_KEY,
    Installation,
    find_free_port,
    run_hedgerow,
    run_in_process,
    wait_for,
)

TIMEOUT_S = 120
WRITERS = ("ann", "bob", "cleo", "dan")
BEFORE_KILL = 40


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[Origin]:
    made = Origin(Installation(data=tmp_path / "origin", settings={}))
    try:
        yield made
    finally:
        made.server.process.send_signal(signal.SIGCONT)
        made.server.stop()


class _Writer(threading.Thread):
    """Sends numbered events of one person without uuids, one after the other, none twice."""

    def __init__(self, address: str, name: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._name = name
        self._stop_writing = stop
        self.acknowledged: list[int] = []
        self.unexpected: list[str] = []

    def run(self) -> None:
        with httpx.Client(base_url=self._address, timeout=TIMEOUT_S, verify=False) as client:
            for number in itertools.count():
                if self._stop_writing.is_set():
                    return
                try:
                    answer = client.post("/e/", json=build_event(self._name, number))
                except httpx.TransportError:
                    # The edge process is being restarted, and may have the event.
                    time.sleep(0.02)
                    continue
                if answer.status_code == 200:
                    self.acknowledged.append(number)
                elif answer.status_code != 503:
                    self.unexpected.append(f"{answer.status_code} {answer.text}")


def build_event(name: str, number: int) -> dict[str, Any]:
    return {
        "api_key": PROJECT_KEY,
        "event": "counted",
        "distinct_id": name,
        "properties": {"number": number},
        "$set": {"last": number},
    }


def read_metric(edge: LiveEdge, name: str) -> float:
    text = httpx.get(f"{edge.address}/metrics", timeout=TIMEOUT_S, verify=False).text
    line = next(line for line in text.splitlines() if line.startswith(f"{name} "))
    return float(line.split()[1])


def wait_until_sent(edge: LiveEdge) -> None:
    wait_for(lambda: read_metric(edge, "hedgerow_edge_inbox_requests") == 0, TIMEOUT_S)


def assert_stored(origin: Origin, writers: list[_Writer]) -> None:
    """Each acknowledged event once, no event twice, in the order of each person."""
    rows = query(
        origin,
        "SELECT distinct_id, properties.number, person.properties.last FROM events"
        " WHERE event = 'counted' ORDER BY created_at, properties.number",
    )
    for name, writer in zip(WRITERS, writers, strict=True):
        assert not writer.unexpected
        numbers = [int(row[1]) for row in rows if row[0] == name]
        assert len(numbers) == len(set(numbers)), "an event is stored twice"
        assert set(writer.acknowledged) <= set(numbers), "an acknowledged event is lost"
        assert numbers == sorted(numbers), "the order is not kept"
        assert {int(row[2]) for row in rows if row[0] == name} == {numbers[-1]}


class Scene:
    """An edge process on a fixed port, and writers that use it all the time."""

    def __init__(self, origin: Origin, data: Path) -> None:
        self.origin = origin
        self._data = data
        self._port = find_free_port()
        self._stop = threading.Event()
        self.edge = self.start_edge()
        address = f"http://127.0.0.1:{self._port}"
        self.writers = [_Writer(address, name, self._stop) for name in WRITERS]
        for each in self.writers:
            each.start()
        self.wait_for_more()

    def start_edge(self) -> LiveEdge:
        self.edge = LiveEdge(
            self._data, self.origin.address, self.origin.secret, port=self._port
        ).wait_ready()
        return self.edge

    def wait_for_more(self) -> None:
        """Wait until each writer has further acknowledgements."""
        before = [len(each.acknowledged) for each in self.writers]
        wait_for(
            lambda: all(
                len(each.acknowledged) >= number + BEFORE_KILL
                for each, number in zip(self.writers, before, strict=True)
            ),
            TIMEOUT_S,
        )

    def finish(self) -> None:
        self._stop.set()
        for each in self.writers:
            each.join(TIMEOUT_S)
            assert not each.is_alive()
        wait_until_sent(self.edge)
        assert read_metric(self.edge, "hedgerow_edge_inbox_dead_letters") == 0
        self.edge.stop()
        assert_stored(self.origin, self.writers)


def test_origin_is_killed(origin: Origin, tmp_path: Path) -> None:
    scene = Scene(origin, tmp_path / "edge")
    for _ in range(2):
        origin.server.kill()
        scene.wait_for_more()
        origin.start()
        scene.wait_for_more()
    scene.finish()


def test_origin_is_frozen(origin: Origin, tmp_path: Path) -> None:
    """It gets requests when it goes on whose events wait in the inbox, too."""
    scene = Scene(origin, tmp_path / "edge")
    origin.server.process.send_signal(signal.SIGSTOP)
    scene.wait_for_more()
    origin.server.process.send_signal(signal.SIGCONT)
    scene.finish()


def test_edge_is_killed_while_it_stores_and_while_it_sends(origin: Origin, tmp_path: Path) -> None:
    scene = Scene(origin, tmp_path / "edge")
    origin.server.kill()
    for _ in range(2):
        scene.wait_for_more()
        scene.edge.kill()
        scene.start_edge()
    scene.wait_for_more()
    origin.start()
    wait_for(lambda: read_metric(scene.edge, "hedgerow_edge_inbox_sent_total") > 0, TIMEOUT_S)
    scene.edge.kill()
    scene.start_edge()
    scene.wait_for_more()
    # Both.
    scene.edge.kill()
    origin.server.kill()
    scene.start_edge()
    scene.wait_for_more()
    origin.start()
    scene.finish()


def test_full_disk_refuses_events(origin: Origin, tmp_path: Path) -> None:
    with mount_disk(tmp_path / "disk", "24m") as disk:
        settings = {"min_free_disk_mb": "0"}
        with LiveEdge(disk / "edge", origin.address, origin.secret, **settings) as edge:
            origin.server.kill()
            assert_full_and_free(
                edge,
                lambda: fill_up(disk / "filler"),
                lambda: (disk / "filler").unlink(),
            )
            origin.start()
            wait_until_sent(edge)
    numbers = [row[0] for row in query(origin, "SELECT properties.number FROM events")]
    assert sorted(map(int, numbers)) == [0, 1]


def assert_full_and_free(edge: LiveEdge, take: Any, give: Any) -> None:
    def capture(number: int, size: int = 0) -> httpx.Response:
        event = build_event("ann", number)
        event["properties"]["text"] = "x" * size
        return httpx.post(f"{edge.address}/e/", json=event, timeout=TIMEOUT_S, verify=False)

    assert capture(0).status_code == 200
    take()
    for _ in range(3):
        refused = capture(100, 900_000)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "10"), refused.text
    decided = httpx.post(
        f"{edge.address}/decide?v=3",
        json={"api_key": PROJECT_KEY, "distinct_id": "ann", "person_properties": {"plan": "a"}},
        timeout=TIMEOUT_S,
        verify=False,
    )
    assert decided.json()["featureFlags"]["all"] is True
    assert httpx.get(f"{edge.address}/_readiness", verify=False).status_code == 200
    give()
    assert capture(1).status_code == 200
    assert edge.errors.count("the inbox cannot be used") == 1


def test_full_inbox_refuses_events(origin: Origin, tmp_path: Path) -> None:
    settings = {"edge_inbox_max_mb": "1"}
    with LiveEdge(tmp_path / "edge", origin.address, origin.secret, **settings) as edge:
        origin.server.kill()
        numbers = []
        for number in range(10):
            event = build_event("ann", number)
            event["properties"]["text"] = "x" * 300_000
            answer = httpx.post(f"{edge.address}/e/", json=event, timeout=TIMEOUT_S, verify=False)
            if answer.status_code == 200:
                numbers.append(number)
            else:
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
        assert numbers == [0, 1, 2]
        origin.start()
        wait_until_sent(edge)
        # The file gives the space back.
        folder = tmp_path / "edge" / "edge-inbox"
        wait_for(lambda: measure_files(folder) < 20_000, TIMEOUT_S)
    stored = query(origin, "SELECT properties.number FROM events ORDER BY created_at")
    assert [int(row[0]) for row in stored] == numbers


def measure_files(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def capture(edge: LiveEdge, number: int) -> None:
    event = build_event("ann", number)
    answer = httpx.post(f"{edge.address}/e/", json=event, timeout=TIMEOUT_S, verify=False)
    assert answer.status_code == 200


def read_stored(origin: Origin) -> list[int]:
    rows = query(origin, "SELECT properties.number FROM events ORDER BY created_at, uuid")
    return [int(row[0]) for row in rows]


def list_inbox(data: Path) -> dict[str, Any]:
    listed = run_in_process("edge-inbox", "list", "--json", data=data)
    found: dict[str, Any] = json.loads(listed.stdout)
    return found


def test_damaged_inbox_sends_the_rest(origin: Origin, tmp_path: Path) -> None:
    """Bits are flipped in the middle, and the end is cut off."""
    data = tmp_path / "edge"
    with LiveEdge(data, origin.address, origin.secret) as edge:
        origin.server.kill()
        for number in range(30):
            capture(edge, number)
        edge.kill()
    [segment] = (data / "edge-inbox" / "1").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[len(content) // 3] ^= 1
    segment.write_bytes(content[:-10])
    [lost] = list_inbox(data)["lost"]
    assert lost["requests"] == 2
    assert lost["project_id"] == 1
    middle, last = (int(each) for each in lost["numbers"].split(", "))
    assert 1 < middle < last == 30
    with LiveEdge(data, origin.address, origin.secret) as edge:
        assert "stored requests are lost" in edge.errors
        assert list_inbox(data)["waiting"]["requests"] == 28
        assert list_inbox(data)["lost"][0]["numbers"] == lost["numbers"]
        # Damage while it runs: the first of three requests, whose segment is the newest.
        for number in range(30, 33):
            capture(edge, number)
        segment = max((data / "edge-inbox" / "1").glob("*.log"))
        with segment.open("r+b") as file:
            file.seek(40)
            file.write(b"damage")
        origin.start()
        wait_until_sent(edge)
        assert read_metric(edge, "hedgerow_edge_inbox_lost_requests") == 3
        shown = run_in_process("edge-inbox", "list", data=data).stdout
        assert "3 request(s) of project 1 are lost" in shown
        assert f"numbers {middle}, 30-31." in shown
    with LiveEdge(data, origin.address, origin.secret) as edge:
        # Until an operator has seen it.
        assert read_metric(edge, "hedgerow_edge_inbox_lost_requests") == 3
        assert edge.errors.count("stored requests are lost") == 0
        run_in_process("edge-inbox", "discard", "--yes", data=data)
        assert read_metric(edge, "hedgerow_edge_inbox_lost_requests") == 0
        assert not list_inbox(data)["lost"]
    # The last of the first thirty and the one after it.
    expected = [each for each in range(33) if each not in (middle - 1, last - 1, 30)]
    assert read_stored(origin) == expected


def write_old_inbox(folder: Path) -> None:
    """Write what earlier versions did: two requests that wait, and a dead letter."""
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "inbox.sqlite")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        columns = "project INTEGER, received_us INTEGER, size INTEGER, request BLOB, body BLOB"
        database.executescript(
            f"CREATE TABLE waiting (id INTEGER PRIMARY KEY AUTOINCREMENT, {columns});"
            f"CREATE TABLE dead (id INTEGER PRIMARY KEY AUTOINCREMENT, {columns},"
            " refused_at_s REAL, reason TEXT);"
            "PRAGMA user_version = 1;"
        )
        for number in range(3):
            body = json.dumps(build_event("ann", number)).encode()
            request = {
                "project_id": 1,
                "method": "POST",
                "path": "/e/",
                "headers": [("content-type", "application/json")],
                "receipt": {
                    "received_us": 1_790_000_000_000_000 + number,
                    "randomness": bytes([number]) * 10,
                    "ip": "192.0.2.1",
                },
                "keys": [5],
                "body": b"",
                "id": 0,
            }
            row = (1, 1, len(body), msgspec.msgpack.encode(request), body)
            if number < 2:
                database.execute("INSERT INTO waiting VALUES (NULL, ?, ?, ?, ?, ?)", row)
            else:
                more = (1_790_000_000.0, "400 no")
                database.execute("INSERT INTO dead VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", row + more)
        database.commit()


def test_inbox_of_an_earlier_version_is_sent(origin: Origin, tmp_path: Path) -> None:
    data = tmp_path / "edge"
    write_old_inbox(data / "edge-inbox")
    with LiveEdge(data, origin.address, origin.secret) as edge:
        wait_until_sent(edge)
        assert read_stored(origin) == [0, 1]
        assert not list((data / "edge-inbox").glob("inbox.sqlite*"))
        [dead] = list_inbox(data)["dead_letters"]
        assert dead["reason"] == "400 no"
        assert "1 request(s)" in run_in_process("edge-inbox", "retry", data=data).stdout
        wait_until_sent(edge)
        wait_for(lambda: len(read_stored(origin)) == 3, TIMEOUT_S)


def test_damaged_inbox_of_an_earlier_version_is_moved_away(origin: Origin, tmp_path: Path) -> None:
    data = tmp_path / "edge"
    (data / "edge-inbox").mkdir(parents=True)
    (data / "edge-inbox" / "inbox.sqlite").write_bytes(b"no database" * 1000)
    refused = run_hedgerow("edge-inbox", "list", data=data)
    assert refused.returncode == 1
    assert "start the edge process, which reads it" in refused.stderr
    with LiveEdge(data, origin.address, origin.secret) as edge:
        origin.server.kill()
        capture(edge, 0)
        [moved] = (data / "edge-inbox").glob("*.damaged-*")
        assert moved.read_bytes() == b"no database" * 1000
        assert "is damaged and was moved away" in edge.errors
        origin.start()
        wait_until_sent(edge)
    assert read_stored(origin) == [0]
