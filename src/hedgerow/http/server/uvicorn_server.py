"""The server: accepts connections, and stops in two steps after a signal. uvicorn_protocol.py says
which version of uvicorn it relies on."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import NamedTuple, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import HANDLED_SIGNALS

from hedgerow.http.server.acceptor import Acceptor
from hedgerow.http.server.health import Readiness
from hedgerow.http.server.uvicorn_protocol import BoundedProtocol
from hedgerow.lib.workers.signals import DRAIN_SIGNAL

# A process that is not ready by then answers that it is not.
MAX_START_S = 30.0
# A connection that was accepted a moment before the end has this long to send its request.
LAST_REQUEST_S = 0.1


class InternalListener(NamedTuple):
    """The socket of the other processes of this machine, and the application that serves them."""

    listening: socket.socket
    app: ASGIApp


class Server(uvicorn.Server):
    """Exits with status 0 on a signal, and sets `stopping` before it shuts down.

    After SIGTERM the readiness check fails and the server serves on for `drain_s`, so that a
    balancer sends no more requests when it stops. Another signal ends that at once. After
    DRAIN_SIGNAL it does so until another signal. The first socket is that of this process, the
    others are those of processes beside it.
    """

    def __init__(  # noqa: PLR0913 - options, all named
        self,
        config: uvicorn.Config,
        *,
        stopping: asyncio.Event,
        readiness: Readiness,
        drain_s: float,
        max_connections: int,
        internal: InternalListener | None = None,
        is_replacement: bool = False,
    ) -> None:
        super().__init__(config)
        self._internal = internal
        self._is_replacement = is_replacement
        self._max_connections = max_connections
        self._stopping = stopping
        self._readiness = readiness
        self._drain_s = drain_s
        self._acceptors: list[Acceptor] = []
        self._waiting_acceptors: list[Acceptor] = []
        self._start_timer: asyncio.TimerHandle | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])  # without servers of its own
        protocol = cast(type[BoundedProtocol], self.config.http_protocol_class)
        build = partial(
            Acceptor,
            max_connections=self._max_connections,
            is_refusing=lambda: protocol.queues.is_refusing,
            find_early_answer=partial(protocol.find_early_answer, state=self.server_state),
        )
        self._acceptors = [
            build(each, self._create_protocol, is_spare=number > 0)
            for number, each in enumerate(sockets or [])
        ]
        if self._internal is not None:
            self._acceptors.append(build(self._internal.listening, self._create_internal_protocol))
        self._waiting_acceptors = self._acceptors.copy()
        if self._is_replacement:
            loop = asyncio.get_running_loop()
            self._start_timer = loop.call_later(MAX_START_S, self.start_accepting)
        else:
            self.start_accepting()

    def start_accepting(self) -> None:
        """Accept connections. One that replaces another process, or joins it, does so when it is
        ready: until then its connections wait, or the other processes accept them."""
        if self._start_timer is not None:
            self._start_timer.cancel()
        waiting, self._waiting_acceptors = self._waiting_acceptors, []
        for acceptor in waiting:
            acceptor.start()

    def _create_protocol(self, received: bytes) -> BoundedProtocol:
        create = cast(type[BoundedProtocol], self.config.http_protocol_class)
        protocol = create(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        protocol.received = received
        return protocol

    def _create_internal_protocol(self, received: bytes) -> BoundedProtocol:
        assert self._internal is not None
        protocol = self._create_protocol(received)
        protocol.app = self._internal.app
        return protocol

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._waiting_acceptors = []
        for acceptor in self._acceptors:
            acceptor.stop()
        for each in sockets or []:
            each.close()
        if self._readiness.draining.is_set():
            await asyncio.sleep(LAST_REQUEST_S)
        self._stopping.set()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        readiness = self._readiness
        is_ready = readiness.waiting_for is None and not readiness.draining.is_set()
        if not is_ready or (sig == signal.SIGTERM and not self._drain_s) or sig == signal.SIGINT:
            super().handle_exit(sig, frame)
            return
        readiness.draining.set()
        if sig == signal.SIGTERM:
            asyncio.get_running_loop().call_later(self._drain_s, super().handle_exit, sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handled = (*HANDLED_SIGNALS, *((DRAIN_SIGNAL,) if self._internal is not None else ()))
        for number in handled:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)
