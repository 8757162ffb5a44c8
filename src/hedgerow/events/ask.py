"""What a request for a list of events asks, read from its parameters. Invalid names the one that
cannot be read.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.cursor import Cursor, read_cursor
from hedgerow.events.dates import asked_moment
from hedgerow.events.parameters import Parameters, Reader

DEFAULT_LIMIT = 100
MAX_LIMIT = 10_000
MAX_OFFSET = 50_000
# Clocks differ: an event may come from a moment ahead.
AHEAD = timedelta(seconds=5)

_DESCENDING = re.compile(r"-\s*timestamp|timestamp\s+desc", re.IGNORECASE)
_ASCENDING = re.compile(r"timestamp(\s+asc)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`limit` None: all there are. `select` None: whole events."""

    after: datetime | None
    before: datetime
    event: str
    distinct_id: str
    person: str
    properties: Sequence[Any]
    select: Sequence[str] | None
    where: Sequence[str]
    order: Sequence[str]
    cursor: Cursor | None
    limit: int | None
    offset: int
    include_person: bool

    @property
    def said(self) -> Sequence[Any]:
        """All filters and all HogQL."""
        return [self.properties, self.select, self.where, self.order]

    @property
    def texts(self) -> Sequence[tuple[str, str]]:
        """All HogQL, and which parameter it is in."""
        named = {
            "select": self.select or (),
            "where": self.where,
            "orderBy": self.order,
            "properties": list(_hogql_in(self.properties)),
        }
        return [(name, text) for name, texts in named.items() for text in texts if _is_own(text)]

    @property
    def is_ascending(self) -> bool:
        return len(self.order) == 1 and _ASCENDING.fullmatch(self.order[0]) is not None

    @property
    def is_by_time(self) -> bool:
        if len(self.order) > 1:
            return False
        return not self.order or self.is_ascending or bool(_DESCENDING.fullmatch(self.order[0]))


def asked(parameters: Parameters, now: datetime, zone: tzinfo, *, has_cap: bool) -> Asked:
    """`has_cap`: whether the answer is one page, whose size is bounded."""
    reader = Reader(parameters)
    after, before = reader.text("after"), reader.text("before")
    limit = reader.number("limit", least=1)
    offset = reader.number("offset", least=0) or 0
    if offset > MAX_OFFSET:
        detail = f"Offset is deprecated. Max supported offset value is {MAX_OFFSET}"
        raise Invalid(detail, attr="offset")
    cursor = reader.text("cursor")
    wish = Asked(
        after=asked_moment(after, now, zone, "after") if after not in ("", "all") else None,
        before=now + AHEAD if before in ("", "all") else asked_moment(before, now, zone, "before"),
        event=reader.text("event"),
        distinct_id=reader.text("distinct_id"),
        person=reader.text("person_id"),
        properties=reader.filters("properties"),
        select=_selected(reader.expressions("select")),
        where=reader.expressions("where") or (),
        order=reader.expressions("orderBy") or (),
        cursor=read_cursor(cursor) if cursor else None,
        limit=min(limit or DEFAULT_LIMIT, MAX_LIMIT) if has_cap else limit,
        offset=offset,
        include_person=reader.truth("include_person", otherwise=True),
    )
    if wish.select is None and not wish.is_by_time:
        detail = "Without select, events come by time: -timestamp or timestamp."
        raise Invalid(detail, attr="orderBy")
    return wish


def _hogql_in(node: Any) -> Iterator[str]:
    """The expressions in filters, and in groups of them."""
    if isinstance(node, list):
        for each in node:
            yield from _hogql_in(each)
    elif isinstance(node, dict) and "values" in node:
        yield from _hogql_in(node["values"])
    elif (
        isinstance(node, dict) and node.get("type") == "hogql" and isinstance(node.get("key"), str)
    ):
        yield node["key"]


def _is_own(text: str) -> bool:
    """Whether it is HogQL, and nothing that only `select` and `orderBy` know."""
    return text.strip() not in ("*", "person") and not text.lstrip().startswith("-")


def _selected(expressions: Sequence[str] | None) -> Sequence[str] | None:
    """An empty list is all that an event has."""
    return ["*"] if expressions is not None and not expressions else expressions
