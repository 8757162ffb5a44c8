"""Whether an error is due to the values that a store was given, or to the store itself.

The same values would fail again, and only they: so they are set aside. A store that is away, full,
locked or not as it should be takes no other values either: so one waits for it. Where an error does
not say, it is the store's.
"""

import sqlite3

import psycopg
from clickhouse_connect.driver.exceptions import Error as ClickHouseError
from sqlalchemy.exc import SQLAlchemyError, StatementError

from hedgerow.errors import AppError, Unready

# Classes of SQLSTATE: cardinality, data, integrity, limits of the program. Whatever the driver says
# without the server is about what it cannot send, unless it is about the connection.
_SQLSTATES = ("21", "22", "23", "54")
_SQLITE = ("", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_TOOBIG", "SQLITE_RANGE")
# ClickHouse's numbers for what cannot be parsed, converted or held by a column.
_CLICKHOUSE = frozenset(
    (6, 25, 26, 27, 38, 41, 53, 69, 70, 72, 117, 131, 321, 349, 376, 407, 467, 691)
)


def is_about_values(error: Exception) -> bool:
    # A driver that cannot be loaded, and a machine without memory, have no regard to values.
    if isinstance(error, AppError | Unready | OSError | ImportError | MemoryError):
        return False
    cause: BaseException | None = error
    if isinstance(error, SQLAlchemyError):
        cause = error.orig if isinstance(error, StatementError) else None
    match cause:
        case None:
            return False
        case psycopg.Error(sqlstate=None):
            return not isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)
        case psycopg.Error(sqlstate=str(state)):
            return state[:2] in _SQLSTATES
        case sqlite3.Error():
            name = getattr(cause, "sqlite_errorname", "")
            return "_".join(name.split("_")[:2]) in _SQLITE
        case ClickHouseError():
            return cause.code in _CLICKHOUSE
    return True
