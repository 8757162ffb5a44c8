"""The state on PostgreSQL: a pool of asynchronous connections; the server does its own group
commit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast
from weakref import WeakSet

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, NullPool

from hedgerow.errors import Unavailable
from hedgerow.storage.database import Append, DatabaseStats, HotRead, Rows, append_sql

T = TypeVar("T")

CLOSE_WAIT_S = 0.5
# Errors that psycopg counts among those of the server: a value is more than it can take.
TOO_MUCH = (
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
    psycopg.errors.TooManyArguments,
)

# The dialect with plain %s placeholders, for rows that go to the driver as they are.
POSITIONAL = PGDialect_psycopg(paramstyle="format")  # type: ignore[no-untyped-call]


def _driver_url(url: str) -> Any:
    return make_url(url).set(drivername="postgresql+psycopg")


def _connect_args(timeout_s: float) -> dict[str, Any]:
    return {
        "connect_timeout": max(1, round(timeout_s)),
        "application_name": "hedgerow",
        "options": f"-c lock_timeout={round(timeout_s * 1000)} -c timezone=UTC",
    }


def postgres_engine(url: str, timeout_s: float) -> Engine:
    """A plain engine for migrations and other work before the event loop runs."""
    return create_engine(
        _driver_url(url), poolclass=NullPool, connect_args=_connect_args(timeout_s)
    )


class PostgresDatabase:
    engine_name = "postgresql"

    def __init__(self, url: str, timeout_s: float, pool_size: int) -> None:
        self._engine = create_async_engine(
            _driver_url(url),
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=timeout_s,
            # A connection that died while idle is noticed before it is used: after a restart of
            # the server no request fails for it.
            pool_pre_ping=True,
            # Errors are logged; what people sent is not.
            hide_parameters=True,
            connect_args=_connect_args(timeout_s),
        )
        self._commits = 0
        self._waiting = 0
        self._closed = False
        # Connecting, a lock and the answer may each take the time that is allowed for one of them.
        self._patience_s = 1.5 * timeout_s
        self._under_way: set[asyncio.Task[Any]] = set()
        # Every open connection, also one that is only being looked at or put back.
        self._wires: WeakSet[psycopg.AsyncConnection[Any]] = WeakSet()
        event.listen(
            self._engine.sync_engine,
            "connect",
            lambda connection, _: self._wires.add(connection.driver_connection),
        )

    async def read(self, query: Callable[[Connection], T]) -> T:
        async def run(connection: AsyncConnection) -> T:
            await connection.execution_options(isolation_level="REPEATABLE READ")
            return await connection.run_sync(query)

        return await self._use(run, commit=False)

    async def read_beside(self, query: Callable[[Connection], T]) -> T:
        return await self.read(query)

    async def write(self, change: Callable[[Connection], T]) -> T:
        return await self._use(lambda connection: connection.run_sync(change), commit=True)

    async def append(self, to: Append, rows: Rows) -> None:
        sql = append_sql(to, POSITIONAL)

        async def run(connection: AsyncConnection) -> None:
            await connection.exec_driver_sql(sql, list(rows))

        await self._use(run, commit=True)

    async def fetch(self, read: HotRead, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        sql, names = read.prepared(POSITIONAL)

        async def run(connection: AsyncConnection) -> list[tuple[Any, ...]]:
            result = await connection.exec_driver_sql(sql, tuple(values[name] for name in names))
            return [tuple(row) for row in result]

        return await self._use(run, commit=False)

    async def version(self) -> str:
        return await self.read(
            lambda connection: str(connection.exec_driver_sql("SHOW server_version").scalar_one())
        )

    def stats(self) -> DatabaseStats:
        pool = cast(AsyncAdaptedQueuePool, self._engine.pool)
        return DatabaseStats(
            connections_open=pool.checkedin() + pool.checkedout(),
            connections_in_use=pool.checkedout(),
            writes_waiting=self._waiting,
            commits=self._commits,
            changes=self._commits,
        )

    async def close(self) -> None:
        """Take nothing new, finish what is under way, then let the connections go."""
        self._closed = True
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=CLOSE_WAIT_S)
        hangs = bool(self._under_way)
        if hangs:  # a server that hangs is not waited for, neither by us nor by the driver
            for wire in self._wires:
                wire.pgconn.finish()
            for work in self._under_way:
                work.cancel()
        await self._engine.dispose(close=not hangs)

    async def _use(self, run: Callable[[AsyncConnection], Awaitable[T]], *, commit: bool) -> T:
        """Run with a connection. A server that hangs is given up on in time: what was asked of it
        goes on alone, holding its connection, until it answers or we close."""
        if self._closed:
            raise Unavailable("The service is shutting down.")
        work = asyncio.create_task(self._run(run, commit=commit))
        self._under_way.add(work)
        work.add_done_callback(self._under_way.discard)
        try:
            done, _ = await asyncio.wait({work}, timeout=self._patience_s)
        except asyncio.CancelledError:
            work.cancel()
            raise
        if not done:
            work.add_done_callback(_forget)
            raise Unavailable("The database does not answer.")
        return work.result()

    async def _run(self, run: Callable[[AsyncConnection], Awaitable[T]], *, commit: bool) -> T:
        self._waiting += commit
        try:
            async with self._engine.connect() as connection:
                result = await run(connection)
                if commit:
                    await connection.commit()
                    self._commits += 1
                return result
        except (DBAPIError, PoolTimeout, psycopg.Error, OSError) as error:
            raise translated(error) from error
        finally:
            self._waiting -= commit


def _forget(work: asyncio.Task[Any]) -> None:
    """Look at the outcome that nobody waits for any more, so that asyncio does not complain."""
    if not work.cancelled():
        work.exception()


def translated(error: BaseException) -> BaseException:
    """A driver's error as one of ours, when it means that the database is away for now."""
    if isinstance(error, PoolTimeout):
        return Unavailable("All database connections are busy.")
    if isinstance(error, OSError):
        return Unavailable("The database does not answer.")
    if isinstance(error, DBAPIError) and isinstance(error.orig, psycopg.errors.LockNotAvailable):
        return Unavailable("The database is locked by another process.")
    if isinstance(error, DBAPIError) and isinstance(error.orig, TOO_MUCH):
        return error
    if isinstance(error, OperationalError | InterfaceError | psycopg.OperationalError) or (
        isinstance(error, DBAPIError) and error.connection_invalidated
    ):
        return Unavailable("The database does not answer.")
    return error
