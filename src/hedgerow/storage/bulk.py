"""Statements over many rows, by each engine's shortest way: PostgreSQL gets all rows in one
statement, SQLite one after another with no way between.

SQL is written once, with these words: `?` for a value, `{texts}` and `{numbers}` for a list that is
one value, `{rows}` for the rows, as a table `r`, and `{locked}` and `{locked_for_deletion}`.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection

from hedgerow.kit import jsonio

Rows = Sequence[tuple[Any, ...]]

MOMENT = "timestamptz"
# SQLite keeps moments without it.
ZONE = "+00:00"

_WORDS = {
    "sqlite": {
        "{texts}": "SELECT value FROM json_each(?)",
        "{numbers}": "SELECT value FROM json_each(?)",
        "{locked}": "",
        "{locked_for_deletion}": "",
    },
    "postgresql": {
        "?": "%s",
        "{texts}": "SELECT unnest(%s::text[])",
        "{numbers}": "SELECT unnest(%s::bigint[])",
        "{locked}": "FOR NO KEY UPDATE",
        "{locked_for_deletion}": "FOR UPDATE",
    },
}
# Of the columns of rows, those that are not text.
_TYPES = {
    "created_at": MOMENT,
    "id": "bigint",
    "is_identified": "boolean",
    "loser": "bigint",
    "person_id": "bigint",
    "place": "integer",
    "project_id": "bigint",
    "properties": "jsonb",
    "survivor": "bigint",
    "type_index": "integer",
    "updated_at": MOMENT,
}


def select(connection: Connection, sql: str, *values: Any) -> Rows:
    """The rows of a query. A value that is a list goes where the list stands."""
    dialect = connection.dialect.name
    given = tuple(_list(dialect, value) if isinstance(value, list) else value for value in values)
    return connection.exec_driver_sql(_said(dialect, sql), given).fetchall()


def run(connection: Connection, sql: str, columns: tuple[str, ...], rows: Iterable[Any]) -> int:
    """Run a statement over rows with these columns; how many rows it changed."""
    given = list(rows)
    if not given:
        return 0
    dialect = connection.dialect.name
    said = _said(dialect, sql, columns)
    by_column = [list(column) for column in zip(*given, strict=True)]
    if dialect == "postgresql":
        return connection.exec_driver_sql(said, tuple(by_column)).rowcount
    for place, name in enumerate(columns):
        if _TYPES.get(name) == MOMENT:
            by_column[place] = [_stored(value) for value in by_column[place]]
    return connection.exec_driver_sql(said, list(zip(*by_column, strict=True))).rowcount


def moment(value: Any) -> datetime:
    """A moment as the driver gives it."""
    if isinstance(value, str):
        return datetime.fromisoformat(value + ZONE)
    assert isinstance(value, datetime)
    return value


@cache
def _said(dialect: str, sql: str, columns: tuple[str, ...] = ()) -> str:
    for word, said in _WORDS[dialect].items():
        sql = sql.replace(word, said)
    return sql.replace("{rows}", _table(dialect, columns))


def _table(dialect: str, columns: tuple[str, ...]) -> str:
    if dialect == "postgresql":
        arrays = ", ".join(f"%s::{_TYPES.get(name, 'text')}[]" for name in columns)
        return f"unnest({arrays}) AS r ({', '.join(columns)})"
    return f"(SELECT {', '.join(f'? AS {name}' for name in columns)}) AS r"


def _list(dialect: str, values: list[Any]) -> Any:
    return values if dialect == "postgresql" else jsonio.encode(values).decode()


def _stored(value: datetime) -> str:
    """A moment as SQLAlchemy writes it on SQLite."""
    return value.astimezone(UTC).isoformat(" ", "microseconds")[: -len(ZONE)]
