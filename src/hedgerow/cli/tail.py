"""`hedgerow events tail`: events as they arrive, until somebody has seen enough."""

import json
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from hedgerow.cli.options import JsonOption
from hedgerow.cli.running import (
    Away,
    KeyOption,
    ServerOption,
    Service,
    ServiceProjectOption,
    service_of,
)
from hedgerow.lib.text import on_one_line

COLUMNS = ("uuid", "created_at", "timestamp", "event", "distinct_id", "properties")
LOOK_EVERY_S = 1.0
MAX_PAUSE_S = 30.0
# Where several processes accept events, one may be seen a little after a later one.
OVERLAP = timedelta(seconds=3)
AT_ONCE = 1_000
REMEMBERED = 100_000
PROPERTIES_SHOWN = 6

_EVENTS = (
    f"SELECT {', '.join(COLUMNS)} FROM events"  # noqa: S608 - a text of our own
    " WHERE ({event} = '' OR event = {event}) AND created_at "
)
_LAST = _EVENTS + "<= {until} ORDER BY created_at DESC, uuid DESC LIMIT {number}"
_SINCE = _EVENTS + ">= {since} ORDER BY created_at, uuid LIMIT {number} OFFSET {passed}"

Row = Sequence[Any]


def tail(
    event: Annotated[str, typer.Option(help="Only those of this name.")] = "",
    last: Annotated[
        int, typer.Option("--last", "-n", min=0, max=AT_ONCE, help="How many to begin with.")
    ] = 10,
    as_json: JsonOption = False,
    project: ServiceProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Show the last events, and each new one as it arrives. Ctrl-C ends it."""
    service = service_of(server, key, project)
    try:
        for row in _arriving(service, event, last):
            print(_line(row, as_json=as_json), flush=True)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        # Who read this has gone. The interpreter would complain of it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _arriving(service: Service, event: str, last: int) -> Iterator[Row]:
    """Each event once, in the order of arrival."""
    values: dict[str, Any] = {"event": event}
    begun: str = service.query("SELECT now()", fresh=True)["results"][0][0]
    newest = {**values, "until": begun, "number": last}
    shown = service.query(_LAST, newest, fresh=True)["results"] if last else []
    seen = _Seen()
    for row in _since(service, values, _before(begun)):
        if _moment(row[1]) <= _moment(begun):
            seen.is_new(row[0])  # whether shown or not, nothing that is to come
    yield from reversed(shown)
    since, pause = _before(begun), LOOK_EVERY_S
    while True:
        time.sleep(pause)
        try:
            for row in _since(service, values, since):
                if seen.is_new(row[0]):
                    since = _before(row[1])
                    yield row
            pause = LOOK_EVERY_S
        except Away as error:
            pause = min(pause * 2, MAX_PAUSE_S)
            print(f"hedgerow: {error} Trying again.", file=sys.stderr)


def _since(service: Service, values: Mapping[str, Any], since: str) -> Iterator[Row]:
    passed = 0
    while True:
        asked = {**values, "since": since, "number": AT_ONCE, "passed": passed}
        rows = service.query(_SINCE, asked, fresh=True)["results"]
        yield from rows
        passed += len(rows)
        if len(rows) < AT_ONCE:
            return


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _before(text: str) -> str:
    return (_moment(text) - OVERLAP).isoformat()


class _Seen:
    """The last uuids, as many as can come again."""

    def __init__(self) -> None:
        self._uuids: OrderedDict[str, None] = OrderedDict()

    def is_new(self, uuid: str) -> bool:
        if uuid in self._uuids:
            return False
        self._uuids[uuid] = None
        if len(self._uuids) > REMEMBERED:
            self._uuids.popitem(last=False)
        return True


def _line(row: Row, *, as_json: bool) -> str:
    found = dict(zip(COLUMNS, row, strict=True))
    found["properties"] = json.loads(found["properties"])
    if as_json:
        return json.dumps(found, ensure_ascii=False)
    own = [(name, value) for name, value in found["properties"].items() if name[:1] != "$"]
    told = " ".join(f"{name}={_short(value)}" for name, value in own[:PROPERTIES_SHOWN])
    at = found["timestamp"][:19].replace("T", " ")
    return on_one_line(f"{at}  {found['event']}  {found['distinct_id']}  {told}".rstrip())


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:39]}…"
