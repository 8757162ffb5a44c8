"""Reads rows from user-configured PostgreSQL servers, for imports: in a read-only transaction, with
a server-side cursor and a statement timeout. Runs in the worker process of imports, because the
driver keeps a whole row in memory, however large the server makes it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hedgerow.lib.optional_packages import LazyPackage
from hedgerow.outbound.postgres import build_parameters, describe_error
from hedgerow.pipelines.imports.reading import QueryRequest
from hedgerow.plugin.database_address import DatabaseAddress
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.imports import JobError

if TYPE_CHECKING:
    import psycopg
    from psycopg import rows, sql
else:
    psycopg, rows = LazyPackage("psycopg"), LazyPackage("psycopg.rows")
    sql = LazyPackage("psycopg.sql")

# Small, because the statement timeout applies to the rows that wait to be read.
FETCH_SIZE = 100
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
# How the driver says that a row does not fit into memory.
OUT_OF_MEMORY_TEXTS = ("allocate memory", "out of memory")

SourceValues = tuple[str | None, dict[str, Any]]


def stream_rows(source: QueryRequest) -> Iterator[SourceValues]:
    """Yield the cursor column as text and all values by column, row by row: only one row is in
    memory. Raises TransportError and JobError."""
    try:
        with _connect(source) as connection, connection.transaction():
            for setting in SETTINGS:
                connection.execute(setting)
            values = () if source.at is None else (source.at,)
            connection.execute(_build_statement(source), values)
            yield from _fetch_rows(connection)
    except psycopg.Error as error:
        if any(text in str(error) for text in OUT_OF_MEMORY_TEXTS):
            raise MemoryError from None
        is_temporary = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        kind = TransportError if is_temporary else JobError
        raise kind(_describe_error(error)) from None


def _fetch_rows(connection: "psycopg.Connection[Any]") -> Iterator[SourceValues]:
    fetch = sql.SQL("FETCH FORWARD {} FROM hedgerow_import").format(FETCH_SIZE)
    number = FETCH_SIZE
    while number == FETCH_SIZE:
        number = 0
        # `stream` hands on each row as it arrives, instead of all rows of a fetch.
        with connection.cursor(row_factory=rows.dict_row) as cursor:
            for row in cursor.stream(fetch):
                number += 1
                yield row.pop(CURSOR_COLUMN), row


def _connect(source: QueryRequest) -> "psycopg.Connection[Any]":
    address = DatabaseAddress(
        host=source.host,
        port=source.port,
        user=source.user,
        password=source.password,
        database=source.database,
        ssl_mode=source.ssl_mode,
    )
    failure = ""
    for found in source.addresses:
        try:
            return psycopg.connect(**build_parameters(address, found), autocommit=True)
        except psycopg.Error as error:
            failure = describe_error(error)
    raise TransportError(f"Cannot connect to the database: {failure}.")


def _build_statement(source: QueryRequest) -> "sql.Composed":
    column = sql.Identifier(source.cursor_column)
    inner = sql.SQL(source.text.strip().rstrip(";").replace("%", "%%"))
    wanted = sql.SQL("") if source.at is None else sql.SQL(" WHERE {} >= %s").format(column)
    return sql.SQL(
        "DECLARE hedgerow_import NO SCROLL CURSOR FOR "
        "SELECT *, {}::text AS {} FROM ({}\n) AS rows{} ORDER BY {}"
    ).format(column, sql.Identifier(CURSOR_COLUMN), inner, wanted, column)


def _describe_error(error: "psycopg.Error") -> str:
    lines = str(error).strip().splitlines()
    return f"PostgreSQL reports: {lines[0] if lines else type(error).__name__}"
