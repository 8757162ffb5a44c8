"""Accepts many connections per iteration of the event loop.

libuv accepts one. While each iteration answers many requests, a new connection would then wait for
as many iterations as there are connections before it, and so would a health check. While requests
are refused, or many connections wait, a liveness check is answered as soon as it is accepted, and a
connection for a single request that would wait for too long is refused before it costs more than
the refusal.
"""

import asyncio
import socket
from _socket import socket as PlainSocket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any

import structlog

from hedgerow.lib.eager import start_eagerly

# Bounds of an iteration: the connections that it opens, and its time. The others wait for the next
# one. It may take longer while requests are refused: a refusal must not come late.
MAX_ACCEPTS = 256
ACCEPTING_S = 0.01
REFUSING_S = 0.02
# After so many connections in an iteration, the requests of the others are examined.
CROWD = 16
# A request that is answered without a connection of the event loop fits into this.
MAX_EARLY_BYTES = 4096
PEEK = socket.MSG_PEEK | socket.MSG_DONTWAIT
# The part of the connection limit that is accepted at once: connections which others replace keep
# their file descriptors until the end of the iteration.
MAX_SHARE = 1 / 4
# Wait for a free file descriptor.
RETRY_S = 0.1
# How long a connection waits for the process of its socket.
SPARE_INTERVAL_S = 0.1

_log = structlog.get_logger("hedgerow.http")


# Returns the answer to the only request of a connection, ADMITTED if it has a place in its queue,
# None if it is to be read as any other. Gets the client's address and the connection's first bytes.
FindEarlyAnswer = Callable[[str, bytes], bytes | None]
ADMITTED = b""
# Gets what has been received of a connection.
CreateProtocol = Callable[[bytes], asyncio.BaseProtocol]


class Acceptor:
    """`find_early_answer` is called while `is_refusing` returns True, and in a crowd. A spare one
    takes connections of another process's socket, which wait because that process is busy, starts
    or has ended."""

    def __init__(
        self,
        listening: socket.socket,
        create_protocol: CreateProtocol,
        max_connections: int,
        *,
        is_refusing: Callable[[], bool],
        find_early_answer: FindEarlyAnswer,
        is_spare: bool = False,
    ) -> None:
        self._is_spare = is_spare
        self._is_refusing = is_refusing
        self._find_early_answer = find_early_answer
        self._listening = listening
        self._kind = int(listening.family), int(listening.type), listening.proto
        self._max_accepts = max(1, min(MAX_ACCEPTS, int(max_connections * MAX_SHARE)))
        self._create_protocol = create_protocol
        self._loop = asyncio.get_running_loop()
        # Holds the tasks until the connections are made.
        self._tasks: set[asyncio.Task[object]] = set()
        self._retry: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._listening.setblocking(False)
        self._retry = None
        if self._is_spare:
            self._retry = self._loop.call_later(SPARE_INTERVAL_S, self._accept_spare)
        else:
            self._loop.add_reader(self._listening, self._accept)

    def stop(self) -> None:
        self._loop.remove_reader(self._listening)
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _accept_spare(self) -> None:
        self._retry = None
        self._accept()
        if self._retry is None:
            self.start()

    def _accept(self) -> None:
        is_refusing = self._is_refusing
        began = perf_counter()
        max_s = REFUSING_S if is_refusing() else ACCEPTING_S
        opened = 0
        while opened < self._max_accepts:
            try:
                # What socket.accept calls, without an object of the slower class.
                number, peer = self._listening._accept()  # type: ignore[attr-defined]
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.warning("cannot accept connections", reason=error.strerror)
                self.stop()
                self._retry = self._loop.call_later(RETRY_S, self.start)
                return
            is_crowded = opened >= CROWD or is_refusing()
            received = self._examine(number, peer) if is_crowded else b""
            if received is None:
                max_s = REFUSING_S
            else:
                self._open(socket.socket(*self._kind, fileno=number), received)
                opened += 1
            if perf_counter() - began > max_s:
                return

    def _open(self, connection: socket.socket, received: bytes) -> None:
        connection.setblocking(False)
        create = partial(self._create_protocol, received)
        rest = start_eagerly(self._loop.connect_accepted_socket(create, connection))
        if rest is not None:
            task: asyncio.Task[object] = self._loop.create_task(rest)
            self._tasks.add(task)
            task.add_done_callback(self._forget)

    def _examine(self, number: int, peer: Any) -> bytes | None:
        """Answer the request that a new connection has already received, if no handler is needed
        for that, and return None. Otherwise return what was read."""
        # Cheaper than socket.socket, which converts its arguments to enumerations.
        connection = PlainSocket(*self._kind, number)
        received = b""
        with suppress(OSError):
            data = connection.recv(MAX_EARLY_BYTES, PEEK)
            # A Unix socket has no address.
            answer = self._find_early_answer(peer[0] if peer else "", data)
            if answer is not None:
                # To close it with unread bytes would discard the answer.
                received = connection.recv(MAX_EARLY_BYTES, socket.MSG_DONTWAIT)
                if answer is not ADMITTED:
                    connection.send(answer, socket.MSG_DONTWAIT)
                    connection.close()
                    return None
        connection.detach()
        return received

    def _forget(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the client is gone already
