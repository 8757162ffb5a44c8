"""A pool of ClickHouse clients, for a server or for the embedded engine.

A client handles one call at a time. Every call blocks: run it in a thread.
"""

import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, LifoQueue
from typing import Any, Protocol

import clickhouse_connect
import structlog
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import (
    DatabaseError,
    Error,
    OperationalError,
)
from clickhouse_connect.driver.httpclient import HttpClient
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError
from urllib3.poolmanager import PoolManager

from hedgerow.errors import AppError, Invalid, Unavailable
from hedgerow.storage.engine.errors import is_data_error

# More than queries, which the QueryLimiter limits: ingestion never waits for them.
MAX_CLIENTS = 8
WAIT_TIMEOUT_S = 30
CLOSE_TIMEOUT_S = 5
# How long a server may be silent. The embedded engine answers or ends, but a backup takes long.
SERVER_TIMEOUT_S = 45
EMBEDDED_TIMEOUT_S = 24 * 3600
# How long a server may take to insert one block.
INSERT_TIMEOUT_S = 25
# How often errors because of damaged files are logged.
REPORT_INTERVAL_S = 60.0

DAMAGED = (
    "The event store has damaged files. Run `hedgerow doctor`: it names them and says what to do."
)
_DISK_FULL = "The disk of the event store is full: nothing can be stored until space is freed."
_CANNOT_WRITE = "The event store cannot write its files: its disk is full, or fails."
_OVERLOADED = "The event store is overloaded. Try again shortly."
NO_ANSWER = "The event store does not answer."
_NO_COORDINATION = "The event store's coordination service does not answer."
_REJECTED_USER = "The event store rejects the user name or password: check HEDGEROW_CLICKHOUSE_URL."
# ClickHouse error codes that are temporary, or that an operator must resolve.
_UNAVAILABLE_REASONS = {
    60: "The event store lacks a table. See `hedgerow migrate --help` for how to create the tables "
    "of a cluster.",
    40: DAMAGED,
    74: "The event store cannot read its files: check its disk.",
    75: _CANNOT_WRITE,
    76: "The event store cannot open its files.",
    81: "The event store's database does not exist.",
    89: DAMAGED,
    107: DAMAGED,
    164: "The event store cannot be written at the moment.",
    192: _REJECTED_USER,
    193: _REJECTED_USER,
    194: _REJECTED_USER,
    201: "The event store's quota for this user is used up: raise it, or wait.",
    202: _OVERLOADED,
    203: _OVERLOADED,
    209: NO_ANSWER,
    210: NO_ANSWER,
    225: _NO_COORDINATION,
    226: DAMAGED,
    227: DAMAGED,
    228: DAMAGED,
    231: DAMAGED,
    236: _OVERLOADED,
    241: "The event store does not have enough memory at the moment.",
    242: "The event store cannot be written at the moment.",
    243: _DISK_FULL,
    246: DAMAGED,
    252: _OVERLOADED,
    271: DAMAGED,
    279: NO_ANSWER,
    285: "Too few replicas of the event store are available.",
    286: "Too few replicas of the event store are available.",
    319: "Too few replicas of the event store have answered.",
    341: "Not all replicas of the event store have finished yet. Try again later.",
    342: NO_ANSWER,
    432: DAMAGED,
    497: "The user of HEDGEROW_CLICKHOUSE_URL lacks a right in the event store: grant it.",
    516: _REJECTED_USER,
    999: _NO_COORDINATION,
}
_TIMEOUT_EXCEEDED, TOO_MANY_ROWS = 159, 396
# The operating system has refused something, such as a descriptor. No query causes that.
_SYSTEM_ERROR = re.compile(
    r"server response: (?:Code: \d+\. DB::Exception: )?Code: \d+\. DB::ErrnoException: "
    r".*?, strerror: ([\w ]+)",
    re.DOTALL,
)
# Something ends too early or has the wrong form: a file, or a value that a query converts. The last
# ones are those of libraries of the engine.
_WRONG_FORM = (3, 32, 33, 49, 117, 1000, 1001, 1002)
_ABOUT_FILE = re.compile(r"while reading|\bmarks\b|filesystem|\.(bin|c?mrk\d?|c?idx|packed|txt)\b")
_CONVERTING = "Cannot parse"

_CLIENT_OPTIONS: dict[str, Any] = {
    "tz_mode": "aware",
    # A session allows one request at a time, and long lists do not fit into a URL.
    "autogenerate_session_id": False,
    "form_encode_query_params": True,
}

_log = structlog.get_logger("hedgerow.events")

# They log every retry; errors are translated and logged by their callers.
for _name in ("urllib3.connectionpool", "clickhouse_connect.driver._backend.http_sync"):
    logging.getLogger(_name).setLevel(logging.ERROR)


class EngineError(Unavailable):
    """An error of the engine without a meaning of its own. Its text is for operators only."""

    def __init__(self, error: Error | OSError) -> None:
        super().__init__("The event store reports an error that is in the log of the service.")
        self.reason = describe_error(error)


class ClientSockets:
    """The connections of one client, which another thread can close. `engine` replaces the
    connection to an address."""

    def __init__(self, engine: "EmbeddedEngine | None" = None) -> None:
        self._engine = engine
        # Which start of the engine the connection belongs to.
        self.engine_start = 0
        self.connected_at = 0.0
        self.is_last = False
        self._is_aborted = False
        self._current: socket.socket | None = None
        # How many requests may be sent; None if they may be repeated.
        self._requests_left: int | None = None

    @property
    def is_embedded(self) -> bool:
        return self._engine is not None

    def refuse_reconnects(self) -> None:
        """Let no further connection replace this one, so that its call is not repeated."""
        self.is_last = True

    @contextmanager
    def send_once(self) -> Iterator[None]:
        """Let the call within fail if its connection breaks, instead of being repeated: what it
        writes may have been written."""
        self._requests_left = 1
        try:
            yield
        finally:
            self._requests_left = None

    def count_request(self) -> None:
        """Raises OSError if the call must not be repeated."""
        if self._requests_left is not None:
            if self._requests_left == 0:
                raise OSError("The call is not repeated.")
            self._requests_left -= 1

    def open(self) -> socket.socket | None:
        """Open a connection to the engine, None without one. Raises OSError."""
        if self.is_last:
            raise OSError("The call was aborted.")
        if self._engine is None:
            return None
        connection = self._engine.connect()
        self.engine_start = self._engine.starts
        return connection

    def use(self, current: socket.socket) -> None:
        self._current = current
        self.connected_at = time.monotonic()
        if self._is_aborted:  # while it connected
            self.abort()

    def abort(self) -> None:
        """End the call in progress with an error."""
        self.is_last = self._is_aborted = True
        if self._current is not None:
            with suppress(OSError):
                # Not the method of a TLS socket, which is not made for other threads.
                socket.socket.shutdown(self._current, socket.SHUT_RDWR)

    def track(self, manager: PoolManager) -> None:
        """Make all further connections of `manager` known here."""
        manager.pool_classes_by_scheme = {
            "http": self._build_class(HTTPConnectionPool, HTTPConnection),
            "https": self._build_class(HTTPSConnectionPool, HTTPSConnection),
        }
        manager.clear()

    def _build_class(self, pool: type[Any], connection: type[Any]) -> type[Any]:
        tracked = type("TrackedConnection", (_TrackedConnection, connection), {"sockets": self})
        return type("TrackedPool", (pool,), {"ConnectionCls": tracked})


class _TrackedConnection(HTTPConnection):
    sockets: ClientSockets

    def _new_conn(self) -> socket.socket:
        try:
            connection = self.sockets.open()
        except OSError as error:
            raise NewConnectionError(self, str(error)) from error
        return super()._new_conn() if connection is None else connection

    def request(self, *args: Any, **options: Any) -> None:
        self.sockets.count_request()
        super().request(*args, **options)

    def connect(self) -> None:
        super().connect()
        assert self.sock is not None
        self.sockets.use(self.sock)


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledClient:
    client: Client
    sockets: ClientSockets


class EmbeddedEngine(Protocol):
    """An engine that starts with a connection, and again after it has ended."""

    @property
    def starts(self) -> int: ...

    @property
    def quarantined_count(self) -> int: ...

    def connect(self) -> socket.socket: ...

    def kill(self) -> None:
        """End the engine with everything that it runs."""


class ClickHousePool:
    """`connect` opens a client; `release` is called after the last one is closed."""

    def __init__(
        self,
        connect: Callable[[ClientSockets], Client],
        release: Callable[[], None],
        engine: EmbeddedEngine | None = None,
    ) -> None:
        self.is_embedded = engine is not None
        self._connect = connect
        self._release = release
        self._engine = engine
        self._idle: LifoQueue[PooledClient] = LifoQueue()
        self._free = threading.BoundedSemaphore(MAX_CLIENTS)
        self._is_closed = False
        self._next_report = 0.0
        self.damage_count = 0

    @property
    def restarts(self) -> int:
        """How often an embedded engine was started again."""
        return 0 if self._engine is None else self._engine.starts - 1

    @property
    def quarantined_count(self) -> int:
        return 0 if self._engine is None else self._engine.quarantined_count

    @contextmanager
    def client(self) -> Iterator[Client]:
        """Yield a client for the exclusive use of this thread, and translate driver errors."""
        with self.lease() as leased:
            yield leased.client

    @contextmanager
    def lease(self) -> Iterator[PooledClient]:
        """Yield a client, like `client`, whose call another thread can abort."""
        if self._is_closed:
            raise Unavailable("The service is shutting down.")
        if not self._free.acquire(timeout=WAIT_TIMEOUT_S):
            raise Unavailable(_OVERLOADED)
        try:
            leased = self._get_client()
            try:
                yield leased
            finally:
                self._return_client(leased)
        except (Error, OSError) as error:
            translated = translate_error(error)
            if is_damage(translated):
                self.report_damage(error)
            if translated is error and not is_data_error(error):
                _log.error("the event store reports an error", reason=describe_error(error))
                translated = EngineError(error)
            raise translated from error
        except Unavailable as error:
            if is_damage(error):
                self.report_damage(error.__cause__)
            raise
        finally:
            self._free.release()

    def report_damage(self, cause: BaseException | None) -> None:
        """Count calls that failed because of damaged files, and log one of them a minute."""
        self.damage_count += 1
        if time.monotonic() > self._next_report:
            self._next_report = time.monotonic() + REPORT_INTERVAL_S
            _log.error("the event store has damaged files", reason=str(cause), remedy=DAMAGED)

    def abort(self, leased: PooledClient) -> None:
        """End a call that nothing else can end. An embedded engine is killed: calls of others
        fail too, and reads are repeated."""
        leased.sockets.abort()
        # The engine may have been restarted because of another call.
        if self._engine is not None and self._engine.starts == leased.sockets.engine_start:
            self._engine.kill()

    def close(self) -> None:
        """Close the clients, after running calls have ended or a timeout has passed."""
        self._is_closed = True
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        for _ in range(MAX_CLIENTS):
            self._free.acquire(timeout=max(0, deadline - time.monotonic()))
        while not self._idle.empty():
            self._idle.get_nowait().client.close()
        self._release()

    def _get_client(self) -> PooledClient:
        try:
            return self._idle.get_nowait()
        except Empty:
            sockets = ClientSockets(self._engine)
            return PooledClient(client=self._connect(sockets), sockets=sockets)

    def _return_client(self, leased: PooledClient) -> None:
        if leased.sockets.is_last:
            leased.client.close()
        else:
            self._idle.put(leased)


def connect_server(url: str, timeout_s: float) -> ClickHousePool:
    """Create a pool for a server at http(s)://user:password@host:port/database.

    It connects on first use, so the server may be unavailable now.
    """

    def connect(sockets: ClientSockets) -> Client:
        client = clickhouse_connect.get_client(
            dsn=url,
            connect_timeout=timeout_s,
            send_receive_timeout=SERVER_TIMEOUT_S,
            dedicated_pool=True,
            **_CLIENT_OPTIONS,
        )
        assert isinstance(client, HttpClient)
        sockets.track(client.http)
        return client

    return ClickHousePool(connect, lambda: None)


def connect_embedded(
    engine: EmbeddedEngine, database: str, release: Callable[[], None]
) -> ClickHousePool:
    """Create a pool for an embedded engine."""

    def connect(sockets: ClientSockets) -> Client:
        manager = PoolManager(retries=1)
        sockets.track(manager)
        return clickhouse_connect.get_client(
            host="engine",
            database=database,
            compress=False,
            pool_mgr=manager,
            send_receive_timeout=EMBEDDED_TIMEOUT_S,
            **_CLIENT_OPTIONS,
        )

    return ClickHousePool(connect, release, engine)


def translate_error(error: Error | OSError) -> Exception:
    """Convert a driver error to Unavailable or, for an exceeded query limit, to Invalid. Return an
    error that may be caused by the statement as it is."""
    code = error.code if isinstance(error, Error) else None
    if code in _WRONG_FORM and _ABOUT_FILE.search(str(error)) and _CONVERTING not in str(error):
        return Unavailable(DAMAGED)
    if code in _UNAVAILABLE_REASONS:
        return Unavailable(_UNAVAILABLE_REASONS[code])
    if refusal := _SYSTEM_ERROR.search(str(error)):
        return Unavailable(
            f"The operating system refuses what the event store needs: {refusal[1]}. Check the "
            "limits of its process (`LimitNOFILE` of systemd, `ulimit -n`) and its disk."
        )
    if code == _TIMEOUT_EXCEEDED:
        return _build_limit_error(
            "The query takes too long. Query a shorter time range or fewer columns."
        )
    if code == TOO_MANY_ROWS:
        return _build_limit_error("The query returns too many rows. Lower its LIMIT.")
    if isinstance(error, OperationalError | OSError) or _is_transport_error(error):
        return Unavailable(NO_ANSWER)
    return error


def is_damage(error: BaseException) -> bool:
    """Return whether a translated error says that files are damaged."""
    return isinstance(error, Unavailable) and error.detail == DAMAGED


def describe_error(error: BaseException) -> str:
    """Return the message of a driver error in one line of bounded length."""
    return " ".join(str(error).split())[:300]


def _build_limit_error(detail: str) -> AppError:
    return Invalid(detail, code="query_limit_exceeded")


def _is_transport_error(error: Exception) -> bool:
    """Return whether the response did not come from ClickHouse, but for example from a proxy."""
    return type(error) is DatabaseError and error.code is None


def fetch_rows(client: Client, sql: str, parameters: dict[str, Any], **settings: Any) -> list[Any]:
    """Return the rows of a query as dictionaries."""
    return list(client.query(sql, parameters=parameters, settings=settings).named_results())
