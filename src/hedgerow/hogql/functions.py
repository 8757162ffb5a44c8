"""Looking up what a query calls: by name in any case, with the number of arguments checked."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from hedgerow.hogql.catalogue import AGGREGATIONS, COMBINATORS, GROUPS, WINDOWS
from hedgerow.hogql.errors import HogQLError, did_you_mean, shown
from hedgerow.hogql.kinds import Kind

_LINE = re.compile(
    r"(?P<name>\w+) (?P<low>\d+)(?P<high>-\d+|\+)?(?: -> (?P<engine>\w+))?(?: : (?P<kind>\w+))?"
)
# Read by the printer itself, since they need the project's time zone, the time or another
# spelling: name to the least and the greatest number of arguments.
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
    "isNull": (1, 1),
    "isNotNull": (1, 1),
    "exists": (1, 1),
}


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    engine: str
    low: int
    high: int | None
    kind: Kind
    group: str


def _read(group: str, kind: Kind, lines: str) -> Iterator[Function]:
    for entry in re.split(r"[|\n]", lines):
        if not entry.strip():
            continue
        match = _LINE.fullmatch(entry.strip())
        assert match is not None, entry
        low, high = int(match["low"]), match["high"]
        yield Function(
            name=match["name"],
            engine=match["engine"] or match["name"],
            low=low,
            high=None if high == "+" else int(high[1:]) if high else low,
            kind=Kind(match["kind"]) if match["kind"] else kind,
            group=group,
        )


FUNCTIONS = {
    function.name: function
    for group, kind, lines in GROUPS
    for function in _read(group, kind, lines)
} | {
    name: Function(name, name, low, high, Kind.UNKNOWN, "Special")
    for name, (low, high) in SPECIAL.items()
}
AGGREGATES = {
    function.name: function for function in _read("Aggregations", Kind.UNKNOWN, AGGREGATIONS)
}
WINDOWED = {
    function.name: function for function in _read("Window functions", Kind.UNKNOWN, WINDOWS)
}
_LOWER = {
    name.lower(): function
    for table in (WINDOWED, FUNCTIONS, AGGREGATES)
    for name, function in table.items()
}


def is_aggregate(name: str) -> bool:
    return _aggregate(name) is not None


@cache
def _known_names() -> tuple[str, ...]:
    return (*FUNCTIONS, *AGGREGATES, *WINDOWED)


def function(name: str, count: int, start: int | None, *, in_window: bool = False) -> Function:
    """The function of this name for this many arguments, or an error that helps."""
    found = _aggregate(name) or _any_case(name)
    if found is None or (found.name in WINDOWED and not in_window):
        hint = did_you_mean(name, _known_names())
        if found is not None:
            hint = "It needs an OVER (...)."
        raise HogQLError(f"Unknown function {shown(name)}", start=start, hint=hint)
    if count < found.low or (found.high is not None and count > found.high):
        raise HogQLError(
            f"Function '{name}' expects {_expected(found)}, found {count}", start=start
        )
    return found


def _expected(function: Function) -> str:
    if function.high is None:
        return f"at least {_arguments(function.low)}"
    if function.high == function.low:
        return _arguments(function.low)
    return f"{function.low} to {_arguments(function.high)}"


def _arguments(count: int) -> str:
    return f"{count} argument{'' if count == 1 else 's'}"


def _any_case(name: str) -> Function | None:
    return FUNCTIONS.get(name) or WINDOWED.get(name) or _LOWER.get(name.lower())


@cache
def _plain_aggregate(lower: str) -> Function | None:
    found = _LOWER.get(lower)
    return found if found is not None and found.name in AGGREGATES else None


def _aggregate(name: str) -> Function | None:
    """An aggregation, with endings perhaps: `sumIf`, `avgOrNull`, `countDistinctIf`."""
    if len(name) > 60:
        return None
    plain = AGGREGATES.get(name) or _plain_aggregate(name.lower())
    if plain is not None or name in FUNCTIONS:
        return plain
    for ending in COMBINATORS:
        if name.endswith(ending) or name.lower().endswith(ending.lower()):
            inner = _aggregate(name[: -len(ending)])
            if inner is not None:
                return _combined(inner, ending)
    return None


def _combined(inner: Function, ending: str) -> Function | None:
    if inner.engine.endswith(ending):
        return None
    more = 1 if ending == "If" else 0
    return Function(
        name=inner.name + ending,
        engine=inner.engine + ending,
        low=inner.low + more,
        high=None if inner.high is None else inner.high + more,
        kind=Kind.ARRAY if ending == "ForEach" else inner.kind,
        group=inner.group,
    )
