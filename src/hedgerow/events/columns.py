"""Filters on the columns of an event, which are no properties: `event_metadata`."""

from collections.abc import Mapping
from typing import Any

from hedgerow.events.conditions import Moment, checked_operator, condition, date_condition
from hedgerow.events.expressions import any_of, call, field, value
from hedgerow.filters.operators import Operator
from hedgerow.filters.rules import refuse
from hedgerow.hogql.ast import Expr
from hedgerow.lib.text import cut_short
from hedgerow.persons.model import MAX_GROUP_TYPES

TEXTS = (
    "event",
    "distinct_id",
    "elements_chain",
    "$session_id",
    "$window_id",
    *(f"$group_{number}" for number in range(MAX_GROUP_TYPES)),
)
NEVER_EMPTY = ("event", "distinct_id")
IDS = ("uuid", "person_id")
MOMENTS = ("timestamp", "created_at")


def column_condition(key: str, filter: Mapping[str, Any], place: str, at: Moment) -> Expr:
    column, operator = checked_column(key, f"{place}.key"), checked_operator(filter, place)
    if key in MOMENTS and operator.startswith("is_date"):
        wanted = filter["value"] if isinstance(filter["value"], list) else [filter["value"]]
        return any_of([date_condition(column, operator, each, at) for each in wanted])
    if key in MOMENTS and operator not in (Operator.IS_SET, Operator.IS_NOT_SET):
        detail = "A moment is compared with is_date_exact, is_date_before or is_date_after."
        refuse(f"{place}.operator", detail, "unsupported_operator")
    return condition(column_text(key), operator, filter.get("value"), at)


def checked_column(key: str, place: str) -> Expr:
    if key not in (*TEXTS, *IDS, *MOMENTS):
        refuse(place, f'An event has no column "{cut_short(key)}".', "invalid_choice")
    return field(key)


def column_text(key: str) -> Expr:
    """A column as text; null where it holds none."""
    if key in TEXTS:
        return field(key) if key in NEVER_EMPTY else call("nullIf", field(key), value(""))
    return call("toString", field(key))
