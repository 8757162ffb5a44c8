"""Rows of somebody else's PostgreSQL: in a transaction that may only read, by a cursor on their
side, within limits of time.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from hedgerow.pipelines.imports.model import Query
from hedgerow.pipelines.model import JobProblem
from hedgerow.pipelines.sending import CannotSend
from hedgerow.storage.guarded_postgres import GuardedPostgres

PORTION = 1000
STATEMENT_S = 120
# The value of a cursor must be written the same way each time.
SETTINGS = (
    "SET TRANSACTION READ ONLY",
    f"SET LOCAL statement_timeout = '{STATEMENT_S}s'",
    "SET LOCAL timezone = 'UTC'",
    "SET LOCAL datestyle = 'ISO'",
    "SET LOCAL extra_float_digits = 3",
)
# No column of theirs is called so.
PLACE = "hedgerow cursor"


class PostgresRows:
    def __init__(self, postgres: GuardedPostgres) -> None:
        self._postgres = postgres

    @asynccontextmanager
    async def rows(self, query: Query) -> AsyncIterator[AsyncIterator[Sequence[Any]]]:
        try:
            async with (
                self._postgres.connection(query.address) as connection,
                connection.transaction(),
            ):
                for setting in SETTINGS:
                    await connection.execute(setting)
                cursor = connection.cursor(name="hedgerow_import", row_factory=dict_row)
                async with cursor:
                    values = () if query.start is None else (query.start,)
                    await cursor.execute(_text(query), values)
                    yield _portions(cursor)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise CannotSend(_said(error)) from None
        except psycopg.Error as error:
            raise JobProblem(_said(error)) from None


async def _portions(cursor: Any) -> AsyncIterator[Sequence[Any]]:
    while rows := await cursor.fetchmany(PORTION):
        yield [(row.pop(PLACE), row) for row in rows]


def _text(query: Query) -> sql.Composed:
    column = sql.Identifier(query.cursor_column)
    inner = sql.SQL(query.text.strip().rstrip(";").replace("%", "%%"))
    wanted = sql.SQL("") if query.start is None else sql.SQL(" WHERE {} >= %s").format(column)
    return sql.SQL("SELECT *, {}::text AS {} FROM ({}\n) AS rows{} ORDER BY {}").format(
        column, sql.Identifier(PLACE), inner, wanted, column
    )


def _said(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines()
    return f"PostgreSQL says: {lines[0] if lines else type(error).__name__}"
