"""The server: accepts connections, and stops in two steps after a signal. uvicorn_protocol.py says
which version of uvicorn it relies on."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import cast

import uvicorn
from uvicorn.server import HANDLED_SIGNALS

from hedgerow.http.server.acceptor import Acceptor
from hedgerow.http.server.health import Readiness
from hedgerow.http.server.uvicorn_protocol import BoundedProtocol


class Server(uvicorn.Server):
    """Exits with status 0 on a signal, and sets `stopping` before it shuts down.

    After SIGTERM the readiness check fails and the server serves on for `drain_s`, so that a
    balancer sends no more requests when it stops. Another signal ends that at once.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        stopping: asyncio.Event,
        readiness: Readiness,
        drain_s: float,
        max_connections: int,
    ) -> None:
        super().__init__(config)
        self._max_connections = max_connections
        self._stopping = stopping
        self._readiness = readiness
        self._drain_s = drain_s
        self._acceptors: list[Acceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])  # without servers of its own
        protocol = cast(type[BoundedProtocol], self.config.http_protocol_class)
        self._acceptors = [
            Acceptor(
                each,
                self._create_protocol,
                self._max_connections,
                is_refusing=lambda: protocol.queues.is_refusing,
                find_early_answer=partial(protocol.find_early_answer, state=self.server_state),
            )
            for each in sockets or []
        ]
        for acceptor in self._acceptors:
            acceptor.start()

    def _create_protocol(self) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        for acceptor in self._acceptors:
            acceptor.stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        readiness = self._readiness
        is_ready = readiness.waiting_for is None and not readiness.draining.is_set()
        if sig != signal.SIGTERM or not is_ready or not self._drain_s:
            super().handle_exit(sig, frame)
            return
        readiness.draining.set()
        asyncio.get_running_loop().call_later(self._drain_s, super().handle_exit, sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in HANDLED_SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in HANDLED_SIGNALS:
                loop.remove_signal_handler(number)
