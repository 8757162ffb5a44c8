"""Reads rows from user-configured PostgreSQL servers, for imports: in a read-only transaction, with
a server-side cursor and a statement timeout.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hedgerow.lib.optional_packages import LazyPackage
from hedgerow.outbound.postgres import PostgresClient
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.imports import DatabaseQuery, DatabaseReader, JobError

if TYPE_CHECKING:
    import psycopg
    from psycopg import rows, sql
else:
    psycopg, rows = LazyPackage("psycopg"), LazyPackage("psycopg.rows")
    sql = LazyPackage("psycopg.sql")

FETCH_SIZE = 1000
STATEMENT_TIMEOUT_S = 120
# The cursor value must be formatted the same way every time.
SETTINGS = (
    "SET TRANSACTION READ ONLY",
    f"SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT_S}s'",
    "SET LOCAL timezone = 'UTC'",
    "SET LOCAL datestyle = 'ISO'",
    "SET LOCAL extra_float_digits = 3",
)
# Unlikely to clash with a column of the query.
CURSOR_COLUMN = "hedgerow cursor"


class PostgresSourceRows(DatabaseReader):
    def __init__(self, postgres: PostgresClient) -> None:
        self._postgres = postgres

    @asynccontextmanager
    async def rows(self, query: DatabaseQuery) -> AsyncIterator[AsyncIterator[Sequence[Any]]]:
        try:
            async with (
                self._postgres.connection(query.address) as connection,
                connection.transaction(),
            ):
                for setting in SETTINGS:
                    await connection.execute(setting)
                cursor = connection.cursor(name="hedgerow_import", row_factory=rows.dict_row)
                async with cursor:
                    values = () if query.start is None else (query.start,)
                    await cursor.execute(_build_statement(query), values)
                    yield _fetch_batches(cursor)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise TransportError(_describe_error(error)) from None
        except psycopg.Error as error:
            raise JobError(_describe_error(error)) from None


async def _fetch_batches(cursor: Any) -> AsyncIterator[Sequence[Any]]:
    while rows := await cursor.fetchmany(FETCH_SIZE):
        yield [(row.pop(CURSOR_COLUMN), row) for row in rows]


def _build_statement(query: DatabaseQuery) -> "sql.Composed":
    column = sql.Identifier(query.cursor_column)
    inner = sql.SQL(query.text.strip().rstrip(";").replace("%", "%%"))
    wanted = sql.SQL("") if query.start is None else sql.SQL(" WHERE {} >= %s").format(column)
    return sql.SQL("SELECT *, {}::text AS {} FROM ({}\n) AS rows{} ORDER BY {}").format(
        column, sql.Identifier(CURSOR_COLUMN), inner, wanted, column
    )


def _describe_error(error: "psycopg.Error") -> str:
    lines = str(error).strip().splitlines()
    return f"PostgreSQL reports: {lines[0] if lines else type(error).__name__}"
