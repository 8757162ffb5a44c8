"""Statements over many rows, by each engine's shortest way: PostgreSQL gets all rows in one
document, SQLite as many values as there are, some rows at a time.

SQL is written once, with these words: `?` for a value, `{texts}` and `{numbers}` for a list that is
one value, `{rows}` for the rows, as a table `r`, `{values}` for the rows of an INSERT as they are,
and for locks `{shared}`, `{locked}` and `{locked_for_deletion}`.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from typing import Any

import msgspec
from sqlalchemy import Connection

from hedgerow.lib import jsonio

Rows = Sequence[tuple[Any, ...]]

JSON = "jsonb"
MOMENT = "timestamptz"
STATEMENT_ROWS = (64, 16, 4, 1)
# SQLite keeps moments without it.
ZONE = "+00:00"

_WORDS = {
    "sqlite": {
        "{texts}": "SELECT value FROM json_each(?)",
        "{numbers}": "SELECT value FROM json_each(?)",
        "{shared}": "",
        "{locked}": "",
        "{locked_for_deletion}": "",
    },
    "postgresql": {
        "?": "%s",
        "{texts}": "SELECT json_array_elements_text(%s::json)",
        "{numbers}": "SELECT json_array_elements_text(%s::json)::bigint",
        "{shared}": "FOR KEY SHARE",
        "{locked}": "FOR NO KEY UPDATE",
        "{locked_for_deletion}": "FOR UPDATE",
    },
}
# Of the columns of rows, those that are not text.
_TYPES = {
    "attempts": "integer",
    "created_at": MOMENT,
    "due_ms": "bigint",
    "id": "bigint",
    "is_identified": "boolean",
    "loser": "bigint",
    "number": "bigint",
    "person_id": "bigint",
    "place": "integer",
    "project_id": "bigint",
    "properties": JSON,
    "survivor": "bigint",
    "type_index": "integer",
    "updated_at": MOMENT,
}


def select(connection: Connection, sql: str, *values: Any) -> Rows:
    """The rows of a query. A value that is a list goes where the list stands."""
    dialect = connection.dialect.name
    given = tuple(_list(value) if isinstance(value, list) else value for value in values)
    return connection.exec_driver_sql(_said(dialect, sql), given).fetchall()


def change(connection: Connection, sql: str, *values: Any) -> int:
    """Run a statement; how many rows it changed. A value that is a list goes where the list
    stands."""
    dialect = connection.dialect.name
    given = tuple(_list(value) if isinstance(value, list) else value for value in values)
    return connection.exec_driver_sql(_said(dialect, sql), given).rowcount


def insert(connection: Connection, table: str, columns: tuple[str, ...], rows: Rows) -> None:
    """Add rows whose values the driver takes as they are, bytes too."""
    into = f"INSERT INTO {table} ({', '.join(columns)})"
    if connection.dialect.name == "postgresql":
        if rows:
            places = f"VALUES ({', '.join(['%s'] * len(columns))})"
            connection.exec_driver_sql(f"{into} {places}", list(rows))
        return
    for part in parts(rows):
        said = f"{into} {values(len(columns), len(part))}"
        connection.exec_driver_sql(said, tuple(chain.from_iterable(part)))


def run(connection: Connection, sql: str, columns: tuple[str, ...], rows: Iterable[Any]) -> int:
    """Run a statement over rows with these columns; how many rows it changed."""
    given = list(rows)
    if not given:
        return 0
    if connection.dialect.name == "postgresql":
        # As one document: the driver takes five times as long over arrays.
        said = _said("postgresql", sql, columns)
        return connection.exec_driver_sql(said, (_document(columns, given),)).rowcount
    changed = 0
    for part in parts(_stored_rows(columns, given)):
        said = _said("sqlite", sql, columns, len(part))
        changed += connection.exec_driver_sql(said, tuple(chain.from_iterable(part))).rowcount
    return changed


def parts(rows: Rows) -> Iterator[Rows]:
    """Rows for one statement of SQLite each. Every statement lets other threads run and has to wait
    for its turn afterwards, so few long ones are faster than many short ones; with only some
    lengths, each is prepared once."""
    start = 0
    for size in STATEMENT_ROWS:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size


def values(columns: int, rows: int) -> str:
    """Places for the values of so many rows."""
    row = f"({', '.join('?' * columns)})"
    return f"VALUES {', '.join([row] * rows)}"


def moment(value: Any) -> datetime:
    """A moment as the driver gives it."""
    if isinstance(value, str):
        return datetime.fromisoformat(value + ZONE)
    assert isinstance(value, datetime)
    return value


@cache
def _said(dialect: str, sql: str, columns: tuple[str, ...] = (), rows: int = 0) -> str:
    for word, said in _WORDS[dialect].items():
        sql = sql.replace(word, said)
    if dialect == "postgresql":
        typed = ", ".join(f"{name} {_TYPES.get(name, 'text')}" for name in columns)
        table = f"json_to_recordset(%s::json) AS r ({typed})"
        return sql.replace("{values}", "SELECT * FROM {rows}").replace("{rows}", table)
    # Where a trigger follows, SQLite would make a table of what it selects, not of bare values.
    bare = values(len(columns), rows)
    named = ", ".join(f"column{place} AS {name}" for place, name in enumerate(columns, 1))
    table = f"(SELECT {named} FROM ({bare})) AS r"  # noqa: S608 - names of ours
    return sql.replace("{values}", bare).replace("{rows}", table)


def _list(values: list[Any]) -> str:
    return jsonio.encode(values).decode()


def _document(columns: tuple[str, ...], rows: Rows) -> str:
    """Rows as JSON; what is JSON in them already stays as it is."""
    is_json = [_TYPES.get(name) == JSON for name in columns]
    return _list(
        [
            {
                name: msgspec.Raw(value.encode()) if is_raw else value
                for name, value, is_raw in zip(columns, row, is_json, strict=True)
            }
            for row in rows
        ]
    )


def _stored_rows(columns: tuple[str, ...], rows: Rows) -> Rows:
    """Rows with moments as SQLAlchemy writes them on SQLite."""
    by_column: list[Any] = list(zip(*rows, strict=True))
    for place, name in enumerate(columns):
        if _TYPES.get(name) == MOMENT:
            by_column[place] = [
                value.astimezone(UTC).isoformat(" ", "microseconds")[: -len(ZONE)]
                for value in by_column[place]
            ]
    return list(zip(*by_column, strict=True))
