"""Classification of storage errors: caused by the data, or by the store.

Data errors are permanent, so the data becomes a dead letter. Store errors (unavailable, full,
locked, misconfigured) affect all data, so the caller retries. An unclear error counts as the
store's.
"""

import sqlite3
import sys
from typing import Any

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
        case sqlite3.Error():
            name = getattr(cause, "sqlite_errorname", "")
            return "_".join(name.split("_")[:2]) in _SQLITE_DATA_ERRORS
    if is_raised_by(cause, "psycopg"):
        return _is_postgres_data_error(cause)
    if is_raised_by(cause, "clickhouse_connect.driver.exceptions"):
        return getattr(cause, "code", None) in _CLICKHOUSE_DATA_ERRORS
    return True


def is_raised_by(error: BaseException, driver: str) -> bool:
    """Return whether the error belongs to a driver. One that is not loaded has raised none, and
    loading it here would cost tens of megabytes."""
    module: Any = sys.modules.get(driver)
    return module is not None and isinstance(error, module.Error)


def _is_postgres_data_error(error: Any) -> bool:
    driver: Any = sys.modules["psycopg"]
    if error.sqlstate is None:
        return not isinstance(error, driver.OperationalError | driver.InterfaceError)
    return error.sqlstate[:2] in _DATA_SQLSTATE_CLASSES
