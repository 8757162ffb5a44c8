"""Which engine keeps the state: PostgreSQL when there is an address, SQLite in the data folder
otherwise. And which keeps the events: a ClickHouse server, or chDB in a folder.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

from hedgerow.storage import sqlite
from hedgerow.storage.database import Database
from hedgerow.storage.folder_lock import CHDB_FOLDER, FolderLock, lock_folder
from hedgerow.storage.sqlite import SqliteDatabase, sqlite_engine

if TYPE_CHECKING:
    from hedgerow.storage.events import EventRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the state is kept. `url` is empty for SQLite."""

    url: str
    path: Path
    timeout_s: float
    pool_size: int = 10

    @property
    def is_sqlite(self) -> bool:
        return not self.url


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPlace:
    """Where events are kept. `url` is empty for chDB."""

    url: str
    folder: Path
    timeout_s: float


def plain_engine(place: Place) -> Engine:
    """A blocking engine, for migrations and for the CLI's checks."""
    if place.is_sqlite:
        return sqlite_engine(place.path, place.timeout_s)
    engine: Engine = _postgres().postgres_engine(place.url, place.timeout_s)
    return engine


def translated(error: BaseException, place: Place) -> BaseException:
    """A driver's error as one of ours, when it means that the database is away for now."""
    if place.is_sqlite:
        return sqlite.translated(error)
    ours: BaseException = _postgres().translated(error)
    return ours


def open_database(place: Place) -> Database:
    """The database for a running event loop."""
    if place.is_sqlite:
        return SqliteDatabase(place.path, place.timeout_s)
    database: Database = _postgres().PostgresDatabase(place.url, place.timeout_s, place.pool_size)
    return database


def _postgres() -> Any:
    """Loaded by whoever has an address: on SQLite no verb waits for PostgreSQL's driver."""
    return import_module("hedgerow.storage.postgres")


def lock_events(place: EventPlace) -> FolderLock | None:
    """Keep other processes from the events before they are opened. A server needs no such lock."""
    return None if place.url else lock_folder(place.folder)


def may_hold_events(place: EventPlace) -> bool:
    """False only where nobody has ever stored an event."""
    return bool(place.url) or (place.folder / CHDB_FOLDER).is_dir()


def open_events(place: EventPlace, lock: FolderLock | None = None) -> "EventRecords":
    """The event store for a running event loop. Opening chDB takes a second, and its import moves
    the process to another folder and back: do it before anything else runs."""
    # Loaded by whoever opens it: chDB alone takes half a second and a quarter of a gigabyte.
    events = import_module("hedgerow.storage.events")
    if place.url:
        server = import_module("hedgerow.storage.clickhouse")
        engine = server.connect_server(place.url, place.timeout_s)
    else:
        engine = import_module("hedgerow.storage.chdb").open_chdb(place.folder, lock)
    records: EventRecords = events.EventRecords(engine)
    return records
