"""The actors of an insight: persons, or groups of one type."""

from hedgerow.errors import Invalid
from hedgerow.hogql.ast import Expr
from hedgerow.hogql.builders import call, constant, field
from hedgerow.persons.model import MAX_GROUP_TYPES
from hedgerow.queries.fields import QueryFields


def parse_group_type(fields: QueryFields) -> int | None:
    """Parse `aggregation_group_type_index`. None for persons."""
    index = fields.integer("aggregation_group_type_index")
    if index is not None and not 0 <= index < MAX_GROUP_TYPES:
        detail = f"A number from 0 to {MAX_GROUP_TYPES - 1} is required."
        raise Invalid(detail, attr=fields.attr("aggregation_group_type_index"))
    return index


def build_actor(group_type_index: int | None) -> Expr:
    return field("person_id") if group_type_index is None else field(f"$group_{group_type_index}")


def match_actor(group_type_index: int | None) -> Expr:
    """Match events that have an actor: all for persons."""
    if group_type_index is None:
        return constant(True)
    return call("notEmpty", build_actor(group_type_index))
