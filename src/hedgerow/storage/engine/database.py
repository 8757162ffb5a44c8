"""The interface of the state database, implemented for SQLite and PostgreSQL.

SQL is written once, as plain functions of a SQLAlchemy connection. The database runs them: reads
against one consistent snapshot, changes in one transaction. `append` is the fast path of capture:
rows of many callers share one statement and one commit.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, Dialect, Select, Table, TextClause, exists, select
from sqlalchemy.sql.compiler import SQLCompiler

T = TypeVar("T")
Rows = Sequence[tuple[Any, ...]]

# Unlike the monotonic clock it runs on while the machine sleeps. Not on every system.
_ELAPSED_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def read_elapsed_s() -> float:
    """Return seconds since a fixed moment, however the clock of the machine is set."""
    return time.clock_gettime(_ELAPSED_CLOCK)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedInsert:
    """An insert that is compiled once: a table and the columns that its rows provide. `array_sql`
    is for PostgreSQL: a statement that inserts rows into several tables, from one array per
    column."""

    table: Table
    columns: tuple[str, ...]
    array_sql: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseStats:
    """Figures for the metrics endpoint."""

    connections_open: int
    connections_in_use: int
    writes_waiting: int
    commits: int
    changes: int


class PreparedQuery:
    """A select that is compiled once per dialect."""

    def __init__(self, statement: Select[Any] | TextClause) -> None:
        self.statement = statement
        self._compiled: dict[str, tuple[str, tuple[str, ...]]] = {}

    def compile(self, dialect: Dialect) -> tuple[str, tuple[str, ...]]:
        """Return the driver's SQL and the parameter names in the order of its placeholders."""
        found = self._compiled.get(dialect.name)
        if found is None:
            compiled = self.statement.compile(dialect=dialect)
            assert isinstance(compiled, SQLCompiler)
            found = str(compiled), tuple(compiled.positiontup or ())
            self._compiled[dialect.name] = found
        return found


class AnyRow:
    """Whether any row fulfils a condition without parameters. Tasks that look for work each second
    ask it first: it takes a twentieth of the time of a statement that SQLAlchemy builds."""

    def __init__(self, condition: ColumnElement[bool]) -> None:
        self._exists = PreparedQuery(select(exists().where(condition)))

    async def is_in(self, database: "Database") -> bool:
        [(found,)] = await database.fetch(self._exists, {})
        return bool(found)


class Database(Protocol):
    engine_name: str

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run `query` against one consistent snapshot. It must not write."""
        ...

    async def read_in_background(self, query: Callable[[Connection], T]) -> T:
        """Like `read`, for slow queries: other requests do not wait for it."""
        ...

    async def write(self, change: Callable[[Connection], T], timeout_s: float | None = None) -> T:
        """Run `change` in its own transaction; durable when this returns. `timeout_s` is for a
        change of many rows, which may take longer than others.

        `change` runs again if a shared commit failed because of another caller, so it must have no
        side effects outside the database.
        """
        ...

    async def append(self, to: PreparedInsert, rows: Rows) -> None:
        """Insert all rows or none; durable when this returns."""
        ...

    async def fetch(self, read: PreparedQuery, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a prepared query, without SQLAlchemy's overhead.

        For queries that nearly every request runs. JSON columns may come back as text.
        """
        ...

    async def follow_clock(self) -> None:
        """Compare the clock of this process with that of the database, and take over the latter.
        SQLite has none."""
        ...

    async def version(self) -> str:
        """Ask the engine for its version. Also checks that the engine is reachable."""
        ...

    def stats(self) -> DatabaseStats: ...

    async def close(self) -> None: ...
