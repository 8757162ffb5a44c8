"""The values of an event property, for autocompletion."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.filters.columns import column_as_text, validate_column
from hedgerow.events.filters.conditions import QueryTime, build_condition
from hedgerow.events.listing.clauses import EVENTS_TABLE
from hedgerow.events.listing.parameters import ParameterReader, ParameterValues
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.events.store import QueryLimits
from hedgerow.filters.operators import Operator
from hedgerow.filters.values import as_text
from hedgerow.hogql.ast import Compare, Expr, OrderExpr, SelectQuery
from hedgerow.hogql.builders import (
    all_of,
    call,
    compare,
    constant,
    false_if_null,
    field,
    in_list,
    negate,
)
from hedgerow.lib import jsonio
from hedgerow.projects.model import Project
from hedgerow.projects.validation import check_storable, parse_date_parameter

MAX_VALUES = 10
MAX_EVENT_NAMES = 1_000
CUSTOM_EVENT = "custom_event"
MAX_PARAMETERS = 100
FILTER_PREFIX = "properties_"
# Suggestions that arrive late are useless, so a timeout returns the values found so far.
VALUES_LIMITS = QueryLimits(
    timeout_s=5.0, max_rows=0, max_bytes=32 << 20, is_partial_on_timeout=True
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyValuesQuery:
    """The values of `key` that contain `part`, in events with these names that match the
    filters."""

    key: str
    part: str
    events: Sequence[str]
    is_column: bool
    filters: Sequence[tuple[str, Any]]


def parse_values_query(
    parameters: ParameterValues, names: Sequence[str]
) -> PropertyValuesQuery | None:
    """Parse the parameters. Returns None without a key. `names` are the names of all parameters."""
    reader = ParameterReader(parameters)
    key, events = reader.text("key"), reader.texts("event_name")
    if not key:
        return None
    if len(events) > MAX_PARAMETERS or len(names) > MAX_PARAMETERS:
        raise Invalid(f"Expected at most {MAX_PARAMETERS} values.", attr="event_name")
    return PropertyValuesQuery(
        key=key,
        part=reader.text("value"),
        events=events,
        is_column=reader.boolean("is_column", default=False),
        filters=[
            (name.removeprefix(FILTER_PREFIX), _parse_filter_values(reader.text(name), name))
            for name in dict.fromkeys(names)
            if name.startswith(FILTER_PREFIX) and name != FILTER_PREFIX
        ],
    )


def _parse_filter_values(text: str, name: str) -> list[Any]:
    """Parse a JSON value or a list. Text that is not JSON is a string."""
    try:
        found = jsonio.parse(text.encode("utf-8", "surrogatepass"))
    except jsonio.JsonError:
        return [text]
    values = found if isinstance(found, list) else [found]
    check_storable(values, name)
    return values


class PropertyValues:
    def __init__(self, executor: QueryExecutor) -> None:
        self._executor = executor

    async def list_values(
        self, project: Project, query: PropertyValuesQuery, now: datetime
    ) -> list[str]:
        """List the values from the start of the day seven days ago to the end of today."""
        context = await self._executor.build_context(project, now)
        answer = await self._executor.execute(
            context, lambda: _build_query(query, context.time), VALUES_LIMITS
        )
        texts = [row[0] for row in answer.rows]
        if query.key == CUSTOM_EVENT:
            return texts
        names = dict.fromkeys(name for each in texts for name in _split_value(each))
        # URLs that differ in a trailing slash are one page.
        is_page = query.key == "$current_url" and list(query.events) == ["$pageview"]
        return list({name.rstrip("/"): name for name in names}.values()) if is_page else [*names]


def _build_query(query: PropertyValuesQuery, time: QueryTime) -> SelectQuery:
    start = parse_date_parameter("-7dStart", time.now, time.zone, "after")
    end = parse_date_parameter("+1dStart", time.now, time.zone, "before")
    where: list[Expr] = [
        compare(field("timestamp"), Compare.GT_EQ, constant(start)),
        compare(field("timestamp"), Compare.LT, constant(end)),
    ]
    shown, order = _value_expression(query), list[OrderExpr]()
    if query.key == CUSTOM_EVENT:
        order = [OrderExpr(expr=shown)]
        where.append(negate(call("startsWith", shown, constant("$"))))
    else:
        where.append(call("isNotNull", shown))
    if query.part:
        position = call("positionCaseInsensitiveUTF8", shown, constant(query.part))
        where.append(false_if_null(compare(position, Compare.GT, constant(0))))
        order = [OrderExpr(expr=call("length", shown)), OrderExpr(expr=shown)]
    if query.events:
        where.append(in_list(field("event"), query.events))
    for key, values in query.filters:
        where.append(build_condition(field("properties", key), Operator.EXACT, values, time))
    return SelectQuery(
        select=[shown],
        source=EVENTS_TABLE,
        distinct=True,
        where=all_of(where),
        order_by=order,
        limit=constant(MAX_EVENT_NAMES if query.key == CUSTOM_EVENT else MAX_VALUES),
    )


def _value_expression(query: PropertyValuesQuery) -> Expr:
    if query.key == CUSTOM_EVENT:
        return field("event")
    if query.is_column:
        validate_column(query.key, "key")
        return column_as_text(query.key)
    return field("properties", query.key)


def _split_value(text: str) -> Iterator[str]:
    """Yield a value as text, or each element of a list."""
    try:
        found = jsonio.parse(text.encode())
    except jsonio.JsonError:
        yield text
        return
    if isinstance(found, list):
        yield from map(as_text, _flatten(found))
    else:
        yield as_text(found) if isinstance(found, dict) else text


def _flatten(found: list[Any]) -> Iterator[Any]:
    for each in found:
        yield from _flatten(each) if isinstance(each, list) else [each]
