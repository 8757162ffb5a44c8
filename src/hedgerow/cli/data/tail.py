"""`hedgerow events tail`: events as they arrive, until Ctrl-C."""

import json
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from hedgerow.cli.options import JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.service_client import ServiceClient, ServiceUnavailable, connect_service
from hedgerow.lib.text import escape_control_characters

COLUMNS = ("uuid", "created_at", "timestamp", "event", "distinct_id", "properties")
POLL_INTERVAL_S = 1.0
MAX_POLL_INTERVAL_S = 30.0
# With several processes that accept events, one may become visible after a later one.
OVERLAP = timedelta(seconds=3)
PAGE_SIZE = 1_000
UUID_CACHE_SIZE = 100_000
MAX_PROPERTIES_SHOWN = 6
MAX_PROPERTY_CHARS = 40

_EVENTS = (
    f"SELECT {', '.join(COLUMNS)} FROM events"  # noqa: S608 - only constants
    " WHERE ({event} = '' OR event = {event}) AND created_at "
)
_LATEST = _EVENTS + "<= {until} ORDER BY created_at DESC, uuid DESC LIMIT {number}"
_SINCE = _EVENTS + ">= {since} ORDER BY created_at, uuid LIMIT {number} OFFSET {passed}"

Row = Sequence[Any]


def tail_events(
    event: Annotated[str, typer.Option(help="Only events with this name.")] = "",
    last: Annotated[
        int,
        typer.Option("--last", "-n", min=0, max=PAGE_SIZE, help="Number of events to start with."),
    ] = 10,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Show the latest events, then new ones as they arrive.

    Stop it with Ctrl-C. Needs a personal API key with the scope query:read.
    """
    service = connect_service(server, key, project)
    try:
        for row in _follow(service, event, last):
            print(_format_event(row, as_json=as_json), flush=True)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        # The reader has closed the pipe. Without this, the interpreter reports it when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _follow(service: ServiceClient, event: str, last: int) -> Iterator[Row]:
    """Yield each event once, in the order of arrival."""
    values: dict[str, Any] = {"event": event}
    start: str = service.query("SELECT now()", fresh=True)["results"][0][0]
    latest = {**values, "until": start, "number": last}
    rows = service.query(_LATEST, latest, fresh=True)["results"] if last else []
    seen = _RecentUuids()
    for row in _fetch_since(service, values, _subtract_overlap(start)):
        if _parse_time(row[1]) <= _parse_time(start):
            seen.add(row[0])
    yield from reversed(rows)
    since, interval_s = _subtract_overlap(start), POLL_INTERVAL_S
    while True:
        time.sleep(interval_s)
        try:
            for row in _fetch_since(service, values, since):
                if seen.add(row[0]):
                    since = _subtract_overlap(row[1])
                    yield row
            interval_s = POLL_INTERVAL_S
        except ServiceUnavailable as error:
            interval_s = min(interval_s * 2, MAX_POLL_INTERVAL_S)
            print(f"hedgerow: {error} Trying again.", file=sys.stderr)


def _fetch_since(service: ServiceClient, values: Mapping[str, Any], since: str) -> Iterator[Row]:
    passed = 0
    while True:
        page = {**values, "since": since, "number": PAGE_SIZE, "passed": passed}
        rows = service.query(_SINCE, page, fresh=True)["results"]
        yield from rows
        passed += len(rows)
        if len(rows) < PAGE_SIZE:
            return


def _parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _subtract_overlap(text: str) -> str:
    return (_parse_time(text) - OVERLAP).isoformat()


class _RecentUuids:
    """The uuids of recent events, which a poll may return again."""

    def __init__(self) -> None:
        self._uuids: OrderedDict[str, None] = OrderedDict()

    def add(self, uuid: str) -> bool:
        """Return whether the uuid is new."""
        if uuid in self._uuids:
            return False
        self._uuids[uuid] = None
        if len(self._uuids) > UUID_CACHE_SIZE:
            self._uuids.popitem(last=False)
        return True


def _format_event(row: Row, *, as_json: bool) -> str:
    event = dict(zip(COLUMNS, row, strict=True))
    event["properties"] = json.loads(event["properties"])
    if as_json:
        return json.dumps(event, ensure_ascii=False)
    custom = [(name, value) for name, value in event["properties"].items() if name[:1] != "$"]
    properties = " ".join(
        f"{name}={_shorten(value)}" for name, value in custom[:MAX_PROPERTIES_SHOWN]
    )
    at = event["timestamp"][:19].replace("T", " ")
    return escape_control_characters(
        f"{at}  {event['event']}  {event['distinct_id']}  {properties}".rstrip()
    )


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_PROPERTY_CHARS else f"{text[: MAX_PROPERTY_CHARS - 1]}…"
