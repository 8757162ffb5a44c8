"""Compare the schema of a database with the one that the migrations create."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from sqlalchemy import Connection, create_engine, inspect, text

from hedgerow.errors import OperatorError
from hedgerow.storage.migrations.state import MIGRATIONS_DIR
from hedgerow.storage.tables import metadata

if TYPE_CHECKING:  # importing it takes long, and commands that run no migration do without
    from alembic.config import Config

# Indexes and triggers that a migration creates on one engine only.
ONLY_ON_SQLITE: frozenset[str] = frozenset()
ONLY_ON_POSTGRES: frozenset[str] = frozenset()

MAX_LISTED = 10

# One statement for all tables: SQLAlchemy inspects each by itself, which took three times as long.
_SQLITE_COLUMNS = """
    SELECT t.name, c.name FROM sqlite_master AS t JOIN pragma_table_xinfo(t.name) AS c
    WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite^_%' ESCAPE '^' AND c.hidden <> 1
"""
_POSTGRES_COLUMNS = """
    SELECT c.relname, a.attname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relkind IN ('r', 'p')
    AND a.attnum > 0 AND NOT a.attisdropped
"""
_SQLITE_TRIGGERS = "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'"
_POSTGRES_TRIGGERS = """
    SELECT t.tgname, c.relname FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
    WHERE NOT t.tgisinternal AND t.tgenabled <> 'D'
    AND c.relnamespace = CAST(current_schema() AS regnamespace)
"""


@dataclass(frozen=True, slots=True, order=True)
class SchemaObject:
    """A part of the schema. `name` is the column, or the name of an index or trigger, or the
    columns of a unique constraint, whose name the engines choose. `columns` are those of an index
    as far as they are no expressions."""

    kind: str
    table: str
    name: str = ""
    columns: str = ""

    def __str__(self) -> str:
        match self.kind:
            case "table":
                return f"table {self.table}"
            case "column":
                return f"column {self.table}.{self.name}"
            case "unique constraint":
                return f"unique constraint on {self.table} ({self.name})"
        columns = f" ({self.columns})" if self.columns else ""
        return f"{self.kind} {self.name} on {self.table}{columns}"


def check_columns(connection: Connection) -> None:
    """Raise OperatorError if the database lacks a table or column that this version uses."""
    if missing := find_missing_columns(connection):
        raise OperatorError(
            f"The database lacks {summarize_missing(missing)}, although all migrations have run. "
            "It was changed by other means, or damaged: restore a backup."
        )


def summarize_missing(missing: Sequence[str]) -> str:
    more = len(missing) - MAX_LISTED
    return ", ".join(missing[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def find_missing_columns(connection: Connection) -> list[str]:
    """List the tables and columns that this version uses and the database lacks."""
    actual = set(_read_columns(connection))
    expected: set[SchemaObject] = set()
    for table in metadata.tables.values():
        expected.add(SchemaObject("table", table.name))
        expected |= {SchemaObject("column", table.name, column.name) for column in table.columns}
    return _subtract(expected, actual)


def find_missing_objects(connection: Connection) -> list[str]:
    """List all tables, columns, indexes, constraints and triggers that the migrations create and
    the database lacks."""
    is_sqlite = connection.dialect.name == "sqlite"
    other_engine = ONLY_ON_POSTGRES if is_sqlite else ONLY_ON_SQLITE
    this_engine = ONLY_ON_SQLITE if is_sqlite else ONLY_ON_POSTGRES
    actual = read_schema(connection)
    expected = {each for each in build_expected_schema() if each.name not in other_engine}
    lost = this_engine - {each.name for each in actual | expected}
    return [*_subtract(expected, actual), *sorted(f"index {name}" for name in lost)]


def build_alembic_config() -> "Config":
    config: Config = import_module("alembic.config").Config()
    config.set_main_option("script_location", str(MIGRATIONS_DIR))
    return config


def build_expected_schema() -> set[SchemaObject]:
    """Run all migrations on an empty database in memory and return what they create."""
    with create_engine("sqlite://").connect() as connection:
        config = build_alembic_config()
        config.attributes["connection"] = connection
        import_module("alembic.command").upgrade(config, "head")
        return read_schema(connection)


def read_schema(connection: Connection) -> set[SchemaObject]:
    return {*_read_columns(connection), *_read_indexes(connection), *_read_triggers(connection)}


def _read_columns(connection: Connection) -> Iterator[SchemaObject]:
    is_sqlite = connection.dialect.name == "sqlite"
    sql = _SQLITE_COLUMNS if is_sqlite else _POSTGRES_COLUMNS
    for table, column in connection.execute(text(sql)):
        yield SchemaObject("table", table)
        yield SchemaObject("column", table, column)


def _read_indexes(connection: Connection) -> Iterator[SchemaObject]:
    found = inspect(connection)
    for (_, table), indexes in found.get_multi_indexes().items():
        for index in indexes:
            # PostgreSQL has an index for each unique constraint.
            if not index.get("duplicates_constraint"):
                kind = "unique index" if index["unique"] else "index"
                columns = ", ".join(name for name in index["column_names"] if name)
                yield SchemaObject(kind, table, index["name"] or "", columns)
    for (_, table), constraints in found.get_multi_unique_constraints().items():
        for constraint in constraints:
            names = ", ".join(constraint["column_names"])
            yield SchemaObject("unique constraint", table, names)


def _read_triggers(connection: Connection) -> Iterator[SchemaObject]:
    is_sqlite = connection.dialect.name == "sqlite"
    sql = _SQLITE_TRIGGERS if is_sqlite else _POSTGRES_TRIGGERS
    for name, table in connection.execute(text(sql)):
        yield SchemaObject("trigger", table, name)


def _subtract(expected: set[SchemaObject], actual: set[SchemaObject]) -> list[str]:
    """Say what is missing. A missing table stands for all that belongs to it."""
    missing = expected - actual
    lost_tables = {each.table for each in missing if each.kind == "table"}
    return [
        str(each)
        for each in sorted(missing)
        if each.kind == "table" or each.table not in lost_tables
    ]
