"""Pages of a SELECT by limit and offset, with the total number of rows."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, func


def read_page(
    connection: Connection, statement: Select[Any], *, limit: int, offset: int
) -> tuple[Sequence[Row[Any]], int]:
    """Return one page of an ordered SELECT, and the number of rows on all pages."""
    count = statement.with_only_columns(func.count(), maintain_column_froms=True).order_by(None)
    total: int = connection.execute(count).scalar_one()
    return connection.execute(statement.limit(limit).offset(offset)).all(), total
