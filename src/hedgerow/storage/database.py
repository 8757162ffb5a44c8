"""What a state database does for the SQL files of this folder, whichever engine it is.

SQL is written once, as plain functions of a SQLAlchemy connection. A database runs them: reads
against one consistent view, changes in one transaction. `append` is the hot way in: rows of many
callers, one statement, one commit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Dialect, Select, Table, insert
from sqlalchemy.sql.compiler import SQLCompiler

T = TypeVar("T")
Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Append:
    """An insert that is worth preparing once: a table and the columns whose values rows bring."""

    table: Table
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseStats:
    """What the metrics page shows of a database."""

    connections_open: int
    connections_in_use: int
    writes_waiting: int
    commits: int
    changes: int


class HotRead:
    """A select that is worth preparing once."""

    def __init__(self, statement: Select[Any]) -> None:
        self._statement = statement
        self._prepared: dict[str, tuple[str, tuple[str, ...]]] = {}

    def prepared(self, dialect: Dialect) -> tuple[str, tuple[str, ...]]:
        """The driver's own text, and the names of the values in the order of its placeholders."""
        found = self._prepared.get(dialect.name)
        if found is None:
            compiled = self._statement.compile(dialect=dialect)
            assert isinstance(compiled, SQLCompiler)
            found = str(compiled), tuple(compiled.positiontup or ())
            self._prepared[dialect.name] = found
        return found


class Database(Protocol):
    engine_name: str

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run `query` against one consistent view. It must not write."""
        ...

    async def read_beside(self, query: Callable[[Connection], T]) -> T:
        """The same for what takes long: whoever waits for something else does not wait for it."""
        ...

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Run `change` in a transaction of its own; durable when this returns.

        It may be run again if a commit that it shared failed because of somebody else, so it must
        do nothing but talk to the database.
        """
        ...

    async def append(self, to: Append, rows: Rows) -> None:
        """Add rows; durable when this returns. All of `rows` or none."""
        ...

    async def fetch(self, read: HotRead, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of a statement that is asked for with nearly every request, by the driver's
        shortest way: JSON may come as text."""
        ...

    async def version(self) -> str:
        """The engine's version, asked of the engine: also tells whether it is there."""
        ...

    def stats(self) -> DatabaseStats: ...

    async def close(self) -> None: ...


@cache
def append_sql(to: Append, dialect: Dialect) -> str:
    """The driver's own text of an append, with one positional placeholder for each column."""
    return str(insert(to.table).compile(dialect=dialect, column_keys=list(to.columns)))
