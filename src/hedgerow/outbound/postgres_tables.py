"""Inserts events into tables of user-configured PostgreSQL servers, each event at most once."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hedgerow.events.model import Event
from hedgerow.lib.optional_packages import LazyPackage
from hedgerow.outbound.postgres import Connection, PostgresClient
from hedgerow.plugin.delivery import InsertResult, TableTarget, TableWriter
from hedgerow.plugin.http import TransportError

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
else:
    psycopg, sql = LazyPackage("psycopg"), LazyPackage("psycopg.sql")

INSERT_TIMEOUT_S = 30.0

COLUMNS = {
    "project_id": "bigint NOT NULL",
    "uuid": "uuid NOT NULL",
    "event": "text NOT NULL",
    "distinct_id": "text NOT NULL",
    "timestamp": "timestamptz NOT NULL",
    "created_at": "timestamptz NOT NULL",
    "properties": "jsonb NOT NULL",
    "elements_chain": "text NOT NULL",
    "person_id": "text NOT NULL",
    "person_properties": "jsonb NOT NULL",
}
KEY = ("project_id", "uuid")

# What to do about an error, by the name of its class.
ADVICE = {
    "InsufficientPrivilege": "Grant the user USAGE on the schema and INSERT on the "
    "table, or CREATE if the table does not exist.",
    "InvalidSchemaName": "Create the schema, or check its name.",
    "UndefinedColumn": "Add the column to the table, or choose another table.",
    "InvalidColumnReference": "The table needs a unique index on project_id and uuid.",
    "ReadOnlySqlTransaction": "Configure the primary server, which accepts writes.",
}


class PostgresTables(TableWriter):
    def __init__(self, databases: PostgresClient) -> None:
        self._databases = databases

    async def insert(self, target: TableTarget, events: Sequence[Event]) -> InsertResult:
        statement = _build_insert(target)
        try:
            async with self._databases.connection(target.address) as connection:
                async with asyncio.timeout(INSERT_TIMEOUT_S):
                    new, refused = await _insert_events(connection, target, statement, events)
                return InsertResult(
                    statement=statement.as_string(connection), inserted_rows=new, rejected=refused
                )
        except TimeoutError:
            raise TransportError(
                f"The database did not finish within {INSERT_TIMEOUT_S:g} s."
            ) from None
        except psycopg.Error as error:
            raise TransportError(f"The database reports: {_describe_error(error)}") from None


async def _insert_events(
    connection: Connection, target: TableTarget, statement: "sql.Composed", events: Sequence[Event]
) -> tuple[int, dict[int, str]]:
    """Return the number of new rows, and the error of each row that can never be stored."""
    rows = [_encode_row(event) for event in events]
    try:
        try:
            return await _execute_many(connection, statement, rows), {}
        except psycopg.errors.UndefinedTable:
            await _create_table(connection, target)
            return await _execute_many(connection, statement, rows), {}
    except list_row_errors():
        pass
    # One row is invalid and all were rolled back: insert them one by one to find it.
    new, refused = 0, {}
    for number, row in enumerate(rows):
        try:
            new += await _execute_many(connection, statement, [row])
        except list_row_errors() as error:
            refused[number] = f"The database rejects this event: {_describe_error(error)}"
    return new, refused


def list_row_errors() -> "tuple[type[psycopg.Error], ...]":
    """Return the errors that the data of a row cause: other rows may succeed."""
    return psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded


async def _execute_many(
    connection: Connection, statement: "sql.Composed", rows: Sequence[Any]
) -> int:
    async with connection.transaction(), connection.cursor() as cursor:
        await cursor.executemany(statement, rows)
        return max(0, cursor.rowcount)


async def _create_table(connection: Connection, target: TableTarget) -> None:
    # Another client may create it concurrently.
    errors = psycopg.errors
    with contextlib.suppress(errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject):
        await connection.execute(_build_create_table(target))


def _table(target: TableTarget) -> "sql.Identifier":
    return sql.Identifier(target.schema, target.table)


def _build_create_table(target: TableTarget) -> "sql.Composed":
    columns = [
        sql.Identifier(name) + sql.SQL(" ") + sql.SQL(type) for name, type in COLUMNS.items()
    ]
    return sql.SQL("CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({}))").format(
        _table(target), sql.SQL(", ").join(columns), _join_identifiers(KEY)
    )


def _build_insert(target: TableTarget) -> "sql.Composed":
    # Explicit casts, because an existing table may have other column types.
    values = [sql.SQL("%s::") + sql.SQL(type.split()[0]) for type in COLUMNS.values()]
    return sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO NOTHING").format(
        _table(target),
        _join_identifiers(COLUMNS),
        sql.SQL(", ").join(values),
        _join_identifiers(KEY),
    )


def _join_identifiers(names: Any) -> "sql.Composed":
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def _encode_row(event: Event) -> Sequence[Any]:
    return (
        event.project_id,
        event.uuid,
        event.event,
        event.distinct_id,
        event.timestamp,
        event.created_at,
        event.properties or "{}",
        event.elements_chain,
        event.person_id,
        event.person_properties or "{}",
    )


def _describe_error(error: "psycopg.Error") -> str:
    message = error.diag.message_primary or str(error).strip() or type(error).__name__
    advice = ADVICE.get(type(error).__name__, "")
    return f"{message}. {advice}".strip()
