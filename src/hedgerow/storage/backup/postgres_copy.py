"""Copy the state in PostgreSQL to files and back, one file per table, without PostgreSQL's tools.

The copy is one snapshot. It also holds the positions of sequences: numbers of deleted rows must not
be given again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.migrations.apply import fill_empty_database
from hedgerow.storage.migrations.state import read_schema_state, translate_database_errors
from hedgerow.storage.tables import metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCopy:
    """What a copy contains: the columns of each table, parents first, and the last number of each
    sequence by table and column."""

    migration: str
    tables: Mapping[str, Sequence[str]]
    sequences: Mapping[str, Mapping[str, int]]


def copy_tables(location: DatabaseLocation, folder: Path) -> StateCopy:
    """Copy every table to a file in the folder."""
    folder.mkdir(mode=0o700)
    engine = create_sync_engine(location).execution_options(isolation_level="REPEATABLE READ")
    with translate_database_errors(location), engine.connect() as connection, connection.begin():
        tables = {
            table.name: [column.name for column in table.columns]
            for table in metadata.sorted_tables
        }
        for table, columns in tables.items():
            _copy_to_file(connection, table, columns, folder / table)
        return StateCopy(
            migration=read_schema_state(connection).at or "",
            tables=tables,
            sequences=_read_sequences(connection, tables),
        )


def restore_tables(location: DatabaseLocation, folder: Path, copy: StateCopy) -> None:
    """Fill an empty database, in one transaction."""
    with fill_empty_database(location, copy.migration) as connection:
        for table, columns in copy.tables.items():
            name = _quote(connection, table)
            # The copy has the rows that triggers would add.
            connection.execute(text(f"ALTER TABLE {name} DISABLE TRIGGER USER"))
            connection.execute(text(f"DELETE FROM {name}"))  # noqa: S608 - a quoted name
            _copy_from_file(connection, table, columns, folder / table)
            connection.execute(text(f"ALTER TABLE {name} ENABLE TRIGGER USER"))
        for table, numbers in copy.sequences.items():
            for column, number in numbers.items():
                connection.execute(
                    text("SELECT setval(pg_get_serial_sequence(:table, :column), :number)"),
                    {"table": _quote(connection, table), "column": column, "number": number},
                )


def _read_sequences(
    connection: Connection, tables: Mapping[str, Sequence[str]]
) -> Mapping[str, Mapping[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for table, columns in tables.items():
        for column in columns:
            number = connection.execute(
                text(
                    "SELECT pg_sequence_last_value("
                    "CAST(pg_get_serial_sequence(:table, :column) AS regclass))"
                ),
                {"table": _quote(connection, table), "column": column},
            ).scalar()
            if number is not None:
                found.setdefault(table, {})[column] = number
    return found


def _copy_to_file(connection: Connection, table: str, columns: Sequence[str], file: Path) -> None:
    statement = f"COPY {_describe(connection, table, columns)} TO STDOUT"
    file.touch(mode=0o600)
    with (
        file.open("wb") as target,
        _driver_cursor(connection) as cursor,
        cursor.copy(statement) as rows,
    ):
        for part in rows:
            target.write(part)


def _copy_from_file(connection: Connection, table: str, columns: Sequence[str], file: Path) -> None:
    statement = f"COPY {_describe(connection, table, columns)} FROM STDIN"
    with (
        file.open("rb") as source,
        _driver_cursor(connection) as cursor,
        cursor.copy(statement) as rows,
    ):
        while part := source.read(1024 * 1024):
            rows.write(part)


def _describe(connection: Connection, table: str, columns: Sequence[str]) -> str:
    names = ", ".join(_quote(connection, column) for column in columns)
    return f"{_quote(connection, table)} ({names})"


def _quote(connection: Connection, name: str) -> str:
    return connection.dialect.identifier_preparer.quote_identifier(name)


def _driver_cursor(connection: Connection) -> Any:
    driver_connection = connection.connection.driver_connection
    assert driver_connection is not None
    return driver_connection.cursor()
