"""Accepts many connections per iteration of the event loop.

libuv accepts one. While each iteration answers many requests, a new connection would then wait for
as many iterations as there are connections before it, and so would a health check.
"""

import asyncio
import socket
from collections.abc import Callable

import structlog

# Bounds the time of an iteration. The others wait for the next one.
MAX_ACCEPTS = 256
# The part of the connection limit that is accepted at once: connections which others replace keep
# their file descriptors until the end of the iteration.
MAX_SHARE = 1 / 4
# Wait for a free file descriptor.
RETRY_S = 0.1

_log = structlog.get_logger("hedgerow.http")


class Acceptor:
    def __init__(
        self,
        listening: socket.socket,
        create_protocol: Callable[[], asyncio.BaseProtocol],
        max_connections: int,
    ) -> None:
        self._listening = listening
        self._max_accepts = max(1, min(MAX_ACCEPTS, int(max_connections * MAX_SHARE)))
        self._create_protocol = create_protocol
        self._loop = asyncio.get_running_loop()
        # Holds the tasks until the connections are made.
        self._tasks: set[asyncio.Task[object]] = set()
        self._retry: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._listening.setblocking(False)
        self._retry = None
        self._loop.add_reader(self._listening, self._accept)

    def stop(self) -> None:
        self._loop.remove_reader(self._listening)
        if self._retry is not None:
            self._retry.cancel()

    def _accept(self) -> None:
        for _ in range(self._max_accepts):
            try:
                connection, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.warning("cannot accept connections", reason=error.strerror)
                self.stop()
                self._retry = self._loop.call_later(RETRY_S, self.start)
                return
            connection.setblocking(False)
            task: asyncio.Task[object] = self._loop.create_task(
                self._loop.connect_accepted_socket(self._create_protocol, connection)
            )
            self._tasks.add(task)
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the client is gone already
