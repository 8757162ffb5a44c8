"""Statements over many rows, in the fastest form for each engine: PostgreSQL gets all rows in one
JSON document, SQLite gets batches of VALUES.

SQL is written once, with placeholders: `?` for a value, `{texts}` and `{numbers}` for a list passed
as one value, `{rows}` for the rows as a table `r`, `{values}` for the rows of an INSERT, and
`{shared}`, `{locked}` and `{locked_for_deletion}` for row locks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any

import msgspec
from sqlalchemy import Connection, Table

from hedgerow.lib import jsonio

Rows = Sequence[tuple[Any, ...]]

JSON = "jsonb"
MOMENT = "timestamptz"
STATEMENT_ROW_COUNTS = (256, 64, 16, 4, 1)
# SQLite stores timestamps without the offset.
UTC_OFFSET = "+00:00"

_SUBSTITUTIONS = {
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
        "{shared}": "FOR SHARE",
        "{locked}": "FOR NO KEY UPDATE",
        "{locked_for_deletion}": "FOR UPDATE",
    },
}
# Types of the row columns that are not text.
_COLUMN_TYPES = {
    "attempts": "integer",
    "created_at": MOMENT,
    "created_ms": "bigint",
    "due_ms": "bigint",
    "event_id": "bigint",
    "first_seen_at": MOMENT,
    "id": "bigint",
    "is_identified": "boolean",
    "last_seen_at": MOMENT,
    "loser": "bigint",
    "number": "bigint",
    "person_id": "bigint",
    "place": "integer",
    "project_id": "bigint",
    "properties": JSON,
    "record_id": "bigint",
    "survivor": "bigint",
    "type_index": "integer",
    "updated_at": MOMENT,
}


def select(connection: Connection, sql: str, *values: Any) -> Rows:
    """Return the rows of a query. List values fill `{texts}` and `{numbers}`."""
    dialect = connection.dialect.name
    params = tuple(_encode_list(value) if isinstance(value, list) else value for value in values)
    return connection.exec_driver_sql(_render_sql(dialect, sql), params).fetchall()


def execute(connection: Connection, sql: str, *values: Any) -> int:
    """Execute a statement and return the number of changed rows. List values fill `{texts}` and
    `{numbers}`."""
    dialect = connection.dialect.name
    params = tuple(_encode_list(value) if isinstance(value, list) else value for value in values)
    return connection.exec_driver_sql(_render_sql(dialect, sql), params).rowcount


def insert(connection: Connection, table: str, columns: tuple[str, ...], rows: Rows) -> None:
    """Insert rows whose values the driver accepts unchanged, including bytes."""
    into = f"INSERT INTO {table} ({', '.join(columns)})"
    if connection.dialect.name == "postgresql":
        if rows:
            places = f"VALUES ({', '.join(['%s'] * len(columns))})"
            connection.exec_driver_sql(f"{into} {places}", list(rows))
        return
    for part in split_rows(rows):
        rendered = f"{into} {build_values_clause(len(columns), len(part))}"
        connection.exec_driver_sql(rendered, tuple(chain.from_iterable(part)))


def build_event_condition(
    uuids: Sequence[str], distinct_ids: Sequence[str]
) -> tuple[str, list[list[str]]]:
    """Build a condition on the columns `uuid` and `distinct_id`, and its values.

    If both lists are given, both must match. The condition is empty if both lists are.
    """
    lists = {"uuid": list(uuids), "distinct_id": list(distinct_ids)}
    used = {column: values for column, values in lists.items() if values}
    return " AND ".join(f"{column} IN ({{texts}})" for column in used), list(used.values())


def insert_ignoring_conflicts(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert rows, except those that violate a unique constraint."""
    if rows:
        # The engine has imported its dialect; importing the other one slows down every start.
        dialect = import_module(f"sqlalchemy.dialects.{connection.dialect.name}")
        connection.execute(dialect.insert(table).on_conflict_do_nothing(), list(rows))


def execute_many(
    connection: Connection, sql: str, columns: tuple[str, ...], rows: Iterable[Any]
) -> int:
    """Execute a statement over rows with these columns and return the number of changed rows."""
    params = list(rows)
    if not params:
        return 0
    if connection.dialect.name == "postgresql":
        # One JSON document: the driver takes five times as long for arrays.
        rendered = _render_sql("postgresql", sql, columns)
        return connection.exec_driver_sql(rendered, (_encode_rows(columns, params),)).rowcount
    changed = 0
    for part in split_rows(_format_moments(columns, params)):
        rendered = _render_sql("sqlite", sql, columns, len(part))
        changed += connection.exec_driver_sql(rendered, tuple(chain.from_iterable(part))).rowcount
    return changed


def split_rows(rows: Rows) -> Iterator[Rows]:
    """Split rows into batches, one per SQLite statement.

    Every statement releases the GIL and waits to get it back, so a few long statements are faster
    than many short ones. Only a few lengths are used, so that each statement is prepared once.
    """
    start = 0
    for size in STATEMENT_ROW_COUNTS:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size


def build_values_clause(columns: int, rows: int) -> str:
    """Build a VALUES clause with placeholders."""
    row = f"({', '.join('?' * columns)})"
    return f"VALUES {', '.join([row] * rows)}"


def parse_moment(value: Any) -> datetime:
    """Convert a timestamp as the driver returns it."""
    if isinstance(value, str):
        return datetime.fromisoformat(value + UTC_OFFSET)
    assert isinstance(value, datetime)
    return value


@cache
def _render_sql(dialect: str, sql: str, columns: tuple[str, ...] = (), rows: int = 0) -> str:
    for word, rendered in _SUBSTITUTIONS[dialect].items():
        sql = sql.replace(word, rendered)
    if dialect == "postgresql":
        typed = ", ".join(f"{name} {_COLUMN_TYPES.get(name, 'text')}" for name in columns)
        table = f"json_to_recordset(%s::json) AS r ({typed})"
        return sql.replace("{values}", "SELECT * FROM {rows}").replace("{rows}", table)
    # Plain VALUES for INSERT: with a trigger, SQLite would materialize a SELECT first.
    bare = build_values_clause(len(columns), rows)
    named = ", ".join(f"column{index} AS {name}" for index, name in enumerate(columns, 1))
    table = f"(SELECT {named} FROM ({bare})) AS r"  # noqa: S608 - our own names
    return sql.replace("{values}", bare).replace("{rows}", table)


def _encode_list(values: list[Any]) -> str:
    return jsonio.encode(values).decode()


def _encode_rows(columns: tuple[str, ...], rows: Rows) -> str:
    """Encode rows as a JSON array. Columns that already hold JSON are embedded unchanged."""
    is_json = [_COLUMN_TYPES.get(name) == JSON for name in columns]
    return _encode_list(
        [
            {
                name: msgspec.Raw(value.encode()) if is_raw else value
                for name, value, is_raw in zip(columns, row, is_json, strict=True)
            }
            for row in rows
        ]
    )


def _format_moments(columns: tuple[str, ...], rows: Rows) -> Rows:
    """Format timestamps the way SQLAlchemy stores them in SQLite."""
    by_column: list[Any] = list(zip(*rows, strict=True))
    for index, name in enumerate(columns):
        if _COLUMN_TYPES.get(name) == MOMENT:
            by_column[index] = [
                value.astimezone(UTC).isoformat(" ", "microseconds")[: -len(UTC_OFFSET)]
                for value in by_column[index]
            ]
    return list(zip(*by_column, strict=True))
