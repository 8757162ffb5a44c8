"""Clients that violate HTTP, stall or disconnect: rejected or disconnected within a time limit."""

import contextlib
import resource
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live import PERSONAL_KEY, LiveServer, read_error, read_response, wait_for

LIMIT_S = 1
MAX_BODY = 100_000
LIMITS = {"max_body_bytes": str(MAX_BODY)}
# The limits are 1 s, and 30 s by default; a busy machine gets this much.
DEADLINE_S = 25

POST = (
    b"POST /api/projects/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Authorization: Bearer %s\r\n" % PERSONAL_KEY.encode()
)
GET = b"GET /api/users/@me/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n" % (
    PERSONAL_KEY.encode()
)
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    yield from _check_survives(LiveServer(tmp_path_factory.mktemp("hostile"), **LIMITS))


@pytest.fixture(scope="module")
def impatient_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with short timeouts."""
    limits = {**LIMITS, "request_read_timeout_s": str(LIMIT_S)}
    yield from _check_survives(LiveServer(tmp_path_factory.mktemp("impatient_server"), **limits))


def _check_survives(server: LiveServer) -> Iterator[LiveServer]:
    with server:
        yield server
        with server.client() as client:
            assert client.get("/api/users/@me/").status_code == 200
    assert "Traceback" not in server.errors
    assert '"level": "error"' not in server.errors


def _read_until_close(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            received += part
    return received


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Half: yes", POST],
    ids=["nothing", "half a line", "half a header", "no end of headers"],
)
def test_slow_headers_close_the_connection(impatient_server: LiveServer, sent: bytes) -> None:
    started = time.monotonic()
    with impatient_server.connect() as connection:
        connection.sendall(sent)
        assert _read_until_close(connection) == b""
    assert LIMIT_S - 0.2 < time.monotonic() - started < DEADLINE_S


def test_trickling_headers_do_not_extend_the_deadline(impatient_server: LiveServer) -> None:
    started = time.monotonic()
    with impatient_server.connect() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(b"GET / HTTP/1.1\r\n")
        while time.monotonic() - started < 2 * DEADLINE_S:
            connection.sendall(b"X-Drop: 1\r\n")
            time.sleep(0.1)
    assert time.monotonic() - started < DEADLINE_S


@pytest.mark.parametrize("sent", [b"GET /api/use", b"\r\n"], ids=["half a line", "an empty line"])
def test_incomplete_second_request_closes_the_connection(
    impatient_server: LiveServer, sent: bytes
) -> None:
    with impatient_server.connect() as connection:
        connection.sendall(GET + b"\r\n")
        assert read_response(connection).status_code == 200
        started = time.monotonic()
        connection.sendall(sent)
        assert _read_until_close(connection) == b""
    assert time.monotonic() - started < DEADLINE_S


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X-Many: 1234567890\r\n" * 4000 + b"\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nX-Endless: " + b"a" * 300_000,
    ],
    ids=["one long header", "many headers", "a long path", "an endless header"],
)
@pytest.mark.parametrize("piece", [1_000_000, 8192], ids=["at once", "in pieces"])
def test_headers_over_64_kib_are_431(server: LiveServer, sent: bytes, piece: int) -> None:
    with server.connect() as connection:
        with contextlib.suppress(
            ConnectionError
        ):  # the server may close before it has read everything
            for start in range(0, len(sent), piece):
                connection.sendall(sent[start : start + piece])
        answer = read_response(connection)
    assert answer.status_code == 431
    assert read_error(answer)["code"] == "headers_too_large"


def test_headers_of_60_kib_are_accepted(server: LiveServer) -> None:
    with server.connect() as connection:
        connection.sendall(GET + b"X-Long: " + b"a" * 60_000 + b"\r\n\r\n")
        assert read_response(connection).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        bytes(100),
        b"hello there\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon here\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nBad\x00Name: 1\r\n\r\n",
        POST + b"Content-Length: -5\r\n\r\n",
        POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
        POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n",
        POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + CHUNKED + b"zz\r\n",
    ],
    ids=[
        "TLS",
        "zeros",
        "words",
        "version 9.9",
        "no colon",
        "NUL",
        "negative length",
        "absurd length",
        "two lengths",
        "length and chunks",
        "bad chunk",
    ],
)
def test_invalid_http_is_400_in_the_common_shape(server: LiveServer, sent: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(sent)
        answer = read_response(connection)
    assert answer.status_code == 400
    assert read_error(answer)["type"] == "invalid_request"


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /_liveness HTTP/1.1\r\n\r\n",
        b"GET /_liveness HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET /_liveness HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /_liveness HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /_liveness HTTP/1.1\r\nHost:\r\n\r\n",
        b"GET /_liveness HTTP/1.1\r\nHost: a, b\r\n\r\n",
        b"GET /_liveness HTTP/1.1\r\nHost: a/b\r\n\r\n",
        b"GET /_liveness HTTP/1.1\r\nHost: user@a\r\n\r\n",
        b"GET /_liveness HTTP/1.1\r\nHost: a:port\r\n\r\n",
        b"GET http://user@a/_liveness HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http:///_liveness HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://a/_liveness HTTP/1.1\r\n\r\n",
        b"GET http://a/_liveness HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\n{}\n",
        POST + b"Content-Length: 3, 3\r\n\r\n{}\n",
        POST + b"Content-Length: +3\r\n\r\n{}\n",
        POST + b"Content-Length : 3\r\n\r\n{}\n",
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n",
    ],
)
def test_ambiguous_requests_are_400_and_closed(server: LiveServer, sent: bytes) -> None:
    """Requests that a proxy may understand differently."""
    with server.connect() as connection:
        connection.sendall(sent)
        received = _read_until_close(connection)
    assert received.startswith(b"HTTP/1.1 400 Bad Request\r\n"), received
    assert received.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /_liveness HTTP/1.0\r\n\r\n",
        b"GET /_liveness HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n",
        b"GET /_liveness HTTP/1.1\r\nhOST: my_host.example\r\n\r\n",
        b"GET /_liveness HTTP/1.1\r\nHost: \t my_host.example \t\r\n\r\n",
        b"GET http://flags.example.com/_liveness HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://flags.example.com/_liveness HTTP/1.0\r\n\r\n",
    ],
)
def test_valid_hosts_are_accepted(server: LiveServer, sent: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(sent)
        answer = read_response(connection)
    assert answer.status_code == 200
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_host_of_an_absolute_url_takes_precedence(server: LiveServer) -> None:
    head = GET.replace(b"/api/users/@me/", b"http://flags.local/api/projects/?limit=1&offset=1")
    with server.connect() as connection:
        connection.sendall(head + b"\r\n")
        answer = read_response(connection)
    assert answer.json()["previous"].startswith("http://flags.local/api/projects/")
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "start",
    [POST + b'Content-Length: 20\r\n\r\n{"name"', POST + CHUNKED + b'7\r\n{"name"\r\n'],
    ids=["with a length", "in chunks"],
)
def test_slow_body_is_408(impatient_server: LiveServer, start: bytes) -> None:
    started = time.monotonic()
    with impatient_server.connect() as connection:
        connection.sendall(start)
        answer = read_response(connection)
    assert answer.status_code == 408
    assert read_error(answer)["code"] == "request_timeout"
    assert LIMIT_S - 0.2 < time.monotonic() - started < DEADLINE_S


@pytest.mark.parametrize("expect", [b"", b"Expect: 100-continue\r\n"], ids=["plain", "asking"])
def test_large_content_length_is_413_before_the_body(server: LiveServer, expect: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(POST + expect + b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1))
        answer = read_response(connection)
    assert answer.status_code == 413
    assert read_error(answer)["code"] == "request_too_large"


@pytest.mark.parametrize("key", [b"", PERSONAL_KEY.encode()], ids=["without a key", "with a key"])
def test_chunked_body_over_the_limit_is_413(server: LiveServer, key: bytes) -> None:
    head = POST if key else POST.partition(b"Authorization")[0]
    with server.connect() as connection:
        connection.sendall(head + CHUNKED)
        for _ in range(MAX_BODY // 10_000 + 1):
            connection.sendall(b"2710\r\n" + b"a" * 10_000 + b"\r\n")
        answer = read_response(connection)
    assert answer.status_code == 413
    assert read_error(answer)["code"] == "request_too_large"


@pytest.mark.parametrize(
    "sent",
    [b"GET /api/us", GET, GET + b"\r\n", POST + b"Content-Length: 1000\r\n\r\n{", POST + CHUNKED],
    ids=["in a line", "in headers", "before the answer", "in a body", "before a chunk"],
)
def test_disconnected_clients_leak_no_connections(
    impatient_server: LiveServer, sent: bytes
) -> None:
    with impatient_server.client() as client:
        open_before = _open_files(impatient_server)
        for abruptly in (True, False) * 10:
            with impatient_server.connect() as connection:
                connection.sendall(sent)
                if abruptly:  # a reset instead of an orderly close
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        assert client.get("/api/users/@me/").status_code == 200
        wait_for(lambda: _open_files(impatient_server) <= open_before + 2, at_most_s=DEADLINE_S)


def test_500_idle_connections_do_not_block_requests(server: LiveServer) -> None:
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(server.connect()) for _ in range(500)]
        for connection in idle:
            connection.sendall(b"GET /_liveness HTTP/1.1\r\nHost: x\r\n\r\n")
        for connection in idle:
            assert read_response(connection).status_code == 200
        with server.client() as client:
            assert client.get("/api/users/@me/").status_code == 200
            assert client.post("/api/projects/", json={"name": "Busy"}).status_code == 201


def test_pipelined_responses_keep_the_order(server: LiveServer) -> None:
    ids = [f"pipe-{number}" for number in range(50)]
    sent = b"".join(GET + b"X-Request-Id: %s\r\n\r\n" % id.encode() for id in ids)
    last = b"GET /_liveness HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(sent + last)
        received = _read_until_close(connection)
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 51
    places = [received.index(b"x-request-id: %s\r\n" % id.encode()) for id in ids]
    assert places == sorted(places)


def test_fast_and_other_routes_share_a_pipeline(server: LiveServer) -> None:
    probe = b"%s /_liveness HTTP/1.1\r\nHost: x\r\nX-Request-Id: %s\r\n\r\n"
    sent = [
        probe % (b"HEAD", b"one"),
        GET + b"X-Request-Id: two\r\n\r\n",
        probe % (b"GET", b"three"),
        GET + b"X-Request-Id: four\r\nConnection: close\r\n\r\n",
    ]
    with server.connect() as connection:
        connection.sendall(b"".join(sent))
        received = _read_until_close(connection)
    ids = [b"one", b"two", b"three", b"four"]
    places = [received.index(b"x-request-id: %s\r\n" % id) for id in ids]
    assert places == sorted(places)
    assert received.count(b'{"status":"ok"}') == 1


def test_body_after_an_early_response_is_not_parsed_as_headers(server: LiveServer) -> None:
    with server.connect() as connection:
        connection.sendall(b"POST /_liveness HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n")
        assert read_response(connection).status_code == 405
        connection.sendall(b"a" * 300_000 + GET + b"\r\n")
        assert read_response(connection).status_code == 200


@pytest.mark.parametrize("path", [b"/_liveness", b"/api/projects/"])
@pytest.mark.parametrize(
    "trailer",
    [b"X-Trailer: " + b"a" * 1000 + b"\r\n", b"a" * 1000],
    ids=["many trailers", "one endless line"],
)
def test_endless_trailers_are_rejected(server: LiveServer, path: bytes, trailer: bytes) -> None:
    before = _resident_bytes(server)
    with server.connect() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(POST.replace(b"/api/projects/", path) + CHUNKED + b"2\r\n{}\r\n0\r\n")
        for _ in range(50_000):
            connection.sendall(trailer)
        pytest.fail("the server took 50 MB of trailers")
    assert _resident_bytes(server) - before < 20_000_000


def test_trailers_are_ignored(server: LiveServer) -> None:
    head = POST.partition(b"Authorization")[0]
    key = b"Authorization: Bearer %s\r\n" % PERSONAL_KEY.encode()
    with server.connect() as connection:
        connection.sendall(head + CHUNKED + b'd\r\n{"name": "T"}\r\n0\r\n' + key + b"\r\n")
        assert read_response(connection).status_code == 401


@pytest.mark.parametrize("together", [True, False])
def test_upgrade_offer_is_declined_and_the_body_is_read(server: LiveServer, together: bool) -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAA\r\n"
    head, body = POST + offer + b"Content-Length: 13\r\n\r\n", b'{"name": "U"}'
    after = GET + b"Connection: close\r\n\r\n"
    with server.connect() as connection:
        if together:
            connection.sendall(head + body + after)
        else:
            connection.sendall(head)
            time.sleep(0.2)
            connection.sendall(body)
            time.sleep(0.2)
            connection.sendall(after)
        received = _read_until_close(connection)
    made, _, found = received.partition(b"HTTP/1.1 200 OK\r\n")
    assert made.startswith(b"HTTP/1.1 201 Created\r\n")
    assert b'"name":"U"' in made
    assert found


def test_connect_is_rejected(server: LiveServer) -> None:
    with server.connect() as connection:
        connection.sendall(b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_response(connection).status_code == 400


def test_error_follows_the_earlier_response(server: LiveServer) -> None:
    body = b'{"name": "Before"}'
    made = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with server.connect() as connection:
        connection.sendall(made + b"GARBAGE\r\n\r\n")
        received = _read_until_close(connection)
    assert received.startswith(b"HTTP/1.1 201 Created\r\n")
    assert received.count(b"HTTP/1.1 400 Bad Request\r\n") == 1


def test_client_that_does_not_read_is_disconnected(impatient_server: LiveServer) -> None:
    with impatient_server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"GET /_liveness HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(9) == b"HTTP/1.1 "
        connected = _open_files(impatient_server)
        connection.sendall(b"GET /api/schema/ HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
        wait_for(lambda: _open_files(impatient_server) < connected, at_most_s=60)


@pytest.mark.parametrize("path", [b"/api/projects/", b"/_liveness", b"/nowhere"])
def test_memory_stays_bounded_after_200_mb_of_bodies(server: LiveServer, path: bytes) -> None:
    chunk = b"100000\r\n" + b"a" * 0x100000 + b"\r\n"
    before = peak = _resident_bytes(server)
    with server.connect() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(POST.replace(b"/api/projects/", path) + CHUNKED)
        for number in range(200):
            connection.sendall(chunk)
            if number % 10 == 0:
                peak = max(peak, _resident_bytes(server))
    assert max(peak, _resident_bytes(server)) - before < 50_000_000


def _open_files(server: LiveServer) -> int:
    return len(list(_proc(server, "fd").iterdir()))


def _resident_bytes(server: LiveServer) -> int:
    pages = int(_proc(server, "statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _proc(server: LiveServer, name: str) -> Path:
    path = Path(f"/proc/{server.process.pid}/{name}")
    if not path.exists():
        pytest.skip("there is no /proc here to see what the server holds")
    return path
