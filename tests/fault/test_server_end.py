"""The end of a server."""

import asyncio
import signal
import socket

from hedgerow.http.server.gateway import FastRoute
from hedgerow.http.server.server import build_server
from tests.unit.http.server.test_gateway import App, GatewayFixture, fine

REQUEST = b"POST /fast HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


async def test_the_last_connection_that_is_accepted_gets_its_answer() -> None:
    """Its request is still on its way when the server stops listening."""
    route = FastRoute(handler=fine, methods=("POST",), is_quick=True)
    gateway = GatewayFixture(App(), fast=route).gateway
    server = build_server(gateway, header_timeout_s=30, drain_s=0.01, grace_s=1)
    listening = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    while not server.server_state.connections:
        await asyncio.sleep(0)
    server.handle_exit(signal.SIGTERM, None)
    while listening.fileno() != -1:
        await asyncio.sleep(0)
    writer.write(REQUEST)
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"connection: close" in answer
    writer.close()
    await serving
