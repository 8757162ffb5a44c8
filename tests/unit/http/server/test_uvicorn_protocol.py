"""The protocol without sockets. tests/fault/test_hostile_sockets.py has the rest."""

import asyncio
import gc
import re
import weakref
from random import Random
from typing import Any

import pytest
from starlette.types import Receive, Scope

from hedgerow.http.server.gateway import FastRoute, Gateway
from hedgerow.http.server.response import Reply, build_reply
from hedgerow.http.server.server import build_server
from hedgerow.http.server.trace import Trace
from tests.unit.http.server.test_gateway import App, GatewayFixture, fine

REQUEST = b"POST /fast HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


class MemoryTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1), "sockname": ("192.0.2.2", 2)})
        self.written = b""
        self.is_paused = False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


async def test_closed_connection_is_freed_without_the_collector() -> None:
    protocol, transport = _connect(_build_gateway())
    gc.disable()
    try:
        protocol.data_received(REQUEST)
        await asyncio.sleep(0)
        assert transport.written.startswith(b"HTTP/1.1 200 OK\r\n")
        protocol.connection_lost(None)
        closed = weakref.ref(protocol)
        del protocol
        await asyncio.sleep(0)
        assert closed() is None
    finally:
        gc.enable()


def _connect(gateway: Gateway, received: bytes = b"") -> tuple[Any, MemoryTransport]:
    server = build_server(gateway, header_timeout_s=30, drain_s=0, grace_s=1)
    server.config.load()
    protocol_class: Any = server.config.http_protocol_class
    protocol = protocol_class(config=server.config, server_state=server.server_state, app_state={})
    protocol.received = received
    transport = MemoryTransport()
    protocol.connection_made(transport)
    return protocol, transport


def _build_gateway() -> Gateway:
    route = FastRoute(handler=fine, methods=("POST",), is_quick=True)
    return GatewayFixture(App(), fast=route).gateway


async def test_requests_sent_without_waiting_are_parsed_as_they_are_answered() -> None:
    gateway = _build_gateway()
    protocol, transport = _connect(gateway)
    protocol.data_received(REQUEST * 5000)
    assert gateway.queues.waiting == 1
    assert len(protocol.pipeline) < 20
    for _ in range(50_000):
        if transport.written.count(b"HTTP/1.1 200 OK\r\n") == 5000:
            break
        await asyncio.sleep(0)
    assert transport.written.count(b"HTTP/1.1 200 OK\r\n") == 5000
    protocol.connection_lost(None)


async def test_a_body_in_many_pieces_arrives_whole() -> None:
    route = FastRoute(handler=_echo_size, methods=("POST",))
    protocol, transport = _connect(GatewayFixture(App(), fast=route).gateway)
    body = b"x" * 300_000
    head = b"POST /fast HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    protocol.data_received(head + body + REQUEST)
    for _ in range(10_000):
        if b"300000" in transport.written and transport.written.endswith(b"2"):
            break
        await asyncio.sleep(0)
    assert transport.written.count(b"HTTP/1.1 200 OK\r\n") == 2
    protocol.connection_lost(None)


@pytest.mark.parametrize("seed", range(40))
async def test_pipelines_in_random_pieces_are_answered_in_order(seed: int) -> None:
    """A piece may end anywhere: inside a head, or in the body of a request that waits."""
    chosen = Random(seed)
    gateway = _build_echo_gateway(is_quick=chosen.random() < 0.5)
    protocol, transport = _connect(gateway)
    sizes = [chosen.choice((0, 2, 400, 700, 9000)) for _ in range(chosen.randint(2, 40))]
    sent = b"".join(_build_request(size) for size in sizes)
    while sent:
        gateway.queues.is_crowded = chosen.random() < 0.5
        size = chosen.choice((1, 50, 500, 3000, 60_000))
        protocol.data_received(sent[:size])
        sent = sent[size:]
        for _ in range(1000):
            if not transport.is_paused and chosen.random() < 0.8:
                break
            await asyncio.sleep(0)
    for _ in range(200):
        await asyncio.sleep(0)
    assert re.findall(rb"\r\n\r\n(\d+)", transport.written) == [b"%d" % size for size in sizes]
    protocol.connection_lost(None)


def _build_echo_gateway(*, is_quick: bool) -> Gateway:
    route = FastRoute(handler=_echo_size, methods=("POST",), is_quick=is_quick)
    return GatewayFixture(App(), fast=route).gateway


def _build_request(size: int) -> bytes:
    head = b"POST /fast HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size
    return head + b"x" * size


async def _echo_size(scope: Scope, receive: Receive, _: Trace) -> Reply:
    size, has_more = 0, True
    while has_more:
        message = await receive()
        size += len(message.get("body", b""))
        has_more = message.get("more_body", False)
    return build_reply(200, str(size).encode())


async def test_in_a_crowd_a_request_waits_unparsed_or_is_refused() -> None:
    gateway = _build_gateway()
    protocol, transport = _connect(gateway)
    queues = gateway.queues
    queues.is_crowded = True
    # Bytes of another connection wait to be parsed, so that these have to wait as well.
    queues.add(queues.unparsed, "other", lambda: None)
    protocol.data_received(REQUEST)
    assert (queues.flags.waiting, protocol.cycle) == (1, None)
    await asyncio.sleep(0)
    assert transport.written.startswith(b"HTTP/1.1 200 OK\r\n")
    transport.written = b""
    queues.is_crowded = queues.is_refusing = queues.flags.is_refusing = True
    queues.flags.limit = 0
    protocol.data_received(REQUEST)
    assert queues.flags.refused == 1
    # The same head again is refused without a look at it; that of another queue is not.
    protocol.data_received(REQUEST)
    protocol.data_received(REQUEST.replace(b"/fast", b"/slow"))
    assert (queues.flags.refused, queues.api.waiting) == (2, 1)
    await asyncio.sleep(0)
    assert transport.written.startswith(b"HTTP/1.1 503 ")
    assert transport.written.lower().count(b"retry-after: 1\r\n") == 2
    protocol.connection_lost(None)


@pytest.mark.parametrize("end", ["shutdown", "malformed", "next slice", "draining"])
async def test_a_refusal_is_sent_before_anything_else(end: str) -> None:
    gateway = _build_gateway()
    protocol, transport = _connect(gateway)
    gateway.queues.is_refusing = gateway.queues.flags.is_refusing = True
    gateway.queues.flags.limit = 0
    protocol.data_received(REQUEST)
    statuses = [b"503"]
    match end:
        case "shutdown":
            protocol.shutdown()
        case "malformed":
            protocol.data_received(b"\0")
            statuses += [b"400"]
        case "next slice":
            gateway.queues.flags.is_refusing = False
            protocol.data_received(REQUEST)
            statuses += [b"200"]
        case "draining":
            gateway.readiness.draining.set()
            protocol.data_received(REQUEST)
            statuses += [b"503"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert re.findall(rb"HTTP/1.1 (\d+)", transport.written) == statuses
    has_closed = transport.written.count(b"connection: close\r\n")
    assert has_closed == (end in ("malformed", "draining"))
    protocol.connection_lost(None)


async def test_a_new_connection_is_answered_early_only_where_no_handler_is_needed() -> None:
    gateway = _build_gateway()
    protocol, _ = _connect(gateway)
    gateway.queues.flags.is_refusing, gateway.queues.flags.limit = True, 0

    def answer(line: bytes, *headers: bytes) -> bytes | None:
        data = b"\r\n".join((line + b" HTTP/1.1", b"Host: a", *headers, b"", b""))
        found: bytes | None = protocol.find_early_answer("192.0.2.1", data, protocol.server_state)
        return found

    alive = answer(b"GET /_liveness")
    assert alive is not None
    assert alive.startswith(b"HTTP/1.1 200 ")
    assert alive.endswith(b'connection: close\r\n\r\n{"status":"ok"}')
    refused = answer(b"POST /fast", b"Connection: close")
    assert refused is not None
    assert refused.startswith(b"HTTP/1.1 503 ")
    for line in (b"POST /_liveness", b"GET /_liveness2", b"GET /_readiness", b"POST /fast"):
        assert answer(line) is None
    protocol.connection_lost(None)


async def test_in_a_crowd_new_connections_are_refused_before_their_requests_wait() -> None:
    gateway = _build_gateway()
    protocol, _ = _connect(gateway)
    gateway.queues.flags.limit = gateway.queues.probes.limit = 2

    def find_answers(line: bytes) -> list[bytes | None]:
        data = line + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        find = protocol.find_early_answer
        return [find("192.0.2.1", data, protocol.server_state) for _ in range(4)]

    assert [bool(each) for each in find_answers(b"POST /fast")] == [False, False, True, True]
    assert gateway.queues.flags.refused == 2
    assert not any(find_answers(b"GET /_readiness"))
    protocol.connection_lost(None)


async def test_a_request_with_a_place_is_not_refused_when_its_connection_opens() -> None:
    gateway = _build_gateway()
    gateway.queues.is_refusing = gateway.queues.flags.is_refusing = True
    gateway.queues.flags.limit = 0
    protocol, transport = _connect(gateway, REQUEST)
    protocol.data_received(REQUEST)
    for _ in range(10):
        await asyncio.sleep(0)
    assert re.findall(rb"HTTP/1.1 (\d+)", transport.written) == [b"200", b"503"]
    protocol.connection_lost(None)


async def test_nothing_is_read_while_bytes_are_held() -> None:
    """A handler that waits for its body would resume reading, and the held bytes would grow."""
    gateway = _build_gateway()
    protocol, transport = _connect(gateway)
    gateway.queues.add(gateway.queues.unparsed, "other", lambda: None)
    protocol.data_received(REQUEST * 100)
    protocol.flow.resume_reading()
    assert protocol.flow.read_paused
    while transport.written.count(b"HTTP/1.1 200 OK\r\n") < 100:
        await asyncio.sleep(0)
    assert not protocol.flow.read_paused
    protocol.connection_lost(None)
