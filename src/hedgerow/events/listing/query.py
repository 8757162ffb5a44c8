"""The parameters of an events listing. Raises Invalid with the name of an invalid parameter."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.listing.cursor import EventCursor, parse_cursor
from hedgerow.events.listing.parameters import ParameterReader, ParameterValues
from hedgerow.projects.validation import parse_date_parameter

DEFAULT_LIMIT = 100
MAX_LIMIT = 10_000
MAX_OFFSET = 50_000
# Clocks differ, so the default end of a listing lies a little in the future.
MAX_CLOCK_SKEW = timedelta(seconds=5)

_DESCENDING = re.compile(r"-\s*timestamp|timestamp\s+desc", re.IGNORECASE)
_ASCENDING = re.compile(r"timestamp(\s+asc)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsQuery:
    """A parsed query. A `limit` of None means all events, a `select` of None whole events."""

    after: datetime | None
    before: datetime
    event: str
    distinct_id: str
    person: str
    properties: Sequence[Any]
    select: Sequence[str] | None
    where: Sequence[str]
    order: Sequence[str]
    cursor: EventCursor | None
    limit: int | None
    offset: int
    include_person: bool
    # Events of an action. An unknown one has none, or is an error if `requires_action`.
    action_id: int | None = None
    requires_action: bool = False

    @property
    def documents(self) -> Sequence[Any]:
        """All filters and HogQL of the query."""
        named = {} if self.action_id is None else {"action_id": self.action_id}
        return [self.properties, self.select, self.where, self.order, named]

    @property
    def hogql_texts(self) -> Sequence[tuple[str, str]]:
        """All HogQL with the names of its parameters."""
        named = {
            "select": self.select or (),
            "where": self.where,
            "orderBy": self.order,
            "properties": list(_iter_hogql(self.properties)),
        }
        return [
            (name, text) for name, texts in named.items() for text in texts if _is_expression(text)
        ]

    @property
    def is_ascending(self) -> bool:
        return len(self.order) == 1 and _ASCENDING.fullmatch(self.order[0]) is not None

    @property
    def is_by_time(self) -> bool:
        if len(self.order) > 1:
            return False
        return not self.order or self.is_ascending or bool(_DESCENDING.fullmatch(self.order[0]))


def parse_events_query(
    parameters: ParameterValues, now: datetime, zone: tzinfo, *, has_cap: bool
) -> EventsQuery:
    """Parse the parameters. With `has_cap`, the response is one page of bounded size."""
    reader = ParameterReader(parameters)
    after, before = reader.text("after"), reader.text("before")
    limit = reader.integer("limit", minimum=1)
    offset = reader.integer("offset", minimum=0) or 0
    if offset > MAX_OFFSET:
        detail = f"Offset is deprecated. Max supported offset value is {MAX_OFFSET}"
        raise Invalid(detail, attr="offset")
    cursor = reader.text("cursor")
    query = EventsQuery(
        after=parse_date_parameter(after, now, zone, "after") if after not in ("", "all") else None,
        before=now + MAX_CLOCK_SKEW
        if before in ("", "all")
        else parse_date_parameter(before, now, zone, "before"),
        event=reader.text("event"),
        distinct_id=reader.text("distinct_id"),
        person=reader.text("person_id"),
        properties=reader.filters("properties"),
        select=_default_select(reader.expressions("select")),
        where=reader.expressions("where") or (),
        order=reader.expressions("orderBy") or (),
        cursor=parse_cursor(cursor) if cursor else None,
        limit=min(limit or DEFAULT_LIMIT, MAX_LIMIT) if has_cap else limit,
        offset=offset,
        include_person=reader.boolean("include_person", default=True),
        action_id=reader.integer("action_id", minimum=0),
    )
    if query.select is None and not query.is_by_time:
        detail = "Without `select`, `orderBy` must be timestamp or -timestamp."
        raise Invalid(detail, attr="orderBy")
    return query


def _iter_hogql(node: Any) -> Iterator[str]:
    """Yield the HogQL in filters and groups of filters."""
    if isinstance(node, list):
        for each in node:
            yield from _iter_hogql(each)
    elif isinstance(node, dict) and "values" in node:
        yield from _iter_hogql(node["values"])
    elif (
        isinstance(node, dict) and node.get("type") == "hogql" and isinstance(node.get("key"), str)
    ):
        yield node["key"]


def _is_expression(text: str) -> bool:
    """Return whether the text is HogQL and not syntax of `select` or `orderBy` only."""
    return text.strip() not in ("*", "person") and not text.lstrip().startswith("-")


def _default_select(expressions: Sequence[str] | None) -> Sequence[str] | None:
    """Return the expressions. An empty list selects all columns of an event."""
    return ["*"] if expressions is not None and not expressions else expressions
