"""The protocol without sockets. tests/fault/test_hostile_sockets.py has the rest."""

import asyncio
import gc
import weakref
from typing import Any

from hedgerow.http.server.gateway import FastRoute
from hedgerow.http.server.server import build_server
from tests.unit.http.server.test_gateway import App, GatewayFixture, fine

REQUEST = b"POST /fast HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


class MemoryTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1), "sockname": ("192.0.2.2", 2)})
        self.written = b""

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass


async def test_closed_connection_is_freed_without_the_collector() -> None:
    route = FastRoute(handler=fine, methods=("POST",), is_quick=True)
    gateway = GatewayFixture(App(), fast=route).gateway
    server = build_server(gateway, header_timeout_s=30, drain_s=0, grace_s=1)
    server.config.load()
    transport = MemoryTransport()
    protocol_class: Any = server.config.http_protocol_class
    protocol = protocol_class(config=server.config, server_state=server.server_state, app_state={})
    gc.disable()
    try:
        protocol.connection_made(transport)
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
