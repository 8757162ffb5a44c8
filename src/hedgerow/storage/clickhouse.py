"""ClickHouse, on a server or in this process (chDB), through one client library.

A client does one thing at a time, so there are a few. Every call blocks: run it in a thread.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, LifoQueue
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import (
    DatabaseError,
    Error,
    OperationalError,
)

from hedgerow.errors import AppError, Invalid, Unavailable

MAX_CLIENTS = 4
CLOSE_WAIT_S = 5
# How long a server may take to insert one block.
INSERT_S = 25

_FULL = "The disk of the event store is full: nothing can be stored until there is room."
_OVERLOADED = "The event store has too much to do at the moment."
_AWAY = "The event store does not answer."
# ClickHouse's numbers for what passes, or what an operator must repair before it can pass.
_UNAVAILABLE = {
    60: "The event store lacks a table: `hedgerow migrate` says how a cluster gets it.",
    74: "The event store's disk does not answer as it should.",
    75: _FULL,
    76: "The event store cannot open its files.",
    81: "The event store's database does not exist.",
    164: "The event store cannot be written at the moment.",
    202: _OVERLOADED,
    209: _AWAY,
    210: _AWAY,
    236: _OVERLOADED,
    241: "The event store has not enough memory for this at the moment.",
    242: "The event store cannot be written at the moment.",
    243: _FULL,
    252: _OVERLOADED,
    279: _AWAY,
    285: "Too few replicas of the event store are there.",
    286: "Too few replicas of the event store are there.",
    319: "Too few replicas of the event store have answered.",
    516: "The event store refuses our user name or password.",
    999: "The event store's coordination service does not answer.",
}
_TOO_SLOW, TOO_MANY_ROWS = 159, 396


class ClickHouse:
    """`connect` opens one more client; `release` is called when the last one is closed."""

    def __init__(
        self, connect: Callable[[], Client], release: Callable[[], None], *, is_embedded: bool
    ) -> None:
        self.is_embedded = is_embedded
        self._connect = connect
        self._release = release
        self._idle: LifoQueue[Client] = LifoQueue()
        self._free = threading.BoundedSemaphore(MAX_CLIENTS)
        self._is_closed = False

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client for this thread alone. The driver's errors become ours."""
        if self._is_closed:
            raise Unavailable("The service is shutting down.")
        with self._free:
            try:
                client = self._taken()
                try:
                    yield client
                finally:
                    self._idle.put(client)
            except (Error, OSError) as error:
                raise translated(error) from error

    def close(self) -> None:
        """Let go of the engine, after what is under way, or after a moment without it."""
        self._is_closed = True
        deadline = time.monotonic() + CLOSE_WAIT_S
        for _ in range(MAX_CLIENTS):
            self._free.acquire(timeout=max(0, deadline - time.monotonic()))
        while not self._idle.empty():
            self._idle.get_nowait().close()
        self._release()

    def _taken(self) -> Client:
        try:
            return self._idle.get_nowait()
        except Empty:
            return self._connect()


def connect_server(url: str, timeout_s: float) -> ClickHouse:
    """A ClickHouse server at http(s)://user:password@host:port/database. Nothing is opened yet: it
    may be away for now."""

    def connect() -> Client:
        return clickhouse_connect.get_client(
            dsn=url,
            tz_mode="aware",
            connect_timeout=timeout_s,
            send_receive_timeout=45,
            # A session takes one request at a time, and a long list does not fit into an address.
            autogenerate_session_id=False,
            form_encode_query_params=True,
        )

    return ClickHouse(connect, lambda: None, is_embedded=False)


def translated(error: Error | OSError) -> Exception:
    """A driver's error as one of ours, when it says that the engine is away or a limit is met."""
    code = error.code if isinstance(error, Error) else None
    if code in _UNAVAILABLE:
        return Unavailable(_UNAVAILABLE[code])
    if code == _TOO_SLOW:
        return _limit("The query takes too long: ask for a shorter time or for less.")
    if code == TOO_MANY_ROWS:
        return _limit("The query gives too many rows: ask for fewer.")
    if isinstance(error, OperationalError | OSError) or _is_transport(error):
        return Unavailable(_AWAY)
    return error


def _limit(detail: str) -> AppError:
    return Invalid(detail, code="query_limit_exceeded")


def _is_transport(error: Exception) -> bool:
    """An answer that is not ClickHouse's at all, of a proxy before it for instance."""
    return type(error) is DatabaseError and error.code is None


def rows_of(client: Client, sql: str, parameters: dict[str, Any], **settings: Any) -> list[Any]:
    """The rows of a query, each as a dictionary."""
    return list(client.query(sql, parameters=parameters, settings=settings).named_results())
