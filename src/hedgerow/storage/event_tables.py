"""Tables of events in somebody else's PostgreSQL: a row for each, once, whoever repeats it."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from hedgerow.events.model import Event
from hedgerow.pipelines.sending import CannotSend, Inserted, TablePlace
from hedgerow.storage.guarded_postgres import Connection, GuardedPostgres

INSERT_S = 30.0

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

# What helps, by the state of an error.
ADVICE = {
    psycopg.errors.InsufficientPrivilege: "Let the user use the schema, insert into the table, and "
    "create it if it is not there.",
    psycopg.errors.InvalidSchemaName: "Make the schema, or check its name.",
    psycopg.errors.UndefinedColumn: "Give the table that column, or choose another table.",
    psycopg.errors.InvalidColumnReference: "The table needs a unique index on project_id and uuid.",
    psycopg.errors.ReadOnlySqlTransaction: "Name the server that takes writes.",
}
# Faults of what is in a row: another row may do.
OF_THE_ROW = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)


class EventTables:
    def __init__(self, databases: GuardedPostgres) -> None:
        self._databases = databases

    async def insert(self, place: TablePlace, events: Sequence[Event]) -> Inserted:
        statement = _insert(place)
        try:
            async with self._databases.connection(place.address) as connection:
                async with asyncio.timeout(INSERT_S):
                    new, refused = await _inserted(connection, place, statement, events)
                return Inserted(statement=statement.as_string(connection), new=new, refused=refused)
        except TimeoutError:
            raise CannotSend(f"The database did not finish within {INSERT_S:g} s.") from None
        except psycopg.Error as error:
            raise CannotSend(f"The database refuses: {_told(error)}") from None


async def _inserted(
    connection: Connection, place: TablePlace, statement: sql.Composed, events: Sequence[Event]
) -> tuple[int, dict[int, str]]:
    """How many rows are new, and which can never be stored."""
    rows = [_row(event) for event in events]
    try:
        try:
            return await _run(connection, statement, rows), {}
        except psycopg.errors.UndefinedTable:
            await _create(connection, place)
            return await _run(connection, statement, rows), {}
    except OF_THE_ROW:
        pass
    # One of them is at fault, and all were undone: each by itself tells which.
    new, refused = 0, {}
    for number, row in enumerate(rows):
        try:
            new += await _run(connection, statement, [row])
        except OF_THE_ROW as error:
            refused[number] = f"The database refuses this event: {_told(error)}"
    return new, refused


async def _run(connection: Connection, statement: sql.Composed, rows: Sequence[Any]) -> int:
    async with connection.transaction(), connection.cursor() as cursor:
        await cursor.executemany(statement, rows)
        return max(0, cursor.rowcount)


async def _create(connection: Connection, place: TablePlace) -> None:
    # Somebody else may make it at the same moment.
    with contextlib.suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
        await connection.execute(_create_table(place))


def _table(place: TablePlace) -> sql.Identifier:
    return sql.Identifier(place.schema, place.table)


def _create_table(place: TablePlace) -> sql.Composed:
    columns = [
        sql.Identifier(name) + sql.SQL(" ") + sql.SQL(type) for name, type in COLUMNS.items()
    ]
    return sql.SQL("CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({}))").format(
        _table(place), sql.SQL(", ").join(columns), _names(KEY)
    )


def _insert(place: TablePlace) -> sql.Composed:
    # Said as what they are: a table of somebody else's may have other types.
    values = [sql.SQL("%s::") + sql.SQL(type.split()[0]) for type in COLUMNS.values()]
    return sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO NOTHING").format(
        _table(place), _names(COLUMNS), sql.SQL(", ").join(values), _names(KEY)
    )


def _names(names: Any) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def _row(event: Event) -> Sequence[Any]:
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


def _told(error: psycopg.Error) -> str:
    said = error.diag.message_primary or str(error).strip() or type(error).__name__
    advice = next((text for kind, text in ADVICE.items() if isinstance(error, kind)), "")
    return f"{said}. {advice}".strip()
