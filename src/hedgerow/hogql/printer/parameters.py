"""Query parameters. Every value is bound with a type; no text from the query is part of the SQL."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from uuid import UUID

from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.typed_sql import TypedSql, ValueType

_UNSIGNED = ((2**8, "UInt8"), (2**16, "UInt16"), (2**32, "UInt32"), (2**64, "UInt64"),
             (2**128, "UInt128"), (2**256, "UInt256"))  # fmt: skip
_SIGNED = ((2**7, "Int8"), (2**15, "Int16"), (2**31, "Int32"), (2**63, "Int64"),
           (2**127, "Int128"), (2**255, "Int256"))  # fmt: skip


class QueryParameters:
    """Collects values. Equal values share one parameter, so that equal expressions print alike."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self._names: dict[tuple[str, object], str] = {}

    def add(self, type_name: str, value: object) -> str:
        """Bind a value and return its placeholder in the SQL."""
        _check_text(value)
        key = (type_name, repr(value))
        if key not in self._names:
            name = f"p{len(self.values)}"
            self._names[key] = name
            self.values[name] = value
        return f"{{{self._names[key]}:{type_name}}}"

    def add_text(self, value: str) -> str:
        return self.add("String", value)

    def add_integer(self, value: int) -> str:
        """Bind an integer with the type that ClickHouse gives a literal: the smallest that fits."""
        sizes, size = (_UNSIGNED, value) if value >= 0 else (_SIGNED, -value - 1)
        for bound, name in sizes:
            if size < bound:
                return self.add(name, value)
        raise HogQLError("A number is too large")

    def add_time(self, value: datetime) -> str:
        utc = value.astimezone(UTC).replace(tzinfo=None)
        text = self.add_text(utc.isoformat(sep=" ", timespec="microseconds"))
        return f"toDateTime64({text}, 6, 'UTC')"

    def add_constant(self, value: object) -> TypedSql:
        """Bind a constant of the query."""
        match value:
            case None:
                return TypedSql("NULL", ValueType.UNKNOWN, nullable=True, is_constant=True)
            case bool():
                return _constant_sql("true" if value else "false", ValueType.BOOL)
            case int():
                return _constant_sql(self.add_integer(value), ValueType.NUMBER)
            case float():
                return _constant_sql(self.add("Float64", value), ValueType.NUMBER)
            case str():
                return _constant_sql(self.add_text(value), ValueType.STRING)
            case UUID():
                return _constant_sql(self.add("UUID", str(value)), ValueType.UUID)
            case datetime():
                return _constant_sql(self.add_time(value), ValueType.DATETIME)
            case date():
                return _constant_sql(f"toDate({self.add_text(value.isoformat())})", ValueType.DATE)
            case Sequence():
                members = ", ".join(self.add_constant(member).sql for member in value)
                return _constant_sql(f"[{members}]", ValueType.ARRAY)
            case _:
                raise HogQLError("A value of this type cannot be used in a query")


def _check_text(value: object) -> None:
    """Raise HogQLError for a lone surrogate, which cannot be encoded."""
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if isinstance(text, str) and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise HogQLError("A string contains a lone surrogate") from None


def _constant_sql(sql: str, kind: ValueType) -> TypedSql:
    return TypedSql(sql, kind, nullable=False, is_constant=True)
