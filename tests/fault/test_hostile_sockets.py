"""Clients that break the rules of HTTP, stall, lie or vanish: refused or dropped, each in time."""

import contextlib
import resource
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import PERSONAL_KEY, LiveServer, answer_on, error_of, seconds_until

LIMIT_S = 1
MAX_BODY = 100_000
LIMITS = {"max_body_bytes": str(MAX_BODY)}
# The limits are a second, and half a minute unless told; a noisy machine gets this much.
SOON_S = 25

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
    yield from _outlives(LiveServer(tmp_path_factory.mktemp("hostile"), **LIMITS))


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """One that waits for nobody for long."""
    limits = {**LIMITS, "body_timeout_s": str(LIMIT_S)}
    yield from _outlives(LiveServer(tmp_path_factory.mktemp("hasty"), **limits))


def _outlives(server: LiveServer) -> Iterator[LiveServer]:
    with server:
        yield server
        with server.client() as client:
            assert client.get("/api/users/@me/").status_code == 200
    assert "Traceback" not in server.errors
    assert '"level": "error"' not in server.errors


def _rest(connection: socket.socket) -> bytes:
    """Everything that still comes until the server closes."""
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
def test_headers_that_do_not_arrive_in_time_end_the_connection(
    hasty: LiveServer, sent: bytes
) -> None:
    started = time.monotonic()
    with hasty.connect() as connection:
        connection.sendall(sent)
        assert _rest(connection) == b""
    assert LIMIT_S - 0.2 < time.monotonic() - started < SOON_S


def test_a_trickle_of_headers_does_not_buy_more_time(hasty: LiveServer) -> None:
    started = time.monotonic()
    with hasty.connect() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(b"GET / HTTP/1.1\r\n")
        while time.monotonic() - started < 2 * SOON_S:
            connection.sendall(b"X-Drop: 1\r\n")
            time.sleep(0.1)
    assert time.monotonic() - started < SOON_S


@pytest.mark.parametrize("sent", [b"GET /api/use", b"\r\n"], ids=["half a line", "an empty line"])
def test_a_half_sent_second_request_ends_the_connection_too(hasty: LiveServer, sent: bytes) -> None:
    with hasty.connect() as connection:
        connection.sendall(GET + b"\r\n")
        assert answer_on(connection).status_code == 200
        started = time.monotonic()
        connection.sendall(sent)
        assert _rest(connection) == b""
    assert time.monotonic() - started < SOON_S


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
def test_headers_over_64_kib_are_refused_431(server: LiveServer, sent: bytes, piece: int) -> None:
    with server.connect() as connection:
        with contextlib.suppress(ConnectionError):  # it may hang up before it has heard all
            for start in range(0, len(sent), piece):
                connection.sendall(sent[start : start + piece])
        answer = answer_on(connection)
    assert answer.status_code == 431
    assert error_of(answer)["code"] == "headers_too_large"


def test_headers_of_60_kib_are_taken(server: LiveServer) -> None:
    with server.connect() as connection:
        connection.sendall(GET + b"X-Long: " + b"a" * 60_000 + b"\r\n\r\n")
        assert answer_on(connection).status_code == 200


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
def test_what_is_not_http_is_answered_400_in_the_one_shape(server: LiveServer, sent: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(sent)
        answer = answer_on(connection)
    assert answer.status_code == 400
    assert error_of(answer)["type"] == "invalid_request"


@pytest.mark.parametrize(
    "start",
    [POST + b'Content-Length: 20\r\n\r\n{"name"', POST + CHUNKED + b'7\r\n{"name"\r\n'],
    ids=["with a length", "in chunks"],
)
def test_a_body_that_does_not_arrive_in_time_is_answered_408(
    hasty: LiveServer, start: bytes
) -> None:
    started = time.monotonic()
    with hasty.connect() as connection:
        connection.sendall(start)
        answer = answer_on(connection)
    assert answer.status_code == 408
    assert error_of(answer)["code"] == "request_timeout"
    assert LIMIT_S - 0.2 < time.monotonic() - started < SOON_S


@pytest.mark.parametrize("expect", [b"", b"Expect: 100-continue\r\n"], ids=["plain", "asking"])
def test_an_announced_body_that_is_too_large_is_answered_413_before_it_is_sent(
    server: LiveServer, expect: bytes
) -> None:
    with server.connect() as connection:
        connection.sendall(POST + expect + b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1))
        answer = answer_on(connection)
    assert answer.status_code == 413
    assert error_of(answer)["code"] == "request_too_large"


@pytest.mark.parametrize("key", [b"", PERSONAL_KEY.encode()], ids=["without a key", "with a key"])
def test_chunks_that_become_too_large_are_answered_413(server: LiveServer, key: bytes) -> None:
    head = POST if key else POST.partition(b"Authorization")[0]
    with server.connect() as connection:
        connection.sendall(head + CHUNKED)
        for _ in range(MAX_BODY // 10_000 + 1):
            connection.sendall(b"2710\r\n" + b"a" * 10_000 + b"\r\n")
        answer = answer_on(connection)
    assert answer.status_code == 413
    assert error_of(answer)["code"] == "request_too_large"


@pytest.mark.parametrize(
    "sent",
    [b"GET /api/us", GET, GET + b"\r\n", POST + b"Content-Length: 1000\r\n\r\n{", POST + CHUNKED],
    ids=["in a line", "in headers", "before the answer", "in a body", "before a chunk"],
)
def test_clients_that_vanish_leave_nothing_behind(hasty: LiveServer, sent: bytes) -> None:
    with hasty.client() as client:
        open_before = _open_files(hasty)
        for abruptly in (True, False) * 10:
            with hasty.connect() as connection:
                connection.sendall(sent)
                if abruptly:  # a reset instead of an orderly end
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        assert client.get("/api/users/@me/").status_code == 200
        seconds_until(lambda: _open_files(hasty) <= open_before + 2, at_most_s=SOON_S)


def test_500_idle_connections_leave_room_for_work(server: LiveServer) -> None:
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(server.connect()) for _ in range(500)]
        for connection in idle:
            connection.sendall(b"GET /_liveness HTTP/1.1\r\nHost: x\r\n\r\n")
        for connection in idle:
            assert answer_on(connection).status_code == 200
        with server.client() as client:
            assert client.get("/api/users/@me/").status_code == 200
            assert client.post("/api/projects/", json={"name": "Busy"}).status_code == 201


def test_pipelined_requests_are_answered_in_order(server: LiveServer) -> None:
    ids = [f"pipe-{number}" for number in range(50)]
    sent = b"".join(GET + b"X-Request-Id: %s\r\n\r\n" % id.encode() for id in ids)
    last = b"GET /_liveness HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(sent + last)
        received = _rest(connection)
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 51
    places = [received.index(b"x-request-id: %s\r\n" % id.encode()) for id in ids]
    assert places == sorted(places)


def test_hot_and_other_paths_share_a_pipeline(server: LiveServer) -> None:
    probe = b"%s /_liveness HTTP/1.1\r\nHost: x\r\nX-Request-Id: %s\r\n\r\n"
    sent = [
        probe % (b"HEAD", b"one"),
        GET + b"X-Request-Id: two\r\n\r\n",
        probe % (b"GET", b"three"),
        GET + b"X-Request-Id: four\r\nConnection: close\r\n\r\n",
    ]
    with server.connect() as connection:
        connection.sendall(b"".join(sent))
        received = _rest(connection)
    ids = [b"one", b"two", b"three", b"four"]
    places = [received.index(b"x-request-id: %s\r\n" % id) for id in ids]
    assert places == sorted(places)
    assert received.count(b'{"status":"ok"}') == 1


def test_a_body_that_goes_on_after_its_answer_is_not_taken_for_headers(server: LiveServer) -> None:
    with server.connect() as connection:
        connection.sendall(b"POST /_liveness HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n")
        assert answer_on(connection).status_code == 405
        connection.sendall(b"a" * 300_000 + GET + b"\r\n")
        assert answer_on(connection).status_code == 200


@pytest.mark.parametrize("path", [b"/_liveness", b"/api/projects/"])
@pytest.mark.parametrize(
    "trailer",
    [b"X-Trailer: " + b"a" * 1000 + b"\r\n", b"a" * 1000],
    ids=["many trailers", "one endless line"],
)
def test_trailers_without_end_are_refused(server: LiveServer, path: bytes, trailer: bytes) -> None:
    before = _resident_bytes(server)
    with server.connect() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(POST.replace(b"/api/projects/", path) + CHUNKED + b"2\r\n{}\r\n0\r\n")
        for _ in range(50_000):
            connection.sendall(trailer)
        pytest.fail("the server took 50 MB of trailers")
    assert _resident_bytes(server) - before < 20_000_000


def test_trailers_are_no_headers(server: LiveServer) -> None:
    head = POST.partition(b"Authorization")[0]
    key = b"Authorization: Bearer %s\r\n" % PERSONAL_KEY.encode()
    with server.connect() as connection:
        connection.sendall(head + CHUNKED + b'd\r\n{"name": "T"}\r\n0\r\n' + key + b"\r\n")
        assert answer_on(connection).status_code == 401


@pytest.mark.parametrize("together", [True, False])
def test_an_offer_of_another_protocol_is_declined_and_the_body_read(
    server: LiveServer, together: bool
) -> None:
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
        received = _rest(connection)
    made, _, found = received.partition(b"HTTP/1.1 200 OK\r\n")
    assert made.startswith(b"HTTP/1.1 201 Created\r\n")
    assert b'"name":"U"' in made
    assert found


def test_this_is_no_proxy(server: LiveServer) -> None:
    with server.connect() as connection:
        connection.sendall(b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer_on(connection).status_code == 400


def test_a_refusal_does_not_overtake_the_answer_before_it(server: LiveServer) -> None:
    body = b'{"name": "Before"}'
    made = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with server.connect() as connection:
        connection.sendall(made + b"GARBAGE\r\n\r\n")
        received = _rest(connection)
    assert received.startswith(b"HTTP/1.1 201 Created\r\n")
    assert received.count(b"HTTP/1.1 400 Bad Request\r\n") == 1


def test_a_peer_that_does_not_read_is_dropped(hasty: LiveServer) -> None:
    with hasty.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"GET /_liveness HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(9) == b"HTTP/1.1 "
        connected = _open_files(hasty)
        connection.sendall(b"GET /api/schema/ HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
        seconds_until(lambda: _open_files(hasty) < connected, at_most_s=60)


@pytest.mark.parametrize("path", [b"/api/projects/", b"/_liveness", b"/nowhere"])
def test_200_mb_of_body_do_not_stay_in_memory(server: LiveServer, path: bytes) -> None:
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
