"""Classification of storage errors: caused by the data, or by the store.

Data errors are permanent, so the data becomes a dead letter. Store errors (unavailable, full,
locked, misconfigured) affect all data, so the caller retries. An unclear error counts as the
store's.
"""

import sqlite3

import psycopg
from clickhouse_connect.driver.exceptions import Error as ClickHouseError
from sqlalchemy.exc import SQLAlchemyError, StatementError

from hedgerow.errors import AppError, OperatorError

# SQLSTATE classes: cardinality violation, data exception, integrity violation, program limit.
# An error without SQLSTATE comes from the driver: a value that it cannot send, or the connection.
_DATA_SQLSTATE_CLASSES = ("21", "22", "23", "54")
_SQLITE_DATA_ERRORS = ("", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_TOOBIG", "SQLITE_RANGE")
# ClickHouse error codes for values that cannot be parsed, converted or stored in a column.
_CLICKHOUSE_DATA_ERRORS = frozenset(
    (6, 25, 26, 27, 38, 41, 53, 69, 70, 72, 117, 131, 321, 349, 376, 407, 467, 691)
)


def is_data_error(error: Exception) -> bool:
    # A missing driver or a lack of memory does not depend on the data.
    if isinstance(error, AppError | OperatorError | OSError | ImportError | MemoryError):
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
            return state[:2] in _DATA_SQLSTATE_CLASSES
        case sqlite3.Error():
            name = getattr(cause, "sqlite_errorname", "")
            return "_".join(name.split("_")[:2]) in _SQLITE_DATA_ERRORS
        case ClickHouseError():
            return cause.code in _CLICKHOUSE_DATA_ERRORS
    return True
