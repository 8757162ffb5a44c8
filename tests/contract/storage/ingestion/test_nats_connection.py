"""A connection to NATS is closed, whatever becomes of it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hedgerow.storage.ingestion import nats_connection
from hedgerow.storage.ingestion.nats_connection import JetStreamConnection, StreamError

AT_MOST_S = 20


class SilentServer:
    """Accepts connections, and says nothing."""

    def __init__(self) -> None:
        self.accepted, self.closed = asyncio.Event(), asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted.set()
        await reader.read()
        self.closed.set()
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def silent() -> AsyncIterator[tuple[SilentServer, JetStreamConnection]]:
    silent = SilentServer()
    async with asyncio.timeout(AT_MOST_S):
        async with await asyncio.start_server(silent.serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            yield silent, JetStreamConnection(f"nats://127.0.0.1:{port}")


async def test_a_connection_to_a_server_that_does_not_answer_is_closed(
    silent: tuple[SilentServer, JetStreamConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, connection = silent
    monkeypatch.setattr(nats_connection, "CONNECT_TIMEOUT_S", 0.1)
    with pytest.raises(StreamError, match="NATS cannot be reached"):
        await connection.open()
    await server.closed.wait()


async def test_a_connection_is_closed_if_it_is_given_up_before_it_is_open(
    silent: tuple[SilentServer, JetStreamConnection],
) -> None:
    server, connection = silent
    opening = asyncio.create_task(connection.open())
    await server.accepted.wait()
    await asyncio.sleep(0.1)  # it waits for the first line of the server
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await server.closed.wait()


async def test_an_unreachable_server_is_reported_and_can_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nats_connection, "CONNECT_TIMEOUT_S", 0.1)
    connection = JetStreamConnection("nats://127.0.0.1:1")
    with pytest.raises(StreamError, match="NATS cannot be reached"):
        await connection.open()
    await connection.close()
