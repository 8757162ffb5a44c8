"""A query for events with chosen columns: what the listing's `select` and `where` do, as JSON."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from hedgerow.errors import Invalid
from hedgerow.events.answers import encoded
from hedgerow.events.ask import DEFAULT_LIMIT, Asked, asked
from hedgerow.events.selecting import Selecting
from hedgerow.hogql.printer import MAX_LIMIT
from hedgerow.hogql.text import to_hogql
from hedgerow.lib import jsonio
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.projects.model import Project
from hedgerow.queries.fields import Sent
from hedgerow.queries.model import Ran, Timing

SINCE = "-24h"
# By the listing's word for something, ours.
_NAMES = {"person_id": "personId"}


def read_events_query(sent: Sent, project: Project, now: datetime) -> Asked:
    if sent.whole("actionId") is not None:
        raise Invalid("There are no actions here.", attr=sent.attr("actionId"))
    limit = sent.whole("limit")
    parameters = _parameters(sent)
    zone = ZoneInfo(project.timezone)
    try:
        wish = asked(lambda name: parameters.get(name, ()), now, zone, has_cap=True)
    except Invalid as error:
        name = error.attr or ""
        place = f"query__{_NAMES.get(name, name)}"
        raise Invalid(error.detail, attr=place, code=error.code) from None
    return replace(wish, limit=min(DEFAULT_LIMIT if limit is None else limit, MAX_LIMIT))


def _parameters(sent: Sent) -> Mapping[str, Sequence[str]]:
    """What the listing would have been sent."""
    numbers = {name: sent.whole(name) for name in ("limit", "offset")}
    texts = {
        "after": sent.text("after") or SINCE,
        "before": sent.text("before"),
        "event": sent.text("event"),
        "person_id": sent.text("personId"),
        "select": _json(sent.texts("select") or ["*"]),
        "where": _json(sent.texts("where")),
        "orderBy": _json(sent.texts("orderBy")),
        "properties": _json([*sent.items("properties"), *sent.items("fixedProperties")]),
        **{name: str(number) for name, number in numbers.items() if number is not None},
    }
    return {name: (text,) for name, text in texts.items() if text not in ("", "[]")}


def _json(value: Any) -> str:
    return jsonio.encode(jsonio.storable(value)).decode() if value else ""


class EventsQueries:
    def __init__(self, selecting: Selecting) -> None:
        self._selecting = selecting

    async def run(self, project: Project, wish: Asked, now: datetime) -> Ran:
        begun = time.monotonic()
        table = await self._selecting.table(project, wish, now)
        results = await in_daemon_thread(lambda: encoded(table.rows))
        return Ran(
            results=msgspec.Raw(results),
            columns=table.columns,
            types=table.types,
            hogql=to_hogql(table.query),
            timings=[Timing(k="./run", t=round(time.monotonic() - begun, 6))],
            limit=wish.limit,
            offset=wish.offset,
            has_more=table.has_more,
        )
