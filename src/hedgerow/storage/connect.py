"""Which engine keeps the state: PostgreSQL when there is an address, SQLite in the data folder
otherwise.
"""

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from hedgerow.storage import postgres, sqlite
from hedgerow.storage.database import Database
from hedgerow.storage.postgres import PostgresDatabase, postgres_engine
from hedgerow.storage.sqlite import SqliteDatabase, sqlite_engine


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


def plain_engine(place: Place) -> Engine:
    """A blocking engine, for migrations and for the CLI's checks."""
    if place.is_sqlite:
        return sqlite_engine(place.path, place.timeout_s)
    return postgres_engine(place.url, place.timeout_s)


def translated(error: BaseException, place: Place) -> BaseException:
    """A driver's error as one of ours, when it means that the database is away for now."""
    return sqlite.translated(error) if place.is_sqlite else postgres.translated(error)


def open_database(place: Place) -> Database:
    """The database for a running event loop."""
    if place.is_sqlite:
        return SqliteDatabase(place.path, place.timeout_s)
    return PostgresDatabase(place.url, place.timeout_s, place.pool_size)
