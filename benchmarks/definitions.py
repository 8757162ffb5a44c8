"""Polls for the definitions of flags, of which most are answered 304.

    python -m benchmarks.definitions

The world is benchmarks/flag_world.py with 50 and with 2,000 flags. Server and load have a core
each; what counts is answers per second of the server's own processor time.
"""

import asyncio
import os
import time
from typing import cast

import uvloop

from benchmarks import flag_world
from benchmarks.decide import PROJECT_KEY, hedgerow
from benchmarks.http import Running
from benchmarks.load import cores
from benchmarks.records import KEY

CONNECTIONS = 16
SECONDS = 2.0
FLAG_COUNTS = (flag_world.FLAGS, 2000)


class Poller(asyncio.Protocol):
    """Asks again when the answer is complete, for as long as it may."""

    def __init__(self, request: bytes, deadline: float) -> None:
        self._request = request
        self._deadline = deadline
        self._buffer = bytearray()
        self.answers = 0
        self.last = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        at = self._buffer.find(b"content-length: ", 0, end)
        length = 0 if at < 0 else int(self._buffer[at + 16 : self._buffer.index(b"\r", at)])
        if len(self._buffer) < end + 4 + length:
            return
        self.last = bytes(self._buffer[:end])
        self._buffer.clear()
        self.answers += 1
        if time.perf_counter() < self._deadline:
            self._transport.write(self._request)
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.done.set_result(None)


async def _polled(port: int, mark: str, seconds: float) -> list[Poller]:
    request = (
        f"GET /flags/definitions?token={PROJECT_KEY}&send_cohorts HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {KEY}\r\nIf-None-Match: {mark}\r\n\r\n"
    ).encode()
    deadline = time.perf_counter() + seconds
    loop = asyncio.get_running_loop()
    pollers = []
    for _ in range(CONNECTIONS):
        _, poller = await loop.create_connection(
            lambda: Poller(request, deadline), "127.0.0.1", port
        )
        pollers.append(poller)
    await asyncio.gather(*(poller.done for poller in pollers))
    return pollers


def polled(server: Running, name: str, mark: str) -> str:
    """Print how it went; the mark of the last answer."""
    before = server.cpu_seconds()
    pollers = uvloop.run(_polled(server.port, mark, SECONDS))
    answers = sum(poller.answers for poller in pollers)
    spent = server.cpu_seconds() - before
    head = pollers[0].last.decode()
    status = head.split()[1]
    print(f"  {name:<20} {status:>6} {answers / spent:>12,.0f} {answers / SECONDS:>10,.0f}")
    return head.partition("etag: ")[2].partition("\r")[0]


def main() -> None:
    server_core, load_core = cores()
    os.sched_setaffinity(0, load_core)
    os.environ["HEDGEROW_BOOTSTRAP_PERSONAL_KEY"] = KEY
    os.environ["HEDGEROW_BOOTSTRAP_PROJECT_KEY"] = PROJECT_KEY
    for count in FLAG_COUNTS:
        with hedgerow(server_core, flag_count=count) as server:
            print(f"GET /flags/definitions, {count:,} flags, {CONNECTIONS} connections")
            print(f"  {'':<20} {'status':>6} {'per core-s':>12} {'per s':>10}")
            mark = polled(server, "all of them", '"unknown"')
            polled(server, "nothing has changed", mark)


if __name__ == "__main__":
    main()
