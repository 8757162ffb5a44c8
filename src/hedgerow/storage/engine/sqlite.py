"""The state database on SQLite: one file, one writer with group commit, reads on the event loop.

A point read takes about ten microseconds, less than passing it to another thread. Another process
(the CLI) may use the same file.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from hedgerow.errors import Unavailable
from hedgerow.lib.threads import run_in_thread
from hedgerow.storage.engine.batch_writer import BatchWriter
from hedgerow.storage.engine.damage import DamageReport
from hedgerow.storage.engine.database import (
    Database,
    DatabaseStats,
    PreparedInsert,
    PreparedQuery,
    Rows,
)

T = TypeVar("T")

DAMAGED = "The database file is damaged: restore it from a backup."
REPLACED = "The database file was replaced or removed while the service runs: restart the service."


class FileIdentity:
    """Detects that a file was replaced or removed. Open connections would go on with the old one,
    so that everything they store is lost when they close."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None

    def remember(self) -> None:
        """Remember the file, unless an earlier one is remembered."""
        self._identity = self._identity or self._read()

    def check(self) -> None:
        """Raise Unavailable if the path leads to another file than at first."""
        if self._identity is not None and self._read() != self._identity:
            raise Unavailable(REPLACED)

    def _read(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        except OSError:  # says nothing about which file it is
            return self._identity
        return found.st_dev, found.st_ino


def create_sqlite_engine(
    path: Path,
    timeout_s: float,
    *,
    reads_only: bool = False,
    identity: FileIdentity | None = None,
) -> Engine:
    """Create an engine whose connections are durable, check foreign keys and autocommit. With an
    `identity`, all of them use the same file."""
    file = identity or FileIdentity(path)
    engine = create_engine(
        f"sqlite:///{path}",
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={"timeout": timeout_s, "check_same_thread": False},
        # Errors are logged, parameter values must not be.
        hide_parameters=True,
    )

    @event.listens_for(engine, "do_connect")
    def check(*_: Any) -> None:  # connecting would create a file that is missing
        file.check()

    @event.listens_for(engine, "connect")
    def prepare(driver: sqlite3.Connection, _: Any) -> None:
        driver.execute("PRAGMA journal_mode = WAL")
        file.remember()
        driver.execute("PRAGMA synchronous = FULL")
        driver.execute("PRAGMA foreign_keys = ON")
        # Deleted rows are overwritten; the pages that become free, by storage.engine.free_pages.
        driver.execute("PRAGMA secure_delete = FAST")
        # SQLite's `lower` handles ASCII only. "ÜBER" must match "über" as on PostgreSQL.
        driver.create_function("lower", 1, _lower, deterministic=True)
        if reads_only:
            driver.execute("PRAGMA query_only = ON")

    return engine


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


class SqliteDatabase(Database):
    engine_name = "sqlite"

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._file = FileIdentity(path)
        self._read_engine = create_sqlite_engine(
            path, timeout_s, reads_only=True, identity=self._file
        )
        self._write_engine = create_sqlite_engine(path, timeout_s, identity=self._file)
        self._reader: Connection | None = None
        # The cursor that all prepared queries share, on the reader's driver connection.
        self._query_cursor: sqlite3.Cursor | None = None
        self._has_snapshot = False
        self._damage = DamageReport()
        self._writer = BatchWriter(self._write_engine.connect, self._translate, self._file.check)

    async def read(self, query: Callable[[Connection], T]) -> T:
        self._file.check()
        with self._use_reader() as reader:
            self._end_snapshot()
            driver = _get_driver(reader)
            driver.execute("BEGIN")
            try:
                return query(reader)
            finally:
                if driver.in_transaction:
                    driver.execute("ROLLBACK")

    async def read_in_background(self, query: Callable[[Connection], T]) -> T:
        def run() -> T:
            with self._read_engine.connect() as connection:
                _get_driver(connection).execute("BEGIN")
                return query(connection)

        try:
            return await run_in_thread(run)
        except (DBAPIError, sqlite3.Error) as error:
            raise translate_error(error) from error

    async def write(self, change: Callable[[Connection], T], timeout_s: float | None = None) -> T:
        return cast(T, await self._writer.submit(change=change))

    async def append(self, to: PreparedInsert, rows: Rows) -> None:
        await self._writer.submit(append=to, rows=rows)

    async def fetch(self, read: PreparedQuery, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        sql, names = read.compile(self._read_engine.dialect)
        try:
            if self._query_cursor is None:
                self._query_cursor = _get_driver(self._get_reader()).cursor()
            if not self._has_snapshot:
                self._begin_snapshot(self._query_cursor)
            return self._query_cursor.execute(sql, [values[name] for name in names]).fetchall()
        except (DBAPIError, sqlite3.Error) as error:
            raise self._drop_reader_after(error) from error

    async def follow_clock(self) -> None:
        """Do nothing: the clock of the machine is that of its only process."""

    async def version(self) -> str:
        return await self.read(
            lambda connection: str(
                connection.exec_driver_sql("SELECT sqlite_version()").scalar_one()
            )
        )

    def stats(self) -> DatabaseStats:
        return DatabaseStats(
            connections_open=2 if self._reader else 1,
            connections_in_use=1 if self._writer.queue_size else 0,
            writes_waiting=self._writer.queue_size,
            commits=self._writer.commits,
            changes=self._writer.changes,
        )

    async def close(self) -> None:
        await self._writer.close()
        self._drop_reader()

    @contextlib.contextmanager
    def _use_reader(self) -> Iterator[Connection]:
        """Yield the connection for reads. After an error the next read opens a new one."""
        try:
            yield self._get_reader()
        except (DBAPIError, sqlite3.Error) as error:
            raise self._drop_reader_after(error) from error

    def _begin_snapshot(self, driver: sqlite3.Cursor) -> None:
        """Begin a snapshot that all prepared queries of this event loop iteration share.

        It saves locking the file for each query. A caller that awaits a write continues in a later
        iteration, so it sees the write.
        """
        driver.execute("BEGIN")
        self._has_snapshot = True
        asyncio.get_running_loop().call_soon(self._end_snapshot)

    def _end_snapshot(self) -> None:
        if self._has_snapshot:
            self._has_snapshot = False
            try:
                if self._query_cursor is not None:
                    self._query_cursor.execute("ROLLBACK")
            except sqlite3.Error:
                self._drop_reader()

    def _get_reader(self) -> Connection:
        if self._reader is None:
            self._reader = self._read_engine.connect()
        return self._reader

    def _drop_reader_after(self, error: BaseException) -> BaseException:
        self._drop_reader()
        return self._translate(error)

    def _translate(self, error: BaseException) -> BaseException:
        if is_damaged(error):
            self._damage.report(error)
        return translate_error(error)

    def _drop_reader(self) -> None:
        self._query_cursor, self._has_snapshot = None, False
        if self._reader is not None:
            with contextlib.suppress(DBAPIError, sqlite3.Error):
                self._reader.invalidate()
                self._reader.close()
            self._reader = None


def _get_driver(connection: Connection) -> sqlite3.Connection:
    return cast(sqlite3.Connection, connection.connection.dbapi_connection)


def translate_error(error: BaseException) -> BaseException:
    """Convert a driver error to Unavailable if the database is temporarily unavailable."""
    reason = {
        "SQLITE_BUSY": "The database is locked by another process.",
        "SQLITE_LOCKED": "The database is locked by another process.",
        "SQLITE_FULL": "The disk is full: nothing can be stored until space is freed.",
        "SQLITE_READONLY": "The database cannot be written: its file or folder is read-only.",
        "SQLITE_CANTOPEN": "The database file cannot be opened.",
        "SQLITE_IOERR": "Reading or writing the database file failed: check the disk.",
        "SQLITE_CORRUPT": DAMAGED,
        "SQLITE_NOTADB": DAMAGED,
    }.get(_get_error_name(error))
    return Unavailable(reason) if reason else error


def is_damaged(error: BaseException) -> bool:
    return _get_error_name(error) in ("SQLITE_CORRUPT", "SQLITE_NOTADB")


def _get_error_name(error: BaseException) -> str:
    """Return SQLite's primary error name, such as SQLITE_BUSY."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return "_".join(getattr(cause, "sqlite_errorname", "").split("_")[:2])
