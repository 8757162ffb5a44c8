"""Filters on event columns instead of properties: `event_metadata`."""

from collections.abc import Mapping
from typing import Any

from hedgerow.events.filters.conditions import (
    QueryTime,
    build_condition,
    build_date_condition,
    validate_operator,
)
from hedgerow.filters.operators import Operator
from hedgerow.filters.validate import raise_invalid
from hedgerow.hogql.ast import Expr
from hedgerow.hogql.builders import any_of, call, constant, field
from hedgerow.lib.text import truncate
from hedgerow.persons.model import MAX_GROUP_TYPES

TEXT_COLUMNS = (
    "event",
    "distinct_id",
    "elements_chain",
    "$session_id",
    "$window_id",
    *(f"$group_{number}" for number in range(MAX_GROUP_TYPES)),
)
NON_NULL_COLUMNS = ("event", "distinct_id")
ID_COLUMNS = ("uuid", "person_id")
TIME_COLUMNS = ("timestamp", "created_at")


def build_column_condition(key: str, filter: Mapping[str, Any], attr: str, time: QueryTime) -> Expr:
    column, operator = validate_column(key, f"{attr}.key"), validate_operator(filter, attr)
    if key in TIME_COLUMNS and operator.startswith("is_date"):
        dates = filter["value"] if isinstance(filter["value"], list) else [filter["value"]]
        return any_of([build_date_condition(column, operator, each, time) for each in dates])
    if key in TIME_COLUMNS and operator not in (Operator.IS_SET, Operator.IS_NOT_SET):
        detail = (
            "Expected one of: is_date_exact, is_date_before, is_date_after, is_set, is_not_set."
        )
        raise_invalid(f"{attr}.operator", detail, "unsupported_operator")
    return build_condition(column_as_text(key), operator, filter.get("value"), time)


def validate_column(key: str, attr: str) -> Expr:
    if key not in (*TEXT_COLUMNS, *ID_COLUMNS, *TIME_COLUMNS):
        known = ", ".join((*TEXT_COLUMNS, *ID_COLUMNS, *TIME_COLUMNS))
        detail = f'Unknown column "{truncate(key)}". Expected one of: {known}.'
        raise_invalid(attr, detail, "invalid_choice")
    return field(key)


def column_as_text(key: str) -> Expr:
    """Return a column as text, null if it is empty."""
    if key in TEXT_COLUMNS:
        return field(key) if key in NON_NULL_COLUMNS else call("nullIf", field(key), constant(""))
    return call("toString", field(key))
