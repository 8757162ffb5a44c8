"""Many slow connections: others are answered, and files are left for the database."""

import contextlib
import json
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from hedgerow.flags.local_evaluation.etag_stream import SERVER_STREAMS
from hedgerow.http.server.connections import LONG_REQUEST_S
from tests.support.live import (
    HEDGEROW,
    PERSONAL_KEY,
    PROJECT_KEY,
    LiveServer,
    build_environment,
    find_free_port,
    read_error,
    read_response,
    wait_for,
)

FILE_LIMIT = 300
SLOW_CONNECTIONS = 400
MAX_CONNECTIONS = 3
START_S = 110
CAPTURE = b"POST /capture/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
LIVENESS = b"GET /_liveness HTTP/1.1\r\nHost: x\r\n\r\n"
STREAM = (
    b"GET /api/projects/1/feature_flags/stream/ HTTP/1.1\r\nHost: x\r\n"
    b"Authorization: Bearer %s\r\n\r\n" % PERSONAL_KEY.encode()
)
DECIDE = {"api_key": PROJECT_KEY, "distinct_id": "ann"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that may open only a few files."""
    port, data = find_free_port(), tmp_path_factory.mktemp("few_files")
    command = [HEDGEROW, "serve", "--port", port, "--data", str(data)]
    limited = ["sh", "-c", f'ulimit -n {FILE_LIMIT} && exec "$@"', "sh", *command]
    errors = data / "errors"
    with errors.open("wb") as stream:
        process = subprocess.Popen(
            limited, env=build_environment(), stdout=subprocess.DEVNULL, stderr=stream
        )
    try:
        wait_for(lambda: _is_ready(f"http://127.0.0.1:{port}"), at_most_s=START_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)
    text = errors.read_text()
    assert "Too many open files" not in text
    assert "Traceback" not in text


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/_readiness", timeout=60, verify=False).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-Half: ye", CAPTURE, LIVENESS],
    ids=["nothing", "headers", "a body", "idle"],
)
def test_slow_connections_leave_files_for_requests(address: str, sent: bytes) -> None:
    port = httpx.URL(address).port
    with contextlib.ExitStack() as stack:
        for _ in range(SLOW_CONNECTIONS):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            with contextlib.suppress(ConnectionError):
                slow.sendall(sent)
        for _ in range(20):  # each on a new connection
            assert (
                httpx.post(
                    f"{address}/decide?v=3", json=DECIDE, timeout=60, verify=False
                ).status_code
                == 200
            )
        event = {**DECIDE, "event": "slow"}
        assert (
            httpx.post(f"{address}/capture/", json=event, timeout=60, verify=False).status_code
            == 200
        )
        assert _is_ready(address)
    assert (
        httpx.post(f"{address}/decide?v=3", json=DECIDE, timeout=60, verify=False).status_code
        == 200
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server that accepts few connections, and all of them from one address."""
    data = tmp_path_factory.mktemp("few_connections")
    settings = {"max_connections": str(MAX_CONNECTIONS), "trusted_proxies": "127.0.0.1"}
    with LiveServer(data, **settings) as server:
        yield server


def test_only_probes_are_answered_while_all_connections_are_busy(small: LiveServer) -> None:
    wait_for(lambda: _check_while_busy(small), at_most_s=START_S)
    wait_for(lambda: small.get_status("/api/users/@me/") == 401, at_most_s=60)


def _check_while_busy(server: LiveServer) -> bool:
    """Return False if this took so long that the server closed a busy connection."""
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            busy = stack.enter_context(server.connect())
            busy.sendall(STREAM)
            assert busy.recv(12) == b"HTTP/1.1 200"
        with server.connect() as connection:
            connection.sendall(LIVENESS)
            health = read_response(connection)
            is_closed = connection.recv(1) == b""
        with server.connect() as connection:
            connection.sendall(b"GET /api/projects/ HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = read_response(connection)
    if time.monotonic() - started > LONG_REQUEST_S:
        return False
    assert health.status_code == 200
    assert is_closed
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["connection"] == "close"
    assert read_error(answer)["code"] == "service_unavailable"
    return True


def test_connection_goes_on_after_a_refusal(tmp_path: Path) -> None:
    body = json.dumps(DECIDE).encode()
    decide = b"POST /decide HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with LiveServer(tmp_path, project_calls_per_s="0.1") as server, server.connect() as connection:
        statuses = []
        for sent in (decide, decide, LIVENESS, decide, LIVENESS):
            connection.sendall(sent)
            statuses.append(read_response(connection).status_code)
    assert statuses == [200, 429, 200, 429, 200]


def test_simultaneous_streams_of_one_key_are_limited(tmp_path: Path) -> None:
    """None passes between the check and the count."""
    with LiveServer(tmp_path) as server, ExitStack() as opened:
        connections = [
            opened.enter_context(server.connect()) for _ in range(SERVER_STREAMS.per_key + 10)
        ]
        for connection in connections:
            connection.sendall(STREAM)
        statuses = Counter(connection.recv(12)[9:] for connection in connections)
    assert statuses == {b"200": SERVER_STREAMS.per_key, b"429": 10}
