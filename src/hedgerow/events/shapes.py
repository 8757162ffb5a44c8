"""What `select` asks for, column by column: an expression, or an object of several.

`*` is all that an event has, `person` who it is by. Each is read as a few columns and put together
again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.events.elements import parsed_elements
from hedgerow.events.expressions import field
from hedgerow.events.question import parsed
from hedgerow.hogql.ast import Expr, Field
from hedgerow.hogql.walk import aggregates
from hedgerow.lib import jsonio

EVENT_FIELDS = (
    "uuid",
    "event",
    "properties",
    "timestamp",
    "team_id",
    "distinct_id",
    "elements_chain",
    "created_at",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One column of the answer: what is read for it, and how that is put together."""

    text: str
    parts: Sequence[Expr]
    put: Callable[[Sequence[Any]], Any]

    @property
    def aggregates(self) -> bool:
        return any(aggregates(part) for part in self.parts)

    @property
    def is_plain(self) -> bool:
        return self.put is _first

    def is_field(self, name: str) -> bool:
        (first, *rest) = self.parts
        return not rest and isinstance(first, Field) and list(first.chain) == [name]


def shape_of(text: str, attr: str = "select") -> Shape:
    expr = parsed(text, attr)
    chain = list(expr.chain) if isinstance(expr, Field) else []
    if chain == ["*"]:
        return Shape(text=text, parts=[field(name) for name in EVENT_FIELDS], put=_event)
    if chain == ["person"]:
        return Shape(text=text, parts=_PERSON, put=_person)
    return Shape(text=text, parts=[expr], put=_first)


_PERSON = [
    field("person", "id"),
    field("person", "created_at"),
    field("person", "properties"),
    field("distinct_id"),
]


def _first(values: Sequence[Any]) -> Any:
    return values[0]


def _event(values: Sequence[Any]) -> dict[str, Any]:
    found = dict(zip(EVENT_FIELDS, values, strict=True))
    found["properties"] = jsonio.decode(found["properties"])
    found["elements"] = parsed_elements(found["elements_chain"])
    return found


def _person(values: Sequence[Any]) -> dict[str, Any]:
    id, created_at, properties, distinct_id = values
    if created_at is None:
        return {"distinct_id": distinct_id}
    return {
        "uuid": id,
        "id": id,
        "created_at": created_at,
        "properties": jsonio.decode(properties or "{}"),
        "distinct_id": distinct_id,
    }
