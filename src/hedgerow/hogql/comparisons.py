"""Comparison, which never gives NULL: `x = 'a'` is false and `x != 'a'` true when x is NULL."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import re2

from hedgerow.hogql.ast import Compare
from hedgerow.hogql.context import Context, as_number, as_truth
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.kinds import Kind, Piece

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
# Each comparison that is true for a NULL on one side, and its contrary.
POSITIVE = {
    Compare.NOT_EQ: Compare.EQ,
    Compare.NOT_LIKE: Compare.LIKE,
    Compare.NOT_ILIKE: Compare.ILIKE,
    Compare.NOT_REGEX: Compare.REGEX,
    Compare.NOT_IREGEX: Compare.IREGEX,
    Compare.NOT_IN: Compare.IN,
}
_NEGATIVE = frozenset(POSITIVE)
_TEXTUAL = frozenset({Compare.LIKE, Compare.NOT_LIKE, Compare.ILIKE, Compare.NOT_ILIKE})
_REGEX = {
    Compare.REGEX: ("", False),
    Compare.NOT_REGEX: ("", True),
    Compare.IREGEX: ("(?i)", False),
    Compare.NOT_IREGEX: ("(?i)", True),
}
_TIMES = (Kind.DATETIME, Kind.DATE)


def truth(sql: str) -> Piece:
    return Piece(sql, Kind.BOOL, nullable=False)


def compared(
    context: Context, op: Compare, left: Piece, right: Piece, *, is_join: bool = False
) -> Piece:
    """Two values. In the condition of a join NULL stays NULL: the engine wants plain equality."""
    if op in _REGEX:
        return _matched(op, left, right)
    if op in _TEXTUAL:
        left, right = as_text(left), as_text(right)
    else:
        left, right = _instants(*alike(context, left, right))
    plain = f"{FUNCTIONS[op]}({left.sql}, {right.sql})"
    if is_join or not (left.nullable or right.nullable):
        return truth(plain)
    if left.nullable and right.nullable and op in (Compare.EQ, Compare.NOT_EQ):
        both = f"isNull({left.sql}) AND isNull({right.sql})"
        otherwise = both if op is Compare.EQ else f"NOT ({both})"
        return truth(f"ifNull({plain}, {otherwise})")
    return truth(f"ifNull({plain}, {int(op in _NEGATIVE)})")


def with_null(op: Compare, piece: Piece) -> Piece:
    """`x = NULL` asks whether x is NULL."""
    if op is Compare.EQ:
        return truth(f"isNull({piece.sql})")
    if op is Compare.NOT_EQ:
        return truth(f"isNotNull({piece.sql})")
    return truth("true" if op in _NEGATIVE else "false")


def among(context: Context, op: Compare, left: Piece, values: Sequence[object]) -> Piece:
    """`x IN ('a', 'b')` with constants: they go as one array."""
    negative = op in _NEGATIVE
    given = [value for value in values if value is not None]
    left, listed = _array(context, left, given)
    function = "notIn" if negative else "in"
    sql = f"{function}({left.sql}, {listed})" if listed else ("true" if negative else "false")
    if len(given) < len(values):
        null = f"isNotNull({left.sql})" if negative else f"isNull({left.sql})"
        return truth(f"({null} {'AND' if negative else 'OR'} ifNull({sql}, {int(negative)}))")
    return truth(f"ifNull({sql}, {int(negative)})" if left.nullable and listed else sql)


def in_query(op: Compare, left: Piece, query: str) -> Piece:
    negative = op in (Compare.NOT_IN, Compare.NOT_IN_COHORT, Compare.GLOBAL_NOT_IN)
    sql = f"{left.sql} {'NOT IN' if negative else 'IN'} ({query})"
    return truth(f"ifNull({sql}, {int(negative)})" if left.nullable else f"({sql})")


def in_array(op: Compare, left: Piece, array: Piece) -> Piece:
    """`x IN y` with a computed array."""
    has = f"has({array.sql}, {left.sql})"
    return truth(f"not(ifNull({has}, 0))" if op in _NEGATIVE else f"ifNull({has}, 0)")


def alike(context: Context, left: Piece, right: Piece) -> tuple[Piece, Piece]:
    """Both sides in one kind: the text of a property, or a constant, takes that of the other."""
    if _is_text(left) and not _is_text(right):
        return (
            (_taken(context, left, right), right)
            if _yields(left, right)
            else (left, as_text(right))
        )
    if {left.kind, right.kind} in ({Kind.UUID, Kind.NUMBER}, {Kind.UUID, Kind.BOOL}):
        return as_text(left), as_text(right)
    if _is_text(right) and not _is_text(left):
        return (
            (left, _taken(context, right, left)) if _yields(right, left) else (as_text(left), right)
        )
    return left, right


def _instants(left: Piece, right: Piece) -> tuple[Piece, Piece]:
    """Two moments compare alike in every time zone."""
    if left.kind is not Kind.DATETIME or right.kind is not Kind.DATETIME:
        return left, right
    return left.at(left.instant or left.sql), right.at(right.instant or right.sql)


def _is_text(piece: Piece) -> bool:
    return piece.kind is Kind.STRING


def _yields(text: Piece, other: Piece) -> bool:
    """Whether the text takes the other's kind, rather than the other way round."""
    return text.is_loose or text.is_constant or other.kind is not Kind.NUMBER


def _taken(context: Context, text: Piece, other: Piece) -> Piece:
    if other.kind is Kind.NUMBER:
        return replace(text, sql=as_number(text.sql), kind=Kind.NUMBER, nullable=True)
    if other.kind is Kind.BOOL:
        return replace(text, sql=as_truth(text.sql), kind=Kind.BOOL, nullable=True)
    if other.kind is Kind.UUID:
        known = _constant_text(context, text)
        if known is not None and _uuid(known) is not None:
            return context.parameters.constant(_uuid(known))
        return Piece(f"toUUIDOrNull({text.sql})", Kind.UUID)
    if other.kind in _TIMES:
        return time_of(context, text)
    return text


def time_of(context: Context, text: Piece) -> Piece:
    known = _constant_text(context, text)
    moment = None if known is None else context.parsed_constant(known)
    return moment or context.parsed_time(text.sql)


def _constant_text(context: Context, piece: Piece) -> str | None:
    """The constant behind a piece of SQL like `{p3:String}`."""
    if not piece.is_constant:
        return None
    value = context.parameters.values.get(piece.sql[1:].partition(":")[0])
    return value if isinstance(value, str) else None


def as_text(piece: Piece) -> Piece:
    if piece.kind in (Kind.STRING, Kind.PROPERTIES, Kind.UNKNOWN):
        return piece
    return Piece(f"toString({piece.sql})", Kind.STRING, nullable=piece.nullable)


def _matched(op: Compare, left: Piece, right: Piece) -> Piece:
    prefix, negative = _REGEX[op]
    pattern = f"concat('{prefix}', {right.sql})" if prefix else right.sql
    sql = f"match({as_text(left).sql}, {pattern})"
    sql = f"not({sql})" if negative else sql
    nullable = left.nullable or right.nullable
    return truth(f"ifNull({sql}, {int(negative)})" if nullable else sql)


def check_pattern(pattern: str, start: int | None) -> None:
    """A pattern that the engine would refuse is refused here, where we know its place."""
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error:
        raise HogQLError(
            "This is not a regular expression",
            start=start,
            hint="Look-around and references back are not known: the syntax is that of RE2.",
        ) from None


def _array(context: Context, left: Piece, values: list[object]) -> tuple[Piece, str]:
    """The left side and the array to look in, both of one type; an empty text when no value can
    be equal."""
    if left.kind is Kind.UUID:
        ids = [str(known) for value in values if (known := _uuid(value)) is not None]
        return left, context.parameters.add("Array(UUID)", ids) if ids else ""
    if left.kind in _TIMES:
        moments = [time_of(context, context.parameters.constant(str(v))).sql for v in values]
        return left, f"({', '.join(moments)},)" if moments else ""
    if left.kind is Kind.BOOL:
        return left, _booleans(values)
    numbers = [_number(value) for value in values]
    is_numeric = all(isinstance(value, int | float) for value in values)
    if left.kind is Kind.NUMBER or (is_numeric and left.kind is Kind.UNKNOWN):
        return left, _numbers(context, [number for number in numbers if number is not None])
    if is_numeric and left.is_loose and not any(isinstance(value, bool) for value in values):
        finite = [number for number in numbers if number is not None]
        return Piece(as_number(left.sql), Kind.NUMBER), _numbers(context, finite)
    texts = [_text(value) for value in values]
    return left, context.parameters.add("Array(String)", texts) if texts else ""


def uuids(context: Context, values: Sequence[object]) -> str:
    """Those of the values that are ids, as one array, perhaps an empty one."""
    ids = [str(known) for value in values if (known := _uuid(value)) is not None]
    return context.parameters.add("Array(UUID)", ids)


def _numbers(context: Context, numbers: list[int | float]) -> str:
    if not numbers:
        return ""
    whole = all(isinstance(number, int) and -(2**63) <= number < 2**63 for number in numbers)
    return context.parameters.add("Array(Int64)" if whole else "Array(Float64)", numbers)


def _booleans(values: list[object]) -> str:
    known = {True: "true", False: "false", "true": "true", "false": "false"}
    found = [known[value] for value in values if isinstance(value, bool | str) and value in known]
    return f"[{', '.join(found)}]" if found else ""


def _number(value: object) -> int | float | None:
    if isinstance(value, int | float):
        return value
    try:
        return float(str(value))
    except ValueError:
        return None


def _uuid(value: object) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
