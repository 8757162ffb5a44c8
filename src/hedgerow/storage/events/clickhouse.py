"""A pool of ClickHouse clients, for a server or for chDB in this process.

A client handles one call at a time. Every call blocks: run it in a thread.
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
CLOSE_TIMEOUT_S = 5
# How long a server may take to insert one block.
INSERT_TIMEOUT_S = 25

_DISK_FULL = "The disk of the event store is full: nothing can be stored until space is freed."
_OVERLOADED = "The event store is overloaded. Try again shortly."
_NO_ANSWER = "The event store does not answer."
# ClickHouse error codes that are temporary, or that an operator must resolve.
_UNAVAILABLE_REASONS = {
    60: "The event store lacks a table. See `hedgerow migrate --help` for how to create the tables "
    "of a cluster.",
    74: "The event store cannot read its files: check its disk.",
    75: _DISK_FULL,
    76: "The event store cannot open its files.",
    81: "The event store's database does not exist.",
    164: "The event store cannot be written at the moment.",
    202: _OVERLOADED,
    209: _NO_ANSWER,
    210: _NO_ANSWER,
    236: _OVERLOADED,
    241: "The event store does not have enough memory at the moment.",
    242: "The event store cannot be written at the moment.",
    243: _DISK_FULL,
    252: _OVERLOADED,
    279: _NO_ANSWER,
    285: "Too few replicas of the event store are available.",
    286: "Too few replicas of the event store are available.",
    319: "Too few replicas of the event store have answered.",
    516: "The event store rejects the user name or password: check HEDGEROW_CLICKHOUSE_URL.",
    999: "The event store's coordination service does not answer.",
}
_TIMEOUT_EXCEEDED, TOO_MANY_ROWS = 159, 396


class ClickHousePool:
    """`connect` opens a client; `release` is called after the last one is closed."""

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
        """Yield a client for the exclusive use of this thread, and translate driver errors."""
        if self._is_closed:
            raise Unavailable("The service is shutting down.")
        with self._free:
            try:
                client = self._get_client()
                try:
                    yield client
                finally:
                    self._idle.put(client)
            except (Error, OSError) as error:
                raise translate_error(error) from error

    def close(self) -> None:
        """Close the clients, after running calls have ended or a timeout has passed."""
        self._is_closed = True
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        for _ in range(MAX_CLIENTS):
            self._free.acquire(timeout=max(0, deadline - time.monotonic()))
        while not self._idle.empty():
            self._idle.get_nowait().close()
        self._release()

    def _get_client(self) -> Client:
        try:
            return self._idle.get_nowait()
        except Empty:
            return self._connect()


def connect_server(url: str, timeout_s: float) -> ClickHousePool:
    """Create a pool for a server at http(s)://user:password@host:port/database.

    It connects on first use, so the server may be unavailable now.
    """

    def connect() -> Client:
        return clickhouse_connect.get_client(
            dsn=url,
            tz_mode="aware",
            connect_timeout=timeout_s,
            send_receive_timeout=45,
            # A session allows one request at a time, and long lists do not fit into a URL.
            autogenerate_session_id=False,
            form_encode_query_params=True,
        )

    return ClickHousePool(connect, lambda: None, is_embedded=False)


def translate_error(error: Error | OSError) -> Exception:
    """Convert a driver error to Unavailable or, for an exceeded query limit, to Invalid."""
    code = error.code if isinstance(error, Error) else None
    if code in _UNAVAILABLE_REASONS:
        return Unavailable(_UNAVAILABLE_REASONS[code])
    if code == _TIMEOUT_EXCEEDED:
        return _build_limit_error(
            "The query takes too long. Query a shorter time range or fewer columns."
        )
    if code == TOO_MANY_ROWS:
        return _build_limit_error("The query returns too many rows. Lower its LIMIT.")
    if isinstance(error, OperationalError | OSError) or _is_transport_error(error):
        return Unavailable(_NO_ANSWER)
    return error


def _build_limit_error(detail: str) -> AppError:
    return Invalid(detail, code="query_limit_exceeded")


def _is_transport_error(error: Exception) -> bool:
    """Return whether the response did not come from ClickHouse, but for example from a proxy."""
    return type(error) is DatabaseError and error.code is None


def fetch_rows(client: Client, sql: str, parameters: dict[str, Any], **settings: Any) -> list[Any]:
    """Return the rows of a query as dictionaries."""
    return list(client.query(sql, parameters=parameters, settings=settings).named_results())
