"""The actors of an insight: persons, or groups of one type."""

from hedgerow.hogql.ast import Expr
from hedgerow.hogql.builders import call, constant, field
from hedgerow.persons.model import MAX_GROUP_TYPES
from hedgerow.queries.fields import QueryFields


def parse_group_type(fields: QueryFields) -> int | None:
    """Parse `aggregation_group_type_index`. None for persons."""
    return fields.number("aggregation_group_type_index", 0, MAX_GROUP_TYPES - 1)


def build_actor(group_type_index: int | None) -> Expr:
    return field("person_id") if group_type_index is None else field(f"$group_{group_type_index}")


def match_actor(group_type_index: int | None) -> Expr:
    """Match events that have an actor: all for persons."""
    if group_type_index is None:
        return constant(True)
    return call("notEmpty", build_actor(group_type_index))
