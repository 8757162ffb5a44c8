"""Function lookup: case-insensitive names, with a check of the number of arguments."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from hedgerow.hogql.catalogue import AGGREGATIONS, COMBINATORS, GROUPS, WINDOWS
from hedgerow.hogql.errors import HogQLError, did_you_mean, quote
from hedgerow.hogql.typed_sql import ValueType

_LINE = re.compile(
    r"(?P<name>\w+) (?P<low>\d+)(?P<high>-\d+|\+)?(?: -> (?P<engine>\w+))?(?: : (?P<kind>\w+))?"
)
# The printer has code for these: they depend on the project's time zone, on the current time or on
# another syntax. Each has its minimum and maximum number of arguments.
SPECIAL: dict[str, tuple[int, int]] = {
    "toInt": (1, 1),
    "toFloat": (1, 1),
    "toDecimal": (2, 2),
    "toBool": (1, 1),
    "toString": (1, 2),
    "toUUID": (1, 1),
    "toDate": (1, 1),
    "toDateTime": (1, 2),
    "toDateTime64": (1, 3),
    "timestamp": (1, 2),
    "date": (1, 1),
    "now": (0, 1),
    "now64": (0, 2),
    "today": (0, 0),
    "current_date": (0, 0),
    "yesterday": (0, 0),
    "timezone": (0, 0),
    "dateAdd": (2, 3),
    "date_add": (2, 3),
    "dateSub": (2, 3),
    "date_sub": (2, 3),
    "cast": (2, 2),
    "accurateCast": (2, 2),
    "accurateCastOrNull": (2, 2),
    "_caseWithExpression": (4, 1_000),
    "_toNumber": (1, 1),
    "_mayHaveKey": (2, 2),
    "isNull": (1, 1),
    "isNotNull": (1, 1),
    "exists": (1, 1),
    "matchesAction": (1, 1),
    "flag": (1, 1),
}


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    engine_name: str
    min_args: int
    max_args: int | None
    type: ValueType
    group: str


def _parse_entries(group: str, kind: ValueType, lines: str) -> Iterator[Function]:
    for entry in re.split(r"[|\n]", lines):
        if not entry.strip():
            continue
        match = _LINE.fullmatch(entry.strip())
        assert match is not None, entry
        low, high = int(match["low"]), match["high"]
        yield Function(
            name=match["name"],
            engine_name=match["engine"] or match["name"],
            min_args=low,
            max_args=None if high == "+" else int(high[1:]) if high else low,
            type=ValueType(match["kind"]) if match["kind"] else kind,
            group=group,
        )


FUNCTIONS = {
    function.name: function
    for group, kind, lines in GROUPS
    for function in _parse_entries(group, kind, lines)
} | {
    name: Function(name, name, low, high, ValueType.UNKNOWN, "Special")
    for name, (low, high) in SPECIAL.items()
}
AGGREGATES = {
    function.name: function
    for function in _parse_entries("Aggregations", ValueType.UNKNOWN, AGGREGATIONS)
}
WINDOW_FUNCTIONS = {
    function.name: function
    for function in _parse_entries("Window functions", ValueType.UNKNOWN, WINDOWS)
}
_LOWER = {
    name.lower(): function
    for table in (WINDOW_FUNCTIONS, FUNCTIONS, AGGREGATES)
    for name, function in table.items()
}


def is_aggregate(name: str) -> bool:
    return _find_aggregate(name) is not None


@cache
def _known_names() -> tuple[str, ...]:
    return (*FUNCTIONS, *AGGREGATES, *WINDOW_FUNCTIONS)


def find_function(name: str, count: int, start: int | None, *, in_window: bool = False) -> Function:
    """Find the function with this name. Raises HogQLError for an unknown name or a wrong number of
    arguments."""
    found = _find_aggregate(name) or _find_any_case(name)
    if found is None or (found.name in WINDOW_FUNCTIONS and not in_window):
        hint = did_you_mean(name, _known_names())
        if found is not None:
            hint = "It requires OVER (...)."
        raise HogQLError(f"Unknown function {quote(name)}", start=start, hint=hint)
    if count < found.min_args or (found.max_args is not None and count > found.max_args):
        raise HogQLError(
            f"Function '{name}' expects {_describe_arity(found)}, found {count}", start=start
        )
    return found


def _describe_arity(function: Function) -> str:
    if function.max_args is None:
        return f"at least {_count_arguments(function.min_args)}"
    if function.max_args == function.min_args:
        return _count_arguments(function.min_args)
    return f"{function.min_args} to {_count_arguments(function.max_args)}"


def _count_arguments(count: int) -> str:
    return f"{count} argument{'' if count == 1 else 's'}"


def _find_any_case(name: str) -> Function | None:
    return FUNCTIONS.get(name) or WINDOW_FUNCTIONS.get(name) or _LOWER.get(name.lower())


@cache
def _find_plain_aggregate(lower: str) -> Function | None:
    found = _LOWER.get(lower)
    return found if found is not None and found.name in AGGREGATES else None


def _find_aggregate(name: str) -> Function | None:
    """Find an aggregate function, also with combinators: `sumIf`, `avgOrNull`,
    `countDistinctIf`."""
    if len(name) > 60:
        return None
    plain = AGGREGATES.get(name) or _find_plain_aggregate(name.lower())
    if plain is not None or name in FUNCTIONS:
        return plain
    for ending in COMBINATORS:
        if name.endswith(ending) or name.lower().endswith(ending.lower()):
            inner = _find_aggregate(name[: -len(ending)])
            if inner is not None:
                return _combine(inner, ending)
    return None


def _combine(inner: Function, ending: str) -> Function | None:
    if inner.engine_name.endswith(ending):
        return None
    more = 1 if ending == "If" else 0
    return Function(
        name=inner.name + ending,
        engine_name=inner.engine_name + ending,
        min_args=inner.min_args + more,
        max_args=None if inner.max_args is None else inner.max_args + more,
        type=ValueType.ARRAY if ending == "ForEach" else inner.type,
        group=inner.group,
    )
