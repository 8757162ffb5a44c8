"""A load generator that costs little itself: N connections, each sends its next request when the
answer to the last one is complete. Loopback only, bounded in time.
"""

import asyncio
import os
import statistics
import time
from dataclasses import dataclass
from typing import cast

import uvloop


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    host: str
    port: int
    request: bytes
    connections: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    answers: int
    per_second: float
    p50_ms: float
    p99_ms: float


class _Client(asyncio.Protocol):
    def __init__(self, load: Load, deadline: float, latencies: list[float]) -> None:
        self._request = load.request
        self._deadline = deadline
        self._latencies = latencies
        self._buffer = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        end = buffer.find(b"\r\n\r\n")
        at = buffer.find(b"content-length: ", 0, end)
        if end < 0 or at < 0:
            self._buffer = buffer
            return
        if len(buffer) < end + 4 + int(buffer[at + 16 : buffer.index(b"\r", at)]):
            self._buffer = buffer
            return
        if buffer[9:10] != b"2":
            self._fail(RuntimeError(f"unexpected answer: {buffer[:200]!r}"))
            return
        now = time.perf_counter()
        self._latencies.append(now - self._sent_at)
        self._buffer = b""
        if now < self._deadline:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self._transport.write(self._request)

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
        self._transport.close()


async def _run(load: Load) -> Measured:
    latencies: list[float] = []
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    clients = [
        (
            await loop.create_connection(
                lambda: _Client(load, started + load.seconds, latencies), load.host, load.port
            )
        )[1]
        for _ in range(load.connections)
    ]
    async with asyncio.timeout(load.seconds + 10):
        await asyncio.gather(*(client.done for client in clients))
    spent = time.perf_counter() - started
    percentiles = statistics.quantiles(latencies, n=100)
    return Measured(
        answers=len(latencies),
        per_second=len(latencies) / spent,
        p50_ms=percentiles[49] * 1000,
        p99_ms=percentiles[98] * 1000,
    )


def run(load: Load) -> Measured:
    return uvloop.run(_run(load))


def cores() -> tuple[set[int], set[int]]:
    """One core for the server and another for the load, where there are two."""
    have = sorted(os.sched_getaffinity(0))
    return {have[0]}, {have[-1]}


def get(path: str, port: int) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        "User-Agent: hedgerow-benchmark\r\nAccept: */*\r\n\r\n"
    ).encode()
