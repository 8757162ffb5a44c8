"""All events of a project and a time, in files: which, in what order, and where to go on.

They are read by time and uuid, a page after another, each from where the one before ended. Only
those count that had been accepted when it began, so that what arrives meanwhile changes nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.errors import Invalid

COLUMNS = (
    "uuid",
    "event",
    "distinct_id",
    "timestamp",
    "created_at",
    "properties",
    "elements_chain",
    "person_id",
)
AT_ONCE = 10_000
# Where events are large, a page holds so many times fewer of them, and if need be again.
FEWER = 8
TOO_MUCH = "query_limit_exceeded"

Row = Sequence[Any]
# Runs HogQL with these values; Invalid for what cannot be answered.
Ask = Callable[[str, Mapping[str, Any]], Sequence[Row]]


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted, as it was said. `after` and `before` may be empty."""

    format: str
    project: int | None
    after: str
    before: str
    event: str


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """What that came to when it began."""

    after: datetime | None
    before: datetime | None
    as_of: datetime
    event: str


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The last event of a file."""

    timestamp: datetime
    uuid: str


class Written(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    events: int
    end: Place


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """What has been written, kept beside the files."""

    wish: Wish
    span: Span
    files: Sequence[Written] = ()
    is_complete: bool = False

    @property
    def events(self) -> int:
        return sum(file.events for file in self.files)

    @property
    def place(self) -> Place | None:
        return self.files[-1].end if self.files else None


def server_time(ask: Ask) -> datetime:
    return datetime.fromisoformat(ask("SELECT now()", {})[0][0])


def count(ask: Ask, span: Span) -> int:
    where, values = _where(span, None)
    return int(ask(f"SELECT count() FROM events WHERE {where}", values)[0][0])  # noqa: S608


def pages(ask: Ask, span: Span, place: Place | None) -> Iterator[list[list[Any]]]:
    """Events after a place, moments as such."""
    limit = AT_ONCE
    columns = ", ".join(COLUMNS)
    while True:
        where, values = _where(span, place)
        text = f"SELECT {columns} FROM events WHERE {where} ORDER BY timestamp, uuid LIMIT {limit}"  # noqa: S608
        try:
            found = [_read(row) for row in ask(text, values)]
        except Invalid as error:
            if error.code != TOO_MUCH or limit == 1:
                raise
            limit = max(1, limit // FEWER)
            continue
        if found:
            yield found
            place = place_of(found[-1])
        if len(found) < limit:
            return


def place_of(row: Row) -> Place:
    return Place(timestamp=row[COLUMNS.index("timestamp")], uuid=row[COLUMNS.index("uuid")])


def _where(span: Span, place: Place | None) -> tuple[str, dict[str, Any]]:
    clauses = ["created_at <= {as_of}"]
    values: dict[str, Any] = {"as_of": _text(span.as_of)}
    if span.after is not None:
        clauses.append("timestamp >= {after}")
        values["after"] = _text(span.after)
    if span.before is not None:
        clauses.append("timestamp < {before}")
        values["before"] = _text(span.before)
    if span.event:
        clauses.append("event = {event}")
        values["event"] = span.event
    if place is not None:
        clauses.append("timestamp >= {at} AND (timestamp > {at} OR uuid > {last})")
        values |= {"at": _text(place.timestamp), "last": place.uuid}
    return " AND ".join(clauses), values


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")


def _read(row: Row) -> list[Any]:
    found = list(row)
    for name in ("timestamp", "created_at"):
        index = COLUMNS.index(name)
        found[index] = datetime.fromisoformat(found[index])
    return found
