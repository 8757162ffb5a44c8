"""The values of a query. Each goes to the engine as a parameter with a type; no text of the
caller's is ever part of the SQL."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from uuid import UUID

from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.kinds import Kind, Piece

_UNSIGNED = ((2**8, "UInt8"), (2**16, "UInt16"), (2**32, "UInt32"), (2**64, "UInt64"),
             (2**128, "UInt128"), (2**256, "UInt256"))  # fmt: skip
_SIGNED = ((2**7, "Int8"), (2**15, "Int16"), (2**31, "Int32"), (2**63, "Int64"),
           (2**127, "Int128"), (2**255, "Int256"))  # fmt: skip


class Parameters:
    """Collects values. The same value has one name, so that like expressions print alike."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self._names: dict[tuple[str, object], str] = {}

    def add(self, type_name: str, value: object) -> str:
        """The value's place in the SQL."""
        _check_text(value)
        key = (type_name, repr(value))
        if key not in self._names:
            name = f"p{len(self.values)}"
            self._names[key] = name
            self.values[name] = value
        return f"{{{self._names[key]}:{type_name}}}"

    def text(self, value: str) -> str:
        return self.add("String", value)

    def integer(self, value: int) -> str:
        """Typed as the engine types a number in SQL: as small as it fits."""
        sizes, size = (_UNSIGNED, value) if value >= 0 else (_SIGNED, -value - 1)
        for bound, name in sizes:
            if size < bound:
                return self.add(name, value)
        raise HogQLError("A number is too large")

    def moment(self, value: datetime) -> str:
        utc = value.astimezone(UTC).replace(tzinfo=None)
        text = self.text(utc.isoformat(sep=" ", timespec="microseconds"))
        return f"toDateTime64({text}, 6, 'UTC')"

    def constant(self, value: object) -> Piece:
        """A value of the query's own."""
        match value:
            case None:
                return Piece("NULL", Kind.UNKNOWN, nullable=True, is_constant=True)
            case bool():
                return _known("true" if value else "false", Kind.BOOL)
            case int():
                return _known(self.integer(value), Kind.NUMBER)
            case float():
                return _known(self.add("Float64", value), Kind.NUMBER)
            case str():
                return _known(self.text(value), Kind.STRING)
            case UUID():
                return _known(self.add("UUID", str(value)), Kind.UUID)
            case datetime():
                return _known(self.moment(value), Kind.DATETIME)
            case date():
                return _known(f"toDate({self.text(value.isoformat())})", Kind.DATE)
            case Sequence():
                members = ", ".join(self.constant(member).sql for member in value)
                return _known(f"[{members}]", Kind.ARRAY)
            case _:
                raise HogQLError("A value of this kind cannot stand in a query")


def _check_text(value: object) -> None:
    """Half of a surrogate pair is no character, and cannot be sent."""
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if isinstance(text, str) and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise HogQLError("A text has a character that does not exist") from None


def _known(sql: str, kind: Kind) -> Piece:
    return Piece(sql, kind, nullable=False, is_constant=True)
