"""The export of events to files: which events, in which order, and where an export continues.

Events are read in the order of time and uuid, one page after another. An export contains only the
events that were accepted before it started, so events that arrive later do not change it.
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
PAGE_SIZE = 10_000
# A page that is too large for one result is retried with this many times fewer events.
PAGE_SHRINK_FACTOR = 8
RESULT_TOO_LARGE = "query_limit_exceeded"

Row = Sequence[Any]
# Runs HogQL with these placeholder values. Raises Invalid for a query that cannot be run.
RunHogQL = Callable[[str, Mapping[str, Any]], Sequence[Row]]


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command. `after` and `before` may be empty."""

    format: str
    project: int | None
    after: str
    before: str
    event: str


class ExportRange(msgspec.Struct, frozen=True, kw_only=True):
    """The events that the options select, fixed when the export started."""

    after: datetime | None
    before: datetime | None
    as_of: datetime
    event: str


class ExportPosition(msgspec.Struct, frozen=True, kw_only=True):
    """The last event of a file."""

    timestamp: datetime
    uuid: str


class ExportFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    events: int
    end: ExportPosition


class ExportManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an export, stored as JSON next to its files."""

    request: ExportRequest = msgspec.field(name="wish")
    time_range: ExportRange = msgspec.field(name="span")
    files: Sequence[ExportFile] = ()
    is_complete: bool = False

    @property
    def events(self) -> int:
        return sum(file.events for file in self.files)

    @property
    def position(self) -> ExportPosition | None:
        return self.files[-1].end if self.files else None


def fetch_server_time(run: RunHogQL) -> datetime:
    return datetime.fromisoformat(run("SELECT now()", {})[0][0])


def count_events(run: RunHogQL, time_range: ExportRange) -> int:
    where, values = _build_where(time_range, None)
    return int(run(f"SELECT count() FROM events WHERE {where}", values)[0][0])  # noqa: S608


def iterate_pages(
    run: RunHogQL, time_range: ExportRange, position: ExportPosition | None
) -> Iterator[list[list[Any]]]:
    """Yield pages of events after a position, with times as datetime."""
    limit = PAGE_SIZE
    columns = ", ".join(COLUMNS)
    while True:
        where, values = _build_where(time_range, position)
        text = f"SELECT {columns} FROM events WHERE {where} ORDER BY timestamp, uuid LIMIT {limit}"  # noqa: S608
        try:
            rows = [_parse_row(row) for row in run(text, values)]
        except Invalid as error:
            if error.code != RESULT_TOO_LARGE or limit == 1:
                raise
            limit = max(1, limit // PAGE_SHRINK_FACTOR)
            continue
        if rows:
            yield rows
            position = position_of(rows[-1])
        if len(rows) < limit:
            return


def position_of(row: Row) -> ExportPosition:
    return ExportPosition(
        timestamp=row[COLUMNS.index("timestamp")], uuid=row[COLUMNS.index("uuid")]
    )


def _build_where(
    time_range: ExportRange, position: ExportPosition | None
) -> tuple[str, dict[str, Any]]:
    clauses = ["created_at <= {as_of}"]
    values: dict[str, Any] = {"as_of": _format_time(time_range.as_of)}
    if time_range.after is not None:
        clauses.append("timestamp >= {after}")
        values["after"] = _format_time(time_range.after)
    if time_range.before is not None:
        clauses.append("timestamp < {before}")
        values["before"] = _format_time(time_range.before)
    if time_range.event:
        clauses.append("event = {event}")
        values["event"] = time_range.event
    if position is not None:
        clauses.append("timestamp >= {at} AND (timestamp > {at} OR uuid > {last})")
        values |= {"at": _format_time(position.timestamp), "last": position.uuid}
    return " AND ".join(clauses), values


def _format_time(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")


def _parse_row(row: Row) -> list[Any]:
    values = list(row)
    for name in ("timestamp", "created_at"):
        index = COLUMNS.index(name)
        values[index] = datetime.fromisoformat(values[index])
    return values
