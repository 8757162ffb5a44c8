"""How a worker process connects to the state database, without SQLAlchemy."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.lib.text import explain_unstorable

FETCH_SIZE = 5_000
MAX_SENT_KEYS = 10
# Reading a mapped file copies less. A snapshot keeps the file from being truncated.
MMAP_BYTES = 256 << 20

# Runs a query with `?` for each value, and yields its rows.
Select = Callable[..., Iterator[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSource:
    """The file of SQLite, or the arguments of psycopg and the statement that begins a
    transaction."""

    sqlite_path: Path
    postgres_arguments: Mapping[str, Any] | None = None
    postgres_begin: str = ""

    def select_properties(self, keys: frozenset[str] | None) -> tuple[str, list[str]]:
        """Return an expression for the JSON text of the properties of `p` with at least these keys,
        and its values. PostgreSQL sends only these: encoding and sending all takes longest."""
        if self.postgres_arguments is None:
            return "p.properties", []
        if keys is None or len(keys) > MAX_SENT_KEYS or any(map(explain_unstorable, keys)):
            return "p.properties::text", []
        parts = ["coalesce(?::text || (p.properties -> ?::text)::text || ',', '')" for _ in keys]
        values = [text for key in keys for text in (f"{jsonio.encode(key).decode()}:", key)]
        return f"'{{' || rtrim({' || '.join(parts) or repr('')}, ',') || '}}'", values

    def may_contain(self, column: str) -> str:
        """Return a condition with one value, a text of lower-case ASCII. It is true for all texts
        that contain the value, ignoring case, and for those with other characters: databases and
        Python do not agree on the case of these. So few rows are read."""
        if self.postgres_arguments is None:
            is_ascii = f"length({column}) = length(CAST({column} AS blob))"
            return f"(instr(lower({column}), ?) OR NOT {is_ascii})"
        is_ascii = f"length({column}) = octet_length({column})"
        return f'(strpos(lower({column} COLLATE "C"), ?::text) > 0 OR NOT {is_ascii})'

    @contextmanager
    def open(self) -> Iterator[Select]:
        """Open one consistent snapshot of the database."""
        if self.postgres_arguments is None:
            with _open_sqlite(self.sqlite_path) as select:
                yield select
        else:
            with _open_postgres(self.postgres_arguments, self.postgres_begin) as select:
                yield select


@contextmanager
def _open_sqlite(path: Path) -> Iterator[Select]:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        connection.execute(f"PRAGMA mmap_size = {MMAP_BYTES}")
        connection.execute("BEGIN")
        yield lambda sql, *values: connection.execute(sql, values)
    finally:
        connection.close()


@contextmanager
def _open_postgres(arguments: Mapping[str, Any], begin: str) -> Iterator[Select]:
    with import_module("psycopg").connect(**arguments, autocommit=True) as connection:
        connection.execute(begin)

        def select(sql: str, *values: Any) -> Iterator[tuple[Any, ...]]:
            with connection.cursor(name="scan") as cursor:
                cursor.execute(sql.replace("%", "%%").replace("?", "%s"), values)
                # Iterating over the cursor runs more Python code for each row.
                while rows := cursor.fetchmany(FETCH_SIZE):
                    yield from rows

        yield select
