"""Which values a property of events has, for those who choose one from a list."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.columns import checked_column, column_text
from hedgerow.events.conditions import Moment, condition
from hedgerow.events.dates import asked_moment
from hedgerow.events.expressions import all_of, among, call, compared, field, not_, surely, value
from hedgerow.events.parameters import Parameters, Reader
from hedgerow.events.question import EVENTS
from hedgerow.events.reading import Reading
from hedgerow.events.store import Limits
from hedgerow.filters.operators import Operator
from hedgerow.filters.values import as_text
from hedgerow.hogql.ast import Compare, Expr, OrderExpr, SelectQuery
from hedgerow.lib import jsonio
from hedgerow.projects.model import Project
from hedgerow.projects.text import check_storable

MOST = 10
MOST_EVENTS = 1_000
CUSTOM_EVENT = "custom_event"
MAX_NAMES = 100
FILTER = "properties_"
# A list to choose from that comes late is of no use: what is found by then will do.
LIMITS = Limits(timeout_s=5.0, max_rows=0, max_bytes=32 << 20, is_enough_in_time=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesAsked:
    """Values of `key` that hold `part`, of events of these names for which the filters hold."""

    key: str
    part: str
    events: Sequence[str]
    is_column: bool
    filters: Sequence[tuple[str, Any]]


def asked_values(parameters: Parameters, names: Sequence[str]) -> ValuesAsked | None:
    """None for the bare call, which asks for nothing. `names` are those of all parameters."""
    reader = Reader(parameters)
    key, events = reader.text("key"), reader.texts("event_name")
    if not key:
        return None
    if len(events) > MAX_NAMES or len(names) > MAX_NAMES:
        raise Invalid(f"At most {MAX_NAMES} are possible.", attr="event_name")
    return ValuesAsked(
        key=key,
        part=reader.text("value"),
        events=events,
        is_column=reader.truth("is_column", otherwise=False),
        filters=[
            (name.removeprefix(FILTER), _wanted(reader.text(name), name))
            for name in dict.fromkeys(names)
            if name.startswith(FILTER) and name != FILTER
        ],
    )


def _wanted(text: str, name: str) -> list[Any]:
    """A JSON value or a list of them; what is no JSON is a text."""
    try:
        found = jsonio.parse(text.encode("utf-8", "surrogatepass"))
    except jsonio.JsonError:
        return [text]
    wanted = found if isinstance(found, list) else [found]
    check_storable(wanted, name)
    return wanted


class Values:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    async def of(self, project: Project, asked: ValuesAsked, now: datetime) -> list[str]:
        """From the beginning of the day seven days ago to the end of today."""
        around = await self._reading.surroundings(project, now)
        answer = await self._reading.read(around, lambda: _query(asked, around.at), LIMITS)
        texts = [row[0] for row in answer.rows]
        if asked.key == CUSTOM_EVENT:
            return texts
        names = dict.fromkeys(name for each in texts for name in _names(each))
        # The same page with a slash at its end is the same page.
        is_page = asked.key == "$current_url" and list(asked.events) == ["$pageview"]
        return list({name.rstrip("/"): name for name in names}.values()) if is_page else [*names]


def _query(asked: ValuesAsked, at: Moment) -> SelectQuery:
    start = asked_moment("-7dStart", at.now, at.zone, "after")
    end = asked_moment("+1dStart", at.now, at.zone, "before")
    where: list[Expr] = [
        compared(field("timestamp"), Compare.GT_EQ, value(start)),
        compared(field("timestamp"), Compare.LT, value(end)),
    ]
    shown, order = _shown(asked), list[OrderExpr]()
    if asked.key == CUSTOM_EVENT:
        order = [OrderExpr(expr=shown)]
        where.append(not_(call("startsWith", shown, value("$"))))
    else:
        where.append(call("isNotNull", shown))
    if asked.part:
        position = call("positionCaseInsensitiveUTF8", shown, value(asked.part))
        where.append(surely(compared(position, Compare.GT, value(0))))
        order = [OrderExpr(expr=call("length", shown)), OrderExpr(expr=shown)]
    if asked.events:
        where.append(among(field("event"), asked.events))
    for key, wanted in asked.filters:
        where.append(condition(field("properties", key), Operator.EXACT, wanted, at))
    return SelectQuery(
        select=[shown],
        source=EVENTS,
        distinct=True,
        where=all_of(where),
        order_by=order,
        limit=value(MOST_EVENTS if asked.key == CUSTOM_EVENT else MOST),
    )


def _shown(asked: ValuesAsked) -> Expr:
    if asked.key == CUSTOM_EVENT:
        return field("event")
    if asked.is_column:
        checked_column(asked.key, "key")
        return column_text(asked.key)
    return field("properties", asked.key)


def _names(text: str) -> Iterator[str]:
    """A value as text; each of those in a list."""
    try:
        found = jsonio.parse(text.encode())
    except jsonio.JsonError:
        yield text
        return
    if isinstance(found, list):
        yield from map(as_text, _flat(found))
    else:
        yield as_text(found) if isinstance(found, dict) else text


def _flat(found: list[Any]) -> Iterator[Any]:
    for each in found:
        yield from _flat(each) if isinstance(each, list) else [each]
