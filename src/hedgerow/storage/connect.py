"""Open the state database and the event store.

State lives in PostgreSQL if a URL is configured, otherwise in SQLite in the data directory. Events
live on a ClickHouse server if a URL is configured, otherwise in chDB in the data directory.
"""

import sqlite3
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

from hedgerow.errors import OperatorError
from hedgerow.lib.optional_packages import MissingPackage, import_package, is_installed
from hedgerow.storage.engine import sqlite
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.sqlite import SqliteDatabase, create_sqlite_engine
from hedgerow.storage.events.folder_lock import CHDB_FOLDER, FolderLock, lock_folder
from hedgerow.storage.persons.scan_source import ScanSource

if TYPE_CHECKING:
    from hedgerow.storage.events.events import ClickHouseEventStore


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLocation:
    """Location of the state database. `url` is empty for SQLite."""

    url: str
    path: Path
    timeout_s: float
    pool_size: int = 10

    @property
    def is_sqlite(self) -> bool:
        return not self.url


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStoreLocation:
    """Location of the event store. `url` is empty for chDB."""

    url: str
    folder: Path
    timeout_s: float


def create_sync_engine(location: DatabaseLocation) -> Engine:
    """Create a blocking engine, for migrations and for the CLI's checks."""
    if location.is_sqlite:
        return create_sqlite_engine(location.path, location.timeout_s)
    engine: Engine = _import_postgres().create_postgres_engine(location.url, location.timeout_s)
    return engine


def translate_error(error: BaseException, location: DatabaseLocation) -> BaseException:
    """Convert a driver error to Unavailable if the database is temporarily unavailable."""
    if location.is_sqlite:
        return sqlite.translate_error(error)
    translated: BaseException = _import_postgres().translate_error(error)
    return translated


def list_driver_errors(location: DatabaseLocation) -> tuple[type[Exception], ...]:
    """Return the errors that `translate_error` accepts."""
    if location.is_sqlite:
        return (sqlite3.Error,)
    return (_import_postgres().psycopg.Error, OSError)


def build_scan_source(location: DatabaseLocation, scan_s: float) -> ScanSource:
    """Say how a worker process reads the database, for up to `scan_s` seconds."""
    if location.is_sqlite:
        return ScanSource(sqlite_path=location.path)
    arguments, begin = _import_postgres().build_scan_connection(
        location.url, location.timeout_s, scan_s
    )
    return ScanSource(sqlite_path=location.path, postgres_arguments=arguments, postgres_begin=begin)


def open_database(location: DatabaseLocation) -> Database:
    """Open the database. Call this with a running event loop."""
    if location.is_sqlite:
        return SqliteDatabase(location.path, location.timeout_s)
    database: Database = _import_postgres().PostgresDatabase(
        location.url, location.timeout_s, location.pool_size
    )
    return database


def build_change_listener(location: DatabaseLocation) -> Any:
    """Return what waits for changes of other processes; None on SQLite, which cannot notify."""
    if location.is_sqlite:
        return None
    module = import_package("hedgerow.storage.engine.change_listener")
    return module.ChangeListener(location.url, location.timeout_s)


def _import_postgres() -> Any:
    """Import the driver on demand, so that commands on SQLite do not wait for it."""
    return import_package("hedgerow.storage.engine.postgres")


def lock_event_store(location: EventStoreLocation) -> FolderLock | None:
    """Lock the chDB folder before opening it. A ClickHouse server needs no lock."""
    return None if location.url else lock_folder(location.folder)


def has_event_store(location: EventStoreLocation) -> bool:
    """Return False only if no event was ever stored here."""
    return bool(location.url) or (location.folder / CHDB_FOLDER).is_dir()


def describe_missing_packages(location: EventStoreLocation) -> str | None:
    """Say what to install so that the event store can be opened, None if nothing is missing."""
    if location.url:
        return (
            None
            if is_installed("clickhouse_connect")
            else str(MissingPackage("clickhouse_connect"))
        )
    if all(map(is_installed, ("chdb", "clickhouse_connect", "numpy"))):
        return None
    return f"{MissingPackage('chdb')} Or use a ClickHouse server: set HEDGEROW_CLICKHOUSE_URL."


def open_event_store(
    location: EventStoreLocation, lock: FolderLock | None = None
) -> "ClickHouseEventStore":
    """Open the event store. Call this with a running event loop.

    Opening chDB takes about a second, and its import temporarily changes the working directory of
    the process: do it before other threads run.
    """
    if missing := describe_missing_packages(location):
        raise OperatorError(missing)
    # Imported on demand: chDB alone takes half a second and 250 MB of memory.
    events = import_module("hedgerow.storage.events.events")
    if location.url:
        server = import_module("hedgerow.storage.events.clickhouse")
        pool = server.connect_server(location.url, location.timeout_s)
    else:
        pool = import_module("hedgerow.storage.events.embedded.chdb").open_chdb(
            location.folder, lock
        )
    store: ClickHouseEventStore = events.ClickHouseEventStore(pool)
    return store
