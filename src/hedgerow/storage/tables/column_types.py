"""Column types of the state database, for both engines."""

from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer, MetaData, TypeDecorator
from sqlalchemy.sql.operators import OperatorType
from sqlalchemy.types import TypeEngine

# Of all tables of the state database.
metadata = MetaData()

Id = BigInteger().with_variant(Integer, "sqlite")


class Moment(TypeDecorator[datetime]):
    """A timezone-aware timestamp: timestamptz on PostgreSQL, UTC text on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


class Json(TypeDecorator[Any]):
    """JSON: jsonb on PostgreSQL, text on SQLite."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name != "postgresql":
            return dialect.type_descriptor(JSON())
        # The engine has imported its dialect; importing it for SQLite slows down every start.
        return dialect.type_descriptor(import_module("sqlalchemy.dialects.postgresql").JSONB())

    def coerce_compared_value(self, op: OperatorType | None, value: Any) -> Any:
        # The name of a property in `column[name]` is text.
        return self.impl_instance.coerce_compared_value(op, value)
