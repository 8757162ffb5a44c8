"""The state database on PostgreSQL: a pool of asynchronous connections. Appended rows share a
commit; the server groups the commits of other changes.

A pooler such as PgBouncer may give each transaction another session. So settings belong to the
transaction, and nothing else depends on the session.
"""

import asyncio
import math
import select
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, TypeVar, cast
from weakref import WeakSet

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, ConnectionPoolEntry, NullPool
from sqlalchemy.util import await_only, greenlet_spawn

from hedgerow.errors import Unavailable
from hedgerow.lib.clock import SHARED_CLOCK
from hedgerow.lib.workers.sender import current_sender
from hedgerow.storage.engine.append_groups import AppendGroups
from hedgerow.storage.engine.damage import DAMAGE_STATES, DamageReport
from hedgerow.storage.engine.database import (
    Database,
    DatabaseStats,
    PreparedInsert,
    PreparedQuery,
    Rows,
    read_elapsed_s,
)
from hedgerow.storage.engine.versions import APPLICATION_NAME

T = TypeVar("T")

Wire = psycopg.AsyncConnection[Any]

CLOSE_TIMEOUT_S = 0.5
# The part of the pool that appends may use, so that other work finds a free connection.
APPEND_SHARE = 1 / 3
# How long a transaction may wait for its process: one that is frozen, or whose machine vanished,
# must not keep its locks. Shorter than the usual lock timeout, so that others need not fail. Three
# transactions of a frozen process may get the same lock one after the other: PostgreSQL counts the
# wait for a row and the wait for its turn apart.
IDLE_TRANSACTION_TIMEOUT_S = 3
# Migrations and copies compute between their statements.
IDLE_MIGRATION_TIMEOUT_S = 60
# A connection whose other end vanished ends after about 10 s.
KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_COUNT = 5, 2, 3
TCP_USER_TIMEOUT_MS = 10_000
# How often connections are replaced while the server accepts no changes: after a failover they lead
# to the former primary, and a session keeps the setting that it began with.
READ_ONLY_RECONNECT_S = 1
# Of a connection in the pool. SQLAlchemy clears what it knows of one when it connects again.
WAS_USED = "was used"
_READ_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"
DAMAGED = "The database has damaged files: run `hedgerow doctor`, and restore a backup."
# psycopg counts these as errors of a program: what a statement finds of a connection that another
# one has left in the middle, and a limit that the operator set for a role.
CONNECTION_ERRORS = (psycopg.OperationalError, psycopg.InterfaceError)
TIME_LIMIT_ERRORS = (psycopg.errors.QueryCanceled, psycopg.errors.TransactionTimeout)
# psycopg reports these as server errors, although a value is too large.
VALUE_TOO_LARGE_ERRORS = (
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
    psycopg.errors.TooManyArguments,
)

# The dialect with plain %s placeholders, for rows that are passed to the driver unchanged.
POSITIONAL_DIALECT = PGDialect_psycopg(paramstyle="format")  # type: ignore[no-untyped-call]


@cache
def _compile_array_insert(to: PreparedInsert) -> str:
    """Compile an insert of any number of rows with one array per column, in the driver's SQL. %b
    sends the arrays in binary format."""
    types = [to.table.c[name].type.compile(POSITIONAL_DIALECT) for name in to.columns]
    arrays = ", ".join(f"%b::{each}[]" for each in types)
    into = f"INSERT INTO {to.table.name} ({', '.join(to.columns)})"
    return f"{into} SELECT * FROM unnest({arrays})"  # noqa: S608 - our own names


def _build_driver_url(url: str) -> Any:
    return make_url(url).set(drivername="postgresql+psycopg")


def _build_connect_args(timeout_s: float) -> dict[str, Any]:
    return {
        "connect_timeout": max(1, round(timeout_s)),
        "application_name": APPLICATION_NAME,
        "keepalives_idle": KEEPALIVE_IDLE_S,
        "keepalives_interval": KEEPALIVE_INTERVAL_S,
        "keepalives_count": KEEPALIVE_COUNT,
    }


def _build_settings(timeout_s: float, *, idle_s: float, statement_s: float = 0) -> str:
    """Build the statements that set the limits of a transaction. 0 means no limit."""
    return (
        f"SET LOCAL lock_timeout = {round(timeout_s * 1000)}"
        f"; SET LOCAL idle_in_transaction_session_timeout = {round(idle_s * 1000)}"
        f"; SET LOCAL statement_timeout = {round(statement_s * 1000)}"
        "; SET LOCAL timezone = 'UTC'"
    )


def create_postgres_engine(url: str, timeout_s: float) -> Engine:
    """Create a blocking engine, for migrations and other work before the event loop runs. Its
    statements may take any time."""
    engine = create_engine(
        _build_driver_url(url),
        poolclass=NullPool,
        connect_args={**_build_connect_args(timeout_s), "prepare_threshold": None},
    )
    event.listen(engine, "connect", _compare_clock)
    settings = _build_settings(timeout_s, idle_s=IDLE_MIGRATION_TIMEOUT_S)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(settings))
    return engine


def _compare_clock(connection: Any, _: object) -> None:
    asked_at_s = read_elapsed_s()
    found = connection.execute(_READ_CLOCK).fetchone()
    SHARED_CLOCK.follow(found[0], asked_at_s, read_elapsed_s)
    connection.rollback()


async def _follow_clock(wire: Wire) -> None:
    asked_at_s = read_elapsed_s()
    found = await (await wire.execute(_READ_CLOCK)).fetchone()
    assert found is not None
    SHARED_CLOCK.follow(found[0], asked_at_s, read_elapsed_s)


def build_scan_connection(url: str, timeout_s: float, scan_s: float) -> tuple[dict[str, Any], str]:
    """Return the arguments of psycopg.connect, and the statement that begins a transaction that
    reads for up to `scan_s` seconds. For a process that does not load SQLAlchemy."""
    connect_args = POSITIONAL_DIALECT.create_connect_args(_build_driver_url(url))  # type: ignore[no-untyped-call]
    arguments: dict[str, Any] = connect_args[1]
    settings = _build_settings(timeout_s, idle_s=scan_s, statement_s=scan_s)
    return {**arguments, **_build_connect_args(timeout_s)}, f"BEGIN READ ONLY; {settings}"


async def has_own_session(wire: Wire) -> bool:
    """Return False behind a pooler: there the session has another process id than the connection,
    and the next transaction may run in another session."""
    found = await (await wire.execute("SELECT pg_backend_pid()")).fetchone()
    return found == (wire.info.backend_pid,)


async def _prepare_connection(wire: Wire) -> None:
    """Configure a new connection, and read the clock before its first statement."""
    await _follow_clock(wire)
    if not await has_own_session(wire):
        wire.prepare_threshold = None
        return
    if wire.info.host.startswith("/"):  # a Unix socket
        return
    # Settings of the session: they are for a connection that is idle.
    await wire.execute(
        f"SET tcp_keepalives_idle = {KEEPALIVE_IDLE_S}"
        f"; SET tcp_keepalives_interval = {KEEPALIVE_INTERVAL_S}"
        f"; SET tcp_keepalives_count = {KEEPALIVE_COUNT}"
        f"; SET tcp_user_timeout = {TCP_USER_TIMEOUT_MS}".encode(),
        prepare=False,
    )


def _check_alive(connection: Any) -> None:
    """Raise InvalidatePoolError for a connection that died while idle, so that no request fails
    after a restart of the server. An idle connection has something to read only if the server
    closed it or sent a notice: looking costs no round trip."""
    wire: Wire = connection.driver_connection
    if not wire.closed:
        poll = select.poll()
        poll.register(wire.pgconn.socket, select.POLLIN)
        if not poll.poll(0):
            return
    try:
        connection.run_async(lambda wire: wire.execute("SELECT 1"))
    except psycopg.Error as error:
        raise InvalidatePoolError from error


class PostgresDatabase(Database):
    engine_name = "postgresql"

    def __init__(self, url: str, timeout_s: float, pool_size: int) -> None:
        self._engine = create_async_engine(
            _build_driver_url(url),
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=timeout_s,
            # Errors are logged, parameter values must not be.
            hide_parameters=True,
            # `_run_transaction` begins each one, together with its settings in one round trip.
            isolation_level="AUTOCOMMIT",
            connect_args={
                **_build_connect_args(timeout_s),
                "tcp_user_timeout": TCP_USER_TIMEOUT_MS,
            },
        )
        self._shares = PoolShares(max(1, pool_size // 2), timeout_s)
        self._appends = AppendGroups(self._insert, max(1, round(pool_size * APPEND_SHARE)))
        self._commits = self._writes = 0
        self._waiting = 0
        self._closed = False
        # `timeout_s` limits connecting, a lock and a query each; this limits their sum.
        self._answer_timeout_s = 1.5 * timeout_s
        idle_s = IDLE_TRANSACTION_TIMEOUT_S
        # After this time no caller waits for the result of a read. A change may take longer, and
        # succeed.
        reading = _build_settings(timeout_s, idle_s=idle_s, statement_s=self._answer_timeout_s)
        self._begin_read = f"BEGIN ISOLATION LEVEL REPEATABLE READ; {reading}".encode()
        self._begin_change = f"BEGIN; {_build_settings(timeout_s, idle_s=idle_s)}".encode()
        self._running: set[asyncio.Task[Any]] = set()
        # All open connections, including those being checked or returned to the pool.
        self._connections: WeakSet[Wire] = WeakSet()
        self._is_read_only = False
        self._damage = DamageReport()
        self._reconnected_at = -math.inf
        event.listen(self._engine.sync_engine, "connect", self._add_connection)
        event.listen(self._engine.sync_engine, "checkout", self._check_connection)

    def _add_connection(self, connection: Any, _: object) -> None:
        self._connections.add(connection.driver_connection)
        connection.run_async(_prepare_connection)

    def _check_connection(self, connection: Any, record: ConnectionPoolEntry, _: object) -> None:
        """Replace a connection that died while idle, and all of them if the server they lead to
        accepts no changes. A new one is used as it is: connecting may have taken longer than the
        pause between replacements, and SQLAlchemy gives up after the second one, with an error
        that is not the driver's."""
        if not record.info.get(WAS_USED):
            record.info[WAS_USED] = True
            return
        is_due = time.monotonic() - self._reconnected_at >= READ_ONLY_RECONNECT_S
        if self._is_read_only and is_due:
            self._is_read_only, self._reconnected_at = False, time.monotonic()
            raise InvalidatePoolError
        _check_alive(connection)

    async def read(self, query: Callable[[Connection], T]) -> T:
        return await self._use(partial(self._run_transaction, query, self._begin_read))

    async def read_in_background(self, query: Callable[[Connection], T]) -> T:
        return await self.read(query)

    async def write(self, change: Callable[[Connection], T], timeout_s: float | None = None) -> T:
        run = partial(self._run_transaction, change, self._begin_change, commit=True)
        result = await self._use(run, commit=True, timeout_s=timeout_s)
        self._writes += 1
        return result

    async def append(self, to: PreparedInsert, rows: Rows) -> None:
        await self._appends.append(to, rows)

    async def _insert(self, to: PreparedInsert, rows: Rows) -> None:
        sql = to.array_sql or _compile_array_insert(to)
        columns = tuple(list(values) for values in zip(*rows, strict=True))

        async def run(wire: Wire) -> None:
            await wire.execute(sql, columns)

        await self._use(partial(self._run_statement, run), commit=True)

    async def fetch(self, read: PreparedQuery, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        sql, names = read.compile(POSITIONAL_DIALECT)

        async def run(wire: Wire) -> list[tuple[Any, ...]]:
            params = tuple(values[name] for name in names)
            return await (await wire.execute(sql, params)).fetchall()

        return await self._use(partial(self._run_statement, run))

    async def follow_clock(self) -> None:
        await self._use(partial(self._run_statement, _follow_clock))

    async def version(self) -> str:
        return await self.read(
            lambda connection: str(connection.exec_driver_sql("SHOW server_version").scalar_one())
        )

    def stats(self) -> DatabaseStats:
        pool = cast(AsyncAdaptedQueuePool, self._engine.pool)
        return DatabaseStats(
            connections_open=pool.checkedin() + pool.checkedout(),
            connections_in_use=pool.checkedout(),
            writes_waiting=self._waiting + self._appends.waiting,
            commits=self._commits,
            changes=self._writes + self._appends.appended,
        )

    async def close(self) -> None:
        """Reject new work, wait for running work, then close the connections."""
        self._closed = True
        if self._running:
            await asyncio.wait(self._running, timeout=CLOSE_TIMEOUT_S)
        hangs = bool(self._running)
        if hangs:  # do not wait for a server that hangs, and do not let the driver wait
            for wire in self._connections:
                wire.pgconn.finish()
            for work in self._running:
                work.cancel()
        await self._engine.dispose(close=not hangs)

    async def _use(
        self, run: Callable[[], T], *, commit: bool = False, timeout_s: float | None = None
    ) -> T:
        """Run in a greenlet, which takes a connection from the pool.

        Raises Unavailable if the server hangs. The work then continues in the background and keeps
        its connection until the server answers or the database is closed.
        """
        if self._closed:
            raise Unavailable("The service is shutting down.")
        work = asyncio.create_task(self._run(run, commit=commit))
        self._running.add(work)
        work.add_done_callback(self._running.discard)
        try:
            timeout_s = self._answer_timeout_s if timeout_s is None else timeout_s
            done, _ = await asyncio.wait({work}, timeout=timeout_s)
        except asyncio.CancelledError:
            work.cancel()
            raise
        if not done:
            work.add_done_callback(_retrieve_exception)
            raise Unavailable("The database does not answer.")
        return work.result()

    async def _run(self, run: Callable[[], T], *, commit: bool) -> T:
        self._waiting += commit
        try:
            async with self._shares.hold():
                result = await greenlet_spawn(run)
            self._commits += commit
            return result
        except (DBAPIError, PoolTimeout, psycopg.Error, OSError) as error:
            self._is_read_only |= isinstance(
                _find_cause(error), psycopg.errors.ReadOnlySqlTransaction
            )
            if is_damaged(error):
                self._damage.report(error)
            raise translate_error(error) from error
        finally:
            self._waiting -= commit

    def _run_transaction(
        self, query: Callable[[Connection], T], begin: bytes, *, commit: bool = False
    ) -> T:
        with self._engine.sync_engine.connect() as connection:
            _begin(connection, begin)
            result = query(connection)
            if commit:
                connection.commit()
            return result

    def _run_statement(self, run: Callable[[Wire], Coroutine[Any, Any, T]]) -> T:
        """Run one statement, which is a transaction of its own: one round trip instead of three,
        and a third of the CPU time that SQLAlchemy needs for its connection and result."""
        pooled = self._engine.sync_engine.raw_connection()
        wire = cast(Wire, pooled.driver_connection)
        try:
            return await_only(run(wire))
        except (psycopg.Error, asyncio.CancelledError) as error:
            # A cancelled statement may still run.
            if wire.closed or isinstance(error, asyncio.CancelledError):
                pooled.invalidate(error)
            raise
        finally:
            pooled.close()


class PoolShares:
    """Lets no sender use more than `limit` connections of the pool, so that slow queries of one
    project, or changes that wait for the lock of the project, leave connections to others."""

    def __init__(self, limit: int, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._free: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(limit)
        )
        self._users: defaultdict[str, int] = defaultdict(int)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Use a connection for the current sender. Raises Unavailable if others of the same sender
        keep theirs for too long."""
        if not (sender := current_sender.get()):
            yield
            return
        self._users[sender] += 1
        try:
            await self._acquire(self._free[sender])
            try:
                yield
            finally:
                self._free[sender].release()
        finally:
            self._users[sender] -= 1
            if not self._users[sender]:
                del self._users[sender], self._free[sender]

    async def _acquire(self, free: asyncio.Semaphore) -> None:
        try:
            await asyncio.wait_for(free.acquire(), self._timeout_s)
        except TimeoutError:
            raise Unavailable(
                "Too many requests of this project use the database. Send fewer at the same time."
            ) from None


def _begin(connection: Connection, statement: bytes) -> None:
    """Begin a transaction. Not through SQLAlchemy: several statements cannot be prepared."""
    wire = cast(Wire, connection.connection.driver_connection)
    try:
        await_only(wire.execute(statement, prepare=False))
    except psycopg.Error:
        connection.invalidate()
        raise


def _retrieve_exception(work: asyncio.Task[Any]) -> None:
    """Retrieve the exception of an abandoned task, so that asyncio does not log it."""
    if not work.cancelled():
        work.exception()


def _find_cause(error: BaseException) -> BaseException | None:
    """Return the driver's error."""
    return error.orig if isinstance(error, DBAPIError) else error


def is_damaged(error: BaseException) -> bool:
    """Return whether the server cannot read its files."""
    cause = _find_cause(error)
    return isinstance(cause, psycopg.Error) and cause.sqlstate in DAMAGE_STATES


def translate_error(error: BaseException) -> BaseException:
    """Convert a driver error to Unavailable if the database is temporarily unavailable."""
    if isinstance(error, PoolTimeout):
        return Unavailable("All database connections are busy.")
    if isinstance(error, OSError):
        return Unavailable("The database does not answer.")
    if is_damaged(error):
        return Unavailable(DAMAGED)
    cause = _find_cause(error)
    if isinstance(cause, psycopg.errors.ReadOnlySqlTransaction):
        return Unavailable("The database is read-only.")
    if isinstance(cause, psycopg.errors.LockNotAvailable):
        return Unavailable("The database is locked by another process.")
    if isinstance(cause, VALUE_TOO_LARGE_ERRORS):
        return error
    if isinstance(cause, TIME_LIMIT_ERRORS):
        return Unavailable("The database takes too long.")
    if isinstance(cause, psycopg.errors.IdleInTransactionSessionTimeout):
        return Unavailable("The process was interrupted for too long.")
    if isinstance(cause, CONNECTION_ERRORS) or (
        isinstance(error, DBAPIError) and error.connection_invalidated
    ):
        return Unavailable("The database does not answer.")
    return error
