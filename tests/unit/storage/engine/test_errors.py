"""Classification of errors: caused by the data or by the store."""

import sqlite3
from pathlib import Path

import psycopg
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError
from sqlalchemy.exc import (
    DataError,
    IntegrityError,
    InvalidRequestError,
    OperationalError,
    ProgrammingError,
)

from hedgerow.errors import Invalid, OperatorError, Unavailable
from hedgerow.storage.engine.errors import is_data_error


def sqlite_error(tmp_path: Path, sql: str) -> sqlite3.Error:
    connection = sqlite3.connect(tmp_path / "some.db")
    connection.execute("CREATE TABLE some (one INTEGER PRIMARY KEY CHECK (one > 0))")
    try:
        connection.execute(sql)
    except sqlite3.Error as error:
        return error
    finally:
        connection.close()
    raise AssertionError(sql)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        RecursionError(),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
        DataError("INSERT", {}, psycopg.errors.UntranslatableCharacter()),
        DataError("INSERT", {}, psycopg.DataError("cannot contain NUL")),
        IntegrityError("INSERT", {}, psycopg.errors.ForeignKeyViolation()),
        ProgrammingError("INSERT", {}, psycopg.errors.CardinalityViolation()),
        psycopg.errors.ProgramLimitExceeded(),
        DatabaseError("Cannot parse UUID", code=376),
    ],
    ids=lambda error: type(error).__name__,
)
def test_data_errors(error: Exception) -> None:
    assert is_data_error(error)


@pytest.mark.parametrize(
    "error",
    [
        Unavailable(),
        OperatorError("no folder"),
        Invalid("a limit of the event store"),
        OSError(28, "No space left on device"),
        TimeoutError(),
        ImportError("libchdb.so: cannot be mapped"),
        MemoryError(),
        ProgrammingError("INSERT", {}, psycopg.errors.UndefinedTable()),
        ProgrammingError("INSERT", {}, psycopg.errors.InsufficientPrivilege()),
        psycopg.errors.ReadOnlySqlTransaction(),
        psycopg.errors.DiskFull(),
        OperationalError("INSERT", {}, psycopg.OperationalError("connection was lost")),
        psycopg.InterfaceError("connection is closed"),
        InvalidRequestError("this connection is closed"),
        DatabaseError("Not enough privileges", code=497),
        DatabaseError("Something new", code=None),
    ],
    ids=lambda error: type(error).__name__,
)
def test_store_errors(error: Exception) -> None:
    assert not is_data_error(error)


@pytest.mark.parametrize(
    ("sql", "is_their_fault"),
    [
        ("INSERT INTO some VALUES (-1)", True),
        ("INSERT INTO some VALUES ('text')", True),
        ("INSERT INTO other VALUES (1)", False),
    ],
)
def test_sqlite_errors_are_classified_by_name(
    tmp_path: Path, sql: str, is_their_fault: bool
) -> None:
    assert is_data_error(sqlite_error(tmp_path, sql)) is is_their_fault
