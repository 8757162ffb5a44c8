"""What a request for a list of events asks, read from its parameters. Invalid names the one that
cannot be read.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.cursor import Cursor, read_cursor
from hedgerow.events.dates import asked_moment
from hedgerow.kit import jsonio
from hedgerow.kit.text import whole_number, why_unstorable
from hedgerow.projects.text import check_storable
from hedgerow.properties.operators import operator_named

DEFAULT_LIMIT = 100
MAX_LIMIT = 10_000
MAX_OFFSET = 50_000
# Clocks differ: an event may come from a moment ahead.
AHEAD = timedelta(seconds=5)
MAX_EXPRESSIONS = 100

_DESCENDING = re.compile(r"-\s*timestamp|timestamp\s+desc", re.IGNORECASE)
_ASCENDING = re.compile(r"timestamp(\s+asc)?", re.IGNORECASE)

# All values of a parameter, in their order.
Parameters = Callable[[str], Sequence[str]]


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
        named = {"select": self.select or (), "where": self.where, "orderBy": self.order}
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
    reader = _Reader(parameters)
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
        include_person=reader.truth("include_person"),
    )
    if wish.select is None and not wish.is_by_time:
        detail = "Without select, events come by time: -timestamp or timestamp."
        raise Invalid(detail, attr="orderBy")
    return wish


def _is_own(text: str) -> bool:
    """Whether it is HogQL, and nothing that only `select` and `orderBy` know."""
    return text.strip() not in ("*", "person") and not text.lstrip().startswith("-")


def _selected(expressions: Sequence[str] | None) -> Sequence[str] | None:
    """An empty list is all that an event has."""
    return ["*"] if expressions is not None and not expressions else expressions


class _Reader:
    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters

    def text(self, name: str) -> str:
        """The last value of a parameter; "" if there is none."""
        text = next(iter(reversed(self._parameters(name))), "")
        if unstorable := why_unstorable(text):
            raise Invalid(unstorable[1], attr=name, code=unstorable[0])
        return text

    def number(self, name: str, *, least: int) -> int | None:
        text = self.text(name)
        number = whole_number(text) if text else None
        if text and (number is None or number < least):
            raise Invalid(f"A whole number from {least} up is required.", attr=name)
        return number

    def truth(self, name: str) -> bool:
        text = self.text(name).lower()
        if text not in ("", "true", "1", "false", "0"):
            raise Invalid("Must be a valid boolean.", attr=name)
        return text in ("", "true", "1")

    def filters(self, name: str) -> Sequence[Any]:
        """A JSON list of filters, or one filter or group; repeated, all of them."""
        found: list[Any] = []
        for text in filter(None, self._parameters(name)):
            value = _json(text, name, "Properties are unparsable!")
            found += value if isinstance(value, list) else _filters(value)
        check_storable(found, name)
        return found

    def expressions(self, name: str) -> list[str] | None:
        """HogQL: a JSON list of texts, or texts; repeated, all of them. None if there is none."""
        sent = self._parameters(name)
        if not any(sent):
            return None
        found: list[str] = []
        for text in filter(None, sent):
            found += _texts(text, name)
        if len(found) > MAX_EXPRESSIONS:
            raise Invalid(f"At most {MAX_EXPRESSIONS} expressions are possible.", attr=name)
        for text in found:
            if unstorable := why_unstorable(text):
                raise Invalid(unstorable[1], attr=name, code=unstorable[0])
        return found


def _filters(sent: Any) -> list[Any]:
    """One filter or group; or the oldest form, an object of names and values, where a name may end
    in an operator: `{"plan": "pro", "age__gt": 20}`."""
    if not isinstance(sent, dict) or not sent.keys().isdisjoint(("key", "values", "type")):
        return [sent]
    return [_old_filter(name, value) for name, value in sent.items()]


def _old_filter(name: str, value: Any) -> dict[str, Any]:
    key, _, operator = name.rpartition("__")
    if key and operator_named(operator) is not None:
        return {"key": key, "value": value, "operator": operator}
    return {"key": name, "value": value}


def _texts(text: str, name: str) -> list[str]:
    if not text.lstrip().startswith("["):
        return [text]
    value = _json(text, name, "A JSON list of expressions is required.")
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Invalid("A JSON list of expressions is required.", attr=name, code="not_a_list")
    return value


def _json(text: str, name: str, detail: str) -> Any:
    try:
        return jsonio.parse(text.encode("utf-8", "surrogatepass"))
    except jsonio.JsonError:
        raise Invalid(detail, attr=name) from None
