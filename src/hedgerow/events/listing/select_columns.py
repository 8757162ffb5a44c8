"""The columns of `select`: an expression each, or an object built from several columns.

`*` is the whole event and `person` its person.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.events.elements import parse_chain
from hedgerow.events.listing.clauses import parse_parameter
from hedgerow.hogql.ast import Constant, Expr, Field
from hedgerow.hogql.builders import field
from hedgerow.hogql.traversal import has_aggregate
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
class SelectColumn:
    """A column of the result: the expressions to read, and a function that assembles the value."""

    text: str
    parts: Sequence[Expr]
    assemble: Callable[[Sequence[Any]], Any]

    @property
    def has_aggregate(self) -> bool:
        return any(has_aggregate(part) for part in self.parts)

    @property
    def is_single_expression(self) -> bool:
        return self.assemble is _take_first

    @property
    def is_constant(self) -> bool:
        """Whether it is a literal, which a GROUP BY or ORDER BY would read as a position."""
        return isinstance(self.parts[0], Constant)

    def is_field(self, name: str) -> bool:
        (first, *rest) = self.parts
        return not rest and isinstance(first, Field) and list(first.chain) == [name]


def parse_select_column(text: str, attr: str = "select") -> SelectColumn:
    expr = parse_parameter(text, attr)
    chain = list(expr.chain) if isinstance(expr, Field) else []
    if chain == ["*"]:
        return SelectColumn(
            text=text, parts=[field(name) for name in EVENT_FIELDS], assemble=_assemble_event
        )
    if chain == ["person"]:
        return SelectColumn(text=text, parts=_PERSON_PARTS, assemble=_assemble_person)
    return SelectColumn(text=text, parts=[expr], assemble=_take_first)


_PERSON_PARTS = [
    field("person", "id"),
    field("person", "created_at"),
    field("person", "properties"),
    field("distinct_id"),
]


def _take_first(values: Sequence[Any]) -> Any:
    return values[0]


def _assemble_event(values: Sequence[Any]) -> dict[str, Any]:
    found = dict(zip(EVENT_FIELDS, values, strict=True))
    found["properties"] = jsonio.decode(found["properties"])
    found["elements"] = parse_chain(found["elements_chain"])
    return found


def _assemble_person(values: Sequence[Any]) -> dict[str, Any]:
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
