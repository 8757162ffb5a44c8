"""SQL fragments with the type of their value."""

from dataclasses import dataclass, replace
from enum import StrEnum

from hedgerow.hogql.typed_properties import StoredProperty


class ValueType(StrEnum):
    STRING = "string"
    NUMBER = "number"
    BOOL = "bool"
    DATETIME = "datetime"
    DATE = "date"
    UUID = "uuid"
    ARRAY = "array"
    # All properties of an object, as JSON text.
    PROPERTIES = "properties"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TypedSql:
    """A SQL fragment.

    `is_untyped` marks the text of a property: a comparison converts it to the type of the other
    side. `instant` is a time before its conversion to the project's time zone: comparisons and
    sorting use it, because the event store is ordered by it. `stored` is where the text of a
    property comes from, if it can be read there in other forms.
    """

    sql: str
    type: ValueType = ValueType.UNKNOWN
    nullable: bool = True
    is_untyped: bool = False
    is_constant: bool = False
    instant: str = ""
    stored: StoredProperty | None = None

    def with_sql(self, sql: str) -> "TypedSql":
        """Return the same value with other SQL."""
        return replace(self, sql=sql, is_constant=False, instant="", stored=None)
