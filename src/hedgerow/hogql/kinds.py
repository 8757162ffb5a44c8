"""What kind of value an expression gives, as far as the comparison of two needs to know it."""

from dataclasses import dataclass, replace
from enum import StrEnum


class Kind(StrEnum):
    STRING = "string"
    NUMBER = "number"
    BOOL = "bool"
    DATETIME = "datetime"
    DATE = "date"
    UUID = "uuid"
    ARRAY = "array"
    # The whole of an object's properties, as JSON text.
    PROPERTIES = "properties"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of SQL, and what is known of its value. `is_loose` is the text of a property whose
    type nobody told: it takes the kind of what it is compared with. `owner` says whose properties
    these are. `instant` is a moment before it was put into a time zone: enough to compare and sort
    by, and what the engine has an order for."""

    sql: str
    kind: Kind = Kind.UNKNOWN
    nullable: bool = True
    is_loose: bool = False
    is_constant: bool = False
    owner: str = ""
    instant: str = ""

    def at(self, sql: str) -> "Piece":
        """The same value, found elsewhere."""
        return replace(self, sql=sql, is_constant=False, instant="")
