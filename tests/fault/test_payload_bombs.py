"""Bodies that are small on the wire and large in memory: without a key, with an unknown one and
with a valid one. Another project notices nothing."""

import base64
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fault.decide_requests import assert_unharmed
from tests.support.live import PROJECT_KEY, LiveServer, read_error
from tests.support.stored_events import read_stored_events, wait_until_stored
from tests.unit.http.payload.wrappings import lz64

MIB = 1 << 20
UNKNOWN = "phc_unknown"
# The server itself needs about 450 MiB, most of it for the event store.
MAX_SERVER_MIB = 800
MAX_WORKER_MIB = 300


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("bombs")) as server:
        yield server
    assert_unharmed(server)


@pytest.fixture(scope="module")
def other_key(server: LiveServer) -> str:
    with server.client() as client:
        key: str = client.post("/api/projects/", json={"name": "Other"}).json()["api_token"]
        return key


def list_peaks_mib(server: LiveServer) -> dict[int, int]:
    """Return the peak memory of the server and its children, by process."""
    peaks = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:  # it has ended
            continue
        pid = int(fields["Pid"])
        if server.process.pid in (pid, int(fields["PPid"])) and "VmHWM" in fields:
            peaks[pid] = int(fields["VmHWM"].split()[0]) // 1024
    return peaks


def repeat(opening: str, item: bytes, number: int, closing: str = "]}") -> bytes:
    return opening.encode() + (item + b",") * (number - 1) + item + closing.encode()


def open_batch(key: str) -> str:
    return f'{{"api_key":"{key}","batch":[' if key else '{"batch":['


def compress_blanks(key: str, size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(open_batch(key).encode())]
    parts += [packer.compress(b" " * MIB) for _ in range(size // MIB)]
    return b"".join([*parts, packer.compress(b"]}"), packer.flush()])


@cache
def compress_objects(key: str) -> bytes:
    return gzip.compress(repeat(open_batch(key), b"{}", 990_000))


# By what they are: functions that build a body with its query string for a key.
BOMBS: dict[str, Callable[[str], tuple[str, bytes]]] = {
    "objects in gzip": lambda key: ("", compress_objects(key)),
    "objects": lambda key: ("", gzip.decompress(compress_objects(key))),
    "objects in deflate": lambda key: (
        "?compression=deflate",
        zlib.compress(gzip.decompress(compress_objects(key))),
    ),
    "values in gzip": lambda key: ("", gzip.compress(repeat(open_batch(key), b"1", 5_100_000))),
    "blanks in gzip in base64": lambda key: (
        "",
        base64.b64encode(compress_blanks(key, 120 * MIB)),
    ),
    "gzip in gzip in gzip": lambda key: (
        "",
        gzip.compress(gzip.compress(compress_blanks(key, 120 * MIB))),
    ),
    "brackets in gzip": lambda key: ("", gzip.compress(open_batch(key).encode() + b"[" * 30 * MIB)),
    "lz64": lambda key: ("?compression=lz64", lz64(open_batch(key) + "{}," * 99_000 + "{}]}")),
    "members": lambda key: (
        "",
        gzip.compress(open_batch(key).encode()) + gzip.compress(b" " * MIB) * 99,
    ),
    "form fields": lambda key: ("", f"api_key={key}&".encode() + b"data=e30&" * 990_000),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_at_once(server: LiveServer, other_key: str, name: str) -> None:
    with server.client(key=None) as client:
        for key, statuses in (("", {400, 401, 413}), (UNKNOWN, {401}), (PROJECT_KEY, {400, 413})):
            query, body = BOMBS[name](key)
            answer = client.post(f"/batch/{query}", content=body)
            assert answer.status_code in statuses, (key, answer.text)
            assert read_error(answer)["detail"]
        assert_works(client, other_key)
    peaks = list_peaks_mib(server)
    # Bombs do not reach the event engine. What it needs depends on the cores and its merges.
    peaks.pop(server.find_engine() or 0, None)
    assert peaks.pop(server.process.pid) < MAX_SERVER_MIB
    assert all(peak < MAX_WORKER_MIB for peak in peaks.values()), peaks


def assert_works(client: httpx.Client, key: str) -> None:
    """Check that a project can evaluate flags, and send small and large batches."""
    decide = {"api_key": key, "distinct_id": "d"}
    assert client.post("/decide?v=3", json=decide).status_code == 200
    for text in ("", "x" * 400_000):
        event = {"event": "e", "distinct_id": "d", "properties": {"text": text}}
        answer = client.post("/batch/", json={"api_key": key, "batch": [event]})
        assert (answer.status_code, answer.json()) == (200, {"status": 1})


def test_unknown_keys_start_no_worker(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server, server.client(key=None) as client:
        before = list_peaks_mib(server)
        for name, build in BOMBS.items():
            query, body = build(UNKNOWN)
            assert client.post(f"/batch/{query}", content=body).status_code == 401, name
        after = list_peaks_mib(server)
        assert after.keys() == before.keys()
        # The bodies themselves, while they arrive.
        assert after[server.process.pid] - before[server.process.pid] < 100


@pytest.mark.parametrize("key", ["", UNKNOWN, PROJECT_KEY])
def test_twenty_bombs_at_once_leave_the_other_project_alone(
    server: LiveServer, other_key: str, key: str
) -> None:
    body = compress_objects(key)

    def send(_: int) -> int:
        with server.client(key=None) as client:
            return client.post("/batch/", content=body).status_code

    with ThreadPoolExecutor(20) as threads, server.client(key=None) as client:
        sent = threads.map(send, range(40))
        for _ in range(5):
            assert_works(client, other_key)
        statuses = set(sent)
    assert statuses <= ({401} if key == UNKNOWN else {413, 503})
    assert sum(list_peaks_mib(server).values()) < MAX_SERVER_MIB + 2 * MAX_WORKER_MIB


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("place", ["first", "last", "middle", "event"])
def test_large_batch_is_accepted_wherever_its_key_is(
    server: LiveServer, *, is_compressed: bool, place: str
) -> None:
    text = {"text": "x" * 200_000}
    event: dict[str, Any] = {"event": "e", "distinct_id": "d", "properties": text}
    batch = {
        "first": {"api_key": PROJECT_KEY, "batch": [event] * 2},
        "last": {"batch": [event] * 2, "sent_at": "2026-01-01", "api_key": PROJECT_KEY},
        "middle": {"batch": [event], "api_key": PROJECT_KEY, "other": text},
        "event": {"batch": [{**event, "api_key": PROJECT_KEY}] * 2},
    }[place]
    body = json.dumps(batch).encode()
    with server.client(key=None) as client:
        answer = client.post("/batch/", content=gzip.compress(body) if is_compressed else body)
    assert (answer.status_code, answer.json()) == (200, {"status": 1})


def test_slow_senders_of_large_bodies_leave_room(server: LiveServer, other_key: str) -> None:
    head = b"POST /batch/ HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n{"
    connections = [server.connect() for _ in range(50)]
    try:
        for connection in connections:
            connection.sendall(head)
        with server.client(key=None) as client:
            assert_works(client, other_key)
    finally:
        for connection in connections:
            connection.close()


def test_bodies_beyond_the_share_of_a_sender_are_unavailable(server: LiveServer) -> None:
    """Four clients of one address send 19 MB each and do not finish."""
    head = b"POST /batch/ HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n"
    connections = [server.connect() for _ in range(4)]
    try:
        for connection in connections[:3]:
            connection.sendall(head + b"{" * 19_500_000)
        connections[3].sendall(head)
        with suppress(OSError):  # refused while sending
            connections[3].sendall(b"{" * 19_500_000)
        answer = connections[3].recv(1000)
    finally:
        for connection in connections:
            connection.close()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 5\r\n" in answer.lower()


def test_large_batch_of_cookieless_visitors_keeps_no_address(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server:
        page = {"$cookieless_mode": True, "$raw_user_agent": "Secret/1", "$host": "example.com"}
        visits = [
            {
                "event": "seen",
                "distinct_id": "$posthog_cookieless",
                "properties": {**page, "$ip": f"203.0.113.{number % 50}", "filler": "x" * 600},
            }
            for number in range(600)
        ]
        body = {"api_key": PROJECT_KEY, "batch": visits}
        with server.client() as client:
            assert client.post("/batch/", json=body).status_code == 200
        wait_until_stored(tmp_path)
    stored = read_stored_events(tmp_path)
    assert len(stored) == 600
    assert len({event["distinct_id"] for event in stored}) == 50
    assert not any("203.0.113" in str(event) or "Secret/1" in str(event) for event in stored)
