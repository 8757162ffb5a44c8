"""The state on SQLite: one file, one writer with group commit, reads on the caller's own thread.

A point read takes some ten microseconds, less than handing it to another thread would cost, so
reads run where they are asked for. Another process (the CLI) may use the same file.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from hedgerow.errors import Unavailable
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.storage.database import Append, DatabaseStats, HotRead, Rows
from hedgerow.storage.group_commit import GroupWriter

T = TypeVar("T")

DAMAGED = "The database file is damaged: restore it from a backup."


def sqlite_engine(path: Path, timeout_s: float, *, reads_only: bool = False) -> Engine:
    """An engine whose connections are durable, check foreign keys and leave transactions to us."""
    engine = create_engine(
        f"sqlite:///{path}",
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={"timeout": timeout_s, "check_same_thread": False},
        # Errors are logged; what people sent is not.
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def prepare(driver: sqlite3.Connection, _: Any) -> None:
        driver.execute("PRAGMA journal_mode = WAL")
        driver.execute("PRAGMA synchronous = FULL")
        driver.execute("PRAGMA foreign_keys = ON")
        # SQLite's own knows ASCII only; searches must find "über" by "ÜBER" as on PostgreSQL.
        driver.create_function("lower", 1, _lower, deterministic=True)
        if reads_only:
            driver.execute("PRAGMA query_only = ON")

    return engine


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


class SqliteDatabase:
    engine_name = "sqlite"

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._read_engine = sqlite_engine(path, timeout_s, reads_only=True)
        self._write_engine = sqlite_engine(path, timeout_s)
        self._reader: Connection | None = None
        # The reader's own connection below SQLAlchemy, by the one cursor that hot reads share.
        self._hot_reader: sqlite3.Cursor | None = None
        self._is_shared = False
        self._writer = GroupWriter(self._write_engine.connect, translated)

    async def read(self, query: Callable[[Connection], T]) -> T:
        with self._reading() as reader:
            self._end_view()
            driver = _driver(reader)
            driver.execute("BEGIN")
            try:
                return query(reader)
            finally:
                if driver.in_transaction:
                    driver.execute("ROLLBACK")

    async def read_beside(self, query: Callable[[Connection], T]) -> T:
        def run() -> T:
            with self._read_engine.connect() as connection:
                _driver(connection).execute("BEGIN")
                return query(connection)

        try:
            return await in_daemon_thread(run)
        except (DBAPIError, sqlite3.Error) as error:
            raise translated(error) from error

    async def write(self, change: Callable[[Connection], T]) -> T:
        return cast(T, await self._writer.submit(change=change))

    async def append(self, to: Append, rows: Rows) -> None:
        await self._writer.submit(append=to, rows=rows)

    async def fetch(self, read: HotRead, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        sql, names = read.prepared(self._read_engine.dialect)
        try:
            if self._hot_reader is None:
                self._hot_reader = _driver(self._opened_reader()).cursor()
            if not self._is_shared:
                self._share_view(self._hot_reader)
            return self._hot_reader.execute(sql, [values[name] for name in names]).fetchall()
        except (DBAPIError, sqlite3.Error) as error:
            raise self._dropping_reader(error) from error

    async def version(self) -> str:
        return await self.read(
            lambda connection: str(
                connection.exec_driver_sql("SELECT sqlite_version()").scalar_one()
            )
        )

    def stats(self) -> DatabaseStats:
        return DatabaseStats(
            connections_open=2 if self._reader else 1,
            connections_in_use=1 if self._writer.waiting else 0,
            writes_waiting=self._writer.waiting,
            commits=self._writer.commits,
            changes=self._writer.changes,
        )

    async def close(self) -> None:
        await self._writer.close()
        self._drop_reader()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        """The connection for reads; after an error the next read opens another."""
        try:
            yield self._opened_reader()
        except (DBAPIError, sqlite3.Error) as error:
            raise self._dropping_reader(error) from error

    def _share_view(self, driver: sqlite3.Cursor) -> None:
        """Hot reads of one turn of the loop share a view, which saves each the taking and giving
        back of a lock on the file. Whoever waits for a change to be stored goes on in a later
        turn, so they see it."""
        driver.execute("BEGIN")
        self._is_shared = True
        asyncio.get_running_loop().call_soon(self._end_view)

    def _end_view(self) -> None:
        if self._is_shared:
            self._is_shared = False
            try:
                if self._hot_reader is not None:
                    self._hot_reader.execute("ROLLBACK")
            except sqlite3.Error:
                self._drop_reader()

    def _opened_reader(self) -> Connection:
        if self._reader is None:
            self._reader = self._read_engine.connect()
        return self._reader

    def _dropping_reader(self, error: BaseException) -> BaseException:
        self._drop_reader()
        return translated(error)

    def _drop_reader(self) -> None:
        self._hot_reader, self._is_shared = None, False
        if self._reader is not None:
            with contextlib.suppress(DBAPIError, sqlite3.Error):
                self._reader.invalidate()
                self._reader.close()
            self._reader = None


def _driver(connection: Connection) -> sqlite3.Connection:
    return cast(sqlite3.Connection, connection.connection.dbapi_connection)


def translated(error: BaseException) -> BaseException:
    """A driver's error as one of ours, when it means that the database is away for now."""
    reason = {
        "SQLITE_BUSY": "The database is locked by another process.",
        "SQLITE_LOCKED": "The database is locked by another process.",
        "SQLITE_FULL": "The disk is full: nothing can be stored until there is room.",
        "SQLITE_READONLY": "The database cannot be written: its file or folder is read-only.",
        "SQLITE_CANTOPEN": "The database file cannot be opened.",
        "SQLITE_IOERR": "The disk does not answer as it should.",
        "SQLITE_CORRUPT": DAMAGED,
        "SQLITE_NOTADB": DAMAGED,
    }.get(_error_name(error))
    return Unavailable(reason) if reason else error


def is_damaged(error: BaseException) -> bool:
    return _error_name(error) in ("SQLITE_CORRUPT", "SQLITE_NOTADB")


def _error_name(error: BaseException) -> str:
    """SQLite's own name for what went wrong, without the finer distinctions."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return "_".join(getattr(cause, "sqlite_errorname", "").split("_")[:2])
