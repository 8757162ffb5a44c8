"""Damaged files of the database: report them while the service runs, and find them all."""

import re
import time
from collections.abc import Collection, Iterator
from importlib import import_module

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

REMEDY = "Run `hedgerow doctor`, and restore a backup. Events wait meanwhile."
REPORT_INTERVAL_S = 60.0
MAX_REASON_CHARS = 200
# A page with a wrong checksum or content, and a file that is missing or cannot be read.
DAMAGE_STATES = frozenset({"XX001", "XX002", "58P01", "58030"})
# Reading a damaged row may end in any contradiction.
INTERNAL_ERROR = "XX000"

_TABLES = """
    SELECT oid, quote_ident(relname) AS name FROM pg_class
    WHERE relkind = 'r' AND relnamespace = CAST(current_schema() AS regnamespace)
    AND relname = ANY(:names) ORDER BY relname
"""
# The columns in the order of the index, so that a sorted read of them reads the index.
_INDEXES = """
    SELECT quote_ident(c.relname) AS name, pg_get_expr(i.indpred, i.indrelid) AS condition,
        (SELECT string_agg(pg_get_indexdef(i.indexrelid, k, true), ', ' ORDER BY k)
         FROM generate_series(1, i.indnkeyatts) AS k) AS columns
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    WHERE i.indrelid = :table AND i.indisvalid ORDER BY c.relname
"""
# The values of a table that are stored apart belong to it.
_RELATION = """
    SELECT coalesce(owner.relname, c.relname) AS name, c.relkind FROM pg_class AS c
    LEFT JOIN pg_class AS owner ON owner.reltoastrelid = c.oid
    WHERE c.relfilenode = :file
"""
_FILE = re.compile(r'"base/\d+/(\d+)')
_READ_TABLES = "SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off"
_READ_INDEXES = (
    "SET LOCAL enable_indexscan = on; SET LOCAL enable_indexonlyscan = on;"
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off"
)


class DamageReport:
    """Logs one of the errors because of damaged files a minute."""

    def __init__(self) -> None:
        self._next_report = 0.0

    def report(self, error: BaseException) -> None:
        if time.monotonic() > self._next_report:
            self._next_report = time.monotonic() + REPORT_INTERVAL_S
            # Commands that find no damage do not load it.
            log = import_module("structlog").get_logger("hedgerow")
            log.error("the database file is damaged", reason=str(error), remedy=REMEDY)


def find_damaged_relations(connection: Connection, tables: Collection[str]) -> list[str]:
    """Read these tables of a PostgreSQL database and their indexes. Return those that cannot be
    read, with the server's reason."""
    connection.execute(text("SET LOCAL enable_bitmapscan = off"))
    # Without repetition: planning reads the first pages of indexes, too.
    found: dict[str, str] = {}
    for name, reason in _find_unreadable(connection, tables):
        found.setdefault(_find_relation(connection, reason) or name, reason)
    return [f"{name}: {reason}" for name, reason in found.items()]


def _find_unreadable(connection: Connection, tables: Collection[str]) -> Iterator[tuple[str, str]]:
    for table in connection.execute(text(_TABLES), {"names": [*tables]}).all():
        connection.execute(text(_READ_TABLES))
        # As text, so that values that are stored apart are read, too.
        rows = f"SELECT sum(length(CAST(t AS text))) FROM {table.name} AS t"  # noqa: S608 - quoted
        if reason := _find_reason(connection, rows):
            yield f"table {table.name}", reason
            continue
        connection.execute(text(_READ_INDEXES))
        for index in connection.execute(text(_INDEXES), {"table": table.oid}).all():
            entries = (
                f"SELECT 1 FROM {table.name} WHERE {index.condition or 'true'}"  # noqa: S608
                f" ORDER BY {index.columns} OFFSET 0"
            )
            count = f"SELECT count(*) FROM ({entries}) AS entries"  # noqa: S608
            if reason := _find_reason(connection, count):
                yield f"index {index.name}", reason


def _find_reason(connection: Connection, query: str) -> str:
    """Return why a query cannot read its files, nothing if it can."""
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(query)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) not in {*DAMAGE_STATES, INTERNAL_ERROR}:
            raise
        return " ".join(str(error.orig).split())[:MAX_REASON_CHARS]
    return ""


def _find_relation(connection: Connection, reason: str) -> str | None:
    """Return the table or index whose file an error names."""
    if (file := _FILE.search(reason)) is None:
        return None
    found = connection.execute(text(_RELATION), {"file": int(file[1])}).one_or_none()
    return None if found is None else f"{'index' if found.relkind == 'i' else 'table'} {found.name}"
