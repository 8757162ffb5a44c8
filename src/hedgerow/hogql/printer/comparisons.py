"""Comparisons. They never return NULL: for a NULL x, `x = 'a'` is false and `x != 'a'` is true."""

from collections.abc import Sequence
from uuid import UUID

import re2

from hedgerow.hogql.ast import Compare
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.printer.context import (
    PrinterState,
    bool_from_text,
    number_from_text,
    print_is_not_null,
    print_is_null,
)
from hedgerow.hogql.typed_properties import mark_constants
from hedgerow.hogql.typed_sql import TypedSql, ValueType

FUNCTIONS = {
    Compare.EQ: "equals",
    Compare.NOT_EQ: "notEquals",
    Compare.GT: "greater",
    Compare.GT_EQ: "greaterOrEquals",
    Compare.LT: "less",
    Compare.LT_EQ: "lessOrEquals",
    Compare.LIKE: "like",
    Compare.NOT_LIKE: "notLike",
    Compare.ILIKE: "ilike",
    Compare.NOT_ILIKE: "notILike",
}
# The negative comparisons, which are true for NULL on one side, and their opposites.
POSITIVE_FORMS = {
    Compare.NOT_EQ: Compare.EQ,
    Compare.NOT_LIKE: Compare.LIKE,
    Compare.NOT_ILIKE: Compare.ILIKE,
    Compare.NOT_REGEX: Compare.REGEX,
    Compare.NOT_IREGEX: Compare.IREGEX,
    Compare.NOT_IN: Compare.IN,
}
_NEGATIVE = frozenset(POSITIVE_FORMS)
_TEXTUAL = frozenset({Compare.LIKE, Compare.NOT_LIKE, Compare.ILIKE, Compare.NOT_ILIKE})
_REGEX = {
    Compare.REGEX: ("", False),
    Compare.NOT_REGEX: ("", True),
    Compare.IREGEX: ("(?i)", False),
    Compare.NOT_IREGEX: ("(?i)", True),
}
_TIMES = (ValueType.DATETIME, ValueType.DATE)


def bool_sql(sql: str) -> TypedSql:
    return TypedSql(sql, ValueType.BOOL, nullable=False)


def print_comparison(
    state: PrinterState, op: Compare, left: TypedSql, right: TypedSql, *, is_join: bool = False
) -> TypedSql:
    """Compare two values. In a join condition NULL stays NULL, because ClickHouse requires plain
    equality there."""
    if op in _REGEX:
        return _print_regex_match(op, left, right)
    if op in _TEXTUAL:
        left, right = to_text(left), to_text(right)
    else:
        left, right = _use_instants(*unify_types(state, left, right))
    if op in (Compare.EQ, Compare.NOT_EQ):
        left, right = _compare_marked(state, left, right)
    plain = f"{FUNCTIONS[op]}({left.sql}, {right.sql})"
    if is_join or not (left.nullable or right.nullable):
        return bool_sql(plain)
    if left.nullable and right.nullable and op in (Compare.EQ, Compare.NOT_EQ):
        both = f"isNull({left.sql}) AND isNull({right.sql})"
        otherwise = both if op is Compare.EQ else f"NOT ({both})"
        return bool_sql(f"ifNull({plain}, {otherwise})")
    return bool_sql(f"ifNull({plain}, {int(op in _NEGATIVE)})")


def print_null_comparison(op: Compare, piece: TypedSql) -> TypedSql:
    """Print `x = NULL` as a test for NULL."""
    if op is Compare.EQ:
        return bool_sql(print_is_null(piece))
    if op is Compare.NOT_EQ:
        return bool_sql(print_is_not_null(piece))
    return bool_sql("true" if op in _NEGATIVE else "false")


def print_in_constants(
    state: PrinterState, op: Compare, left: TypedSql, values: Sequence[object]
) -> TypedSql:
    """Print `x IN ('a', 'b')` with the constants as one array."""
    negative = op in _NEGATIVE
    non_null = [value for value in values if value is not None]
    whole = left
    left, listed = _add_constant_array(state, left, non_null)
    function = "notIn" if negative else "in"
    sql = f"{function}({left.sql}, {listed})" if listed else ("true" if negative else "false")
    if len(non_null) < len(values):
        tested = whole if whole.stored and left.sql == whole.stored.marked_text else left
        null = print_is_not_null(tested) if negative else print_is_null(tested)
        return bool_sql(f"({null} {'AND' if negative else 'OR'} ifNull({sql}, {int(negative)}))")
    return bool_sql(f"ifNull({sql}, {int(negative)})" if left.nullable and listed else sql)


def print_in_query(op: Compare, left: TypedSql, query: str) -> TypedSql:
    negative = op in (Compare.NOT_IN, Compare.NOT_IN_COHORT, Compare.GLOBAL_NOT_IN)
    sql = f"{left.sql} {'NOT IN' if negative else 'IN'} ({query})"
    return bool_sql(f"ifNull({sql}, {int(negative)})" if left.nullable else f"({sql})")


def print_in_array(op: Compare, left: TypedSql, array: TypedSql) -> TypedSql:
    """Print `x IN y` for a computed array."""
    has = f"has({array.sql}, {left.sql})"
    return bool_sql(f"not(ifNull({has}, 0))" if op in _NEGATIVE else f"ifNull({has}, 0)")


def unify_types(state: PrinterState, left: TypedSql, right: TypedSql) -> tuple[TypedSql, TypedSql]:
    """Convert both sides to one type. An untyped property or a constant takes the type of the other
    side."""
    if _is_text(left) and not _is_text(right):
        return (
            (_convert_text(state, left, right), right)
            if _adopts_type(left, right)
            else (left, to_text(right))
        )
    if {left.type, right.type} in (
        {ValueType.UUID, ValueType.NUMBER},
        {ValueType.UUID, ValueType.BOOL},
    ):
        return to_text(left), to_text(right)
    if _is_text(right) and not _is_text(left):
        return (
            (left, _convert_text(state, right, left))
            if _adopts_type(right, left)
            else (to_text(left), right)
        )
    return left, right


def _use_instants(left: TypedSql, right: TypedSql) -> tuple[TypedSql, TypedSql]:
    """Compare two times without converting them to the project's time zone."""
    if left.type is not ValueType.DATETIME or right.type is not ValueType.DATETIME:
        return left, right
    return left.with_sql(left.instant or left.sql), right.with_sql(right.instant or right.sql)


def _compare_marked(
    state: PrinterState, left: TypedSql, right: TypedSql
) -> tuple[TypedSql, TypedSql]:
    """Compare a stored property with a constant in its stored form."""
    if left.is_constant and right.stored is not None:
        left, right = right, left
    text = _constant_text(state, right)
    if left.stored is None or text is None or (marked := mark_constants([text])) is None:
        return left, right
    stored = TypedSql(left.stored.marked_text, ValueType.STRING)
    return stored, state.parameters.add_constant(marked[0])


def _is_text(piece: TypedSql) -> bool:
    return piece.type is ValueType.STRING


def _adopts_type(text: TypedSql, other: TypedSql) -> bool:
    """Return whether the text is converted to the type of the other side, and not the reverse."""
    return text.is_untyped or text.is_constant or other.type is not ValueType.NUMBER


def _convert_text(state: PrinterState, text: TypedSql, other: TypedSql) -> TypedSql:
    if other.type is ValueType.NUMBER:
        return TypedSql(number_from_text(text), ValueType.NUMBER)
    if other.type is ValueType.BOOL:
        return TypedSql(bool_from_text(text), ValueType.BOOL)
    if other.type is ValueType.UUID:
        known = _constant_text(state, text)
        if known is not None and _parse_uuid(known) is not None:
            return state.parameters.add_constant(_parse_uuid(known))
        return TypedSql(f"toUUIDOrNull({text.sql})", ValueType.UUID)
    if other.type in _TIMES:
        return time_from_text(state, text)
    return text


def time_from_text(state: PrinterState, text: TypedSql) -> TypedSql:
    known = _constant_text(state, text)
    moment = None if known is None else state.parse_time_constant(known)
    return moment or state.parse_time(text.sql)


def _constant_text(state: PrinterState, piece: TypedSql) -> str | None:
    """Return the constant behind a placeholder such as `{p3:String}`."""
    if not piece.is_constant:
        return None
    value = state.parameters.values.get(piece.sql[1:].partition(":")[0])
    return value if isinstance(value, str) else None


def to_text(piece: TypedSql) -> TypedSql:
    if piece.type in (ValueType.STRING, ValueType.PROPERTIES, ValueType.UNKNOWN):
        return piece
    return TypedSql(f"toString({piece.sql})", ValueType.STRING, nullable=piece.nullable)


def _print_regex_match(op: Compare, left: TypedSql, right: TypedSql) -> TypedSql:
    prefix, negative = _REGEX[op]
    pattern = f"concat('{prefix}', {right.sql})" if prefix else right.sql
    sql = f"match({to_text(left).sql}, {pattern})"
    sql = f"not({sql})" if negative else sql
    nullable = left.nullable or right.nullable
    return bool_sql(f"ifNull({sql}, {int(negative)})" if nullable else sql)


def check_regex(pattern: str, start: int | None) -> None:
    """Raise HogQLError for an invalid pattern, with its position, which the event store's error
    lacks."""
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error:
        raise HogQLError(
            "Invalid regular expression",
            start=start,
            hint="The syntax is that of RE2: lookaround and backreferences are not supported.",
        ) from None


def _add_constant_array(
    state: PrinterState, left: TypedSql, values: list[object]
) -> tuple[TypedSql, str]:
    """Return the left side and an array of the same type. The array is empty text if no value can
    match."""
    if left.type is ValueType.UUID:
        ids = [str(known) for value in values if (known := _parse_uuid(value)) is not None]
        return left, state.parameters.add("Array(UUID)", ids) if ids else ""
    if left.type in _TIMES:
        moments = [time_from_text(state, state.parameters.add_constant(str(v))).sql for v in values]
        return left, f"({', '.join(moments)},)" if moments else ""
    if left.type is ValueType.BOOL:
        return left, _print_bool_array(values)
    numbers = [_parse_number(value) for value in values]
    is_numeric = all(isinstance(value, int | float) for value in values)
    if left.type is ValueType.NUMBER or (is_numeric and left.type is ValueType.UNKNOWN):
        return left, _add_number_array(state, [number for number in numbers if number is not None])
    if is_numeric and left.is_untyped and not any(isinstance(value, bool) for value in values):
        finite = [number for number in numbers if number is not None]
        return TypedSql(number_from_text(left), ValueType.NUMBER), _add_number_array(state, finite)
    texts = [_format_constant(value) for value in values]
    if left.stored is not None and (marked := mark_constants(texts)) is not None:
        left, texts = TypedSql(left.stored.marked_text, ValueType.STRING), marked
    return left, state.parameters.add("Array(String)", texts) if texts else ""


def add_uuid_array(state: PrinterState, values: Sequence[object]) -> str:
    """Bind the values that are UUIDs as one array, possibly empty."""
    ids = [str(known) for value in values if (known := _parse_uuid(value)) is not None]
    return state.parameters.add("Array(UUID)", ids)


def _add_number_array(state: PrinterState, numbers: list[int | float]) -> str:
    if not numbers:
        return ""
    whole = all(isinstance(number, int) and -(2**63) <= number < 2**63 for number in numbers)
    return state.parameters.add("Array(Int64)" if whole else "Array(Float64)", numbers)


def _print_bool_array(values: list[object]) -> str:
    known = {True: "true", False: "false", "true": "true", "false": "false"}
    found = [known[value] for value in values if isinstance(value, bool | str) and value in known]
    return f"[{', '.join(found)}]" if found else ""


def _parse_number(value: object) -> int | float | None:
    if isinstance(value, int | float):
        return value
    try:
        return float(str(value))
    except ValueError:
        return None


def _parse_uuid(value: object) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None


def _format_constant(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
