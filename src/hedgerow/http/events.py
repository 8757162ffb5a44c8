"""The legacy event endpoints: list, retrieve, values. The query endpoint succeeds them."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.errors import Invalid, MethodNotAllowed, NotFound
from hedgerow.events.answers import encoded
from hedgerow.events.ask import DEFAULT_LIMIT, MAX_LIMIT, MAX_OFFSET, Asked, asked
from hedgerow.events.cursor import Cursor
from hedgerow.events.listing import Page
from hedgerow.events.record import EventRecord
from hedgerow.events.selecting import Table
from hedgerow.events.spreadsheet import Sheet, lines
from hedgerow.events.values import asked_values
from hedgerow.http.access import ProjectCall, accepts, in_project
from hedgerow.http.describe import Parameter, describes
from hedgerow.http.errors import allowed_methods
from hedgerow.http.paging import link_with
from hedgerow.http.reply import Streamed
from hedgerow.lib.clock import iso
from hedgerow.lib.ids import canonical_uuid
from hedgerow.lib.text import cut_short
from hedgerow.lib.threads import in_daemon_thread

router = APIRouter(tags=["Events"])

CSV = "text/csv"
# Since when, in the words of RFC 9745: 2025-01-01.
DEPRECATED_AT = "@1735689600"

_JSON_LIST = {"type": "string", "contentMediaType": "application/json"}
FORMAT = Parameter("format", "json or csv.", {"type": "string", "enum": ["csv", "json"]})
LIST_PARAMETERS = (
    Parameter("after", "Only events after this moment: ISO 8601, or such as -7d."),
    Parameter("before", "Only events before this moment; now, unless told."),
    Parameter("distinct_id", "Only events of this distinct id."),
    Parameter("event", "Only events of this name."),
    FORMAT,
    Parameter(
        "limit",
        f"Events on a page: {DEFAULT_LIMIT} unless told, {MAX_LIMIT} at most; all of them as CSV.",
        {"type": "integer"},
    ),
    Parameter(
        "offset",
        f"How many to pass over, {MAX_OFFSET} at most. `next` needs none.",
        {"type": "integer"},
    ),
    Parameter("person_id", "Only events of this person, by uuid or by number."),
    Parameter("properties", "Only events for which these filters hold, as JSON.", _JSON_LIST),
    Parameter("select", "HogQL expressions to return, as a JSON list.", _JSON_LIST),
    Parameter("where", "HogQL expressions that must hold, as a JSON list.", _JSON_LIST),
    Parameter("orderBy", 'The order, as a JSON list: ["-timestamp"] unless told.', _JSON_LIST),
    Parameter("include_person", "Whether to tell who events are by.", {"type": "boolean"}),
    Parameter("cursor", "Where the page before ended. It comes with `next`."),
)
VALUES_PARAMETERS = (
    Parameter("key", "Which property, or custom_event for the names of events."),
    Parameter("value", "Only values with this text in them."),
    Parameter("event_name", "Only of events of this name; may be repeated."),
    Parameter("is_column", "Whether `key` is a column of events.", {"type": "boolean"}),
    FORMAT,
)


class EventPage(msgspec.Struct, kw_only=True):
    next: str | None
    results: Sequence[EventRecord]


class TablePage(msgspec.Struct, kw_only=True, rename="camel"):
    """The answer with `select`."""

    columns: Sequence[str]
    types: Sequence[str]
    results: Sequence[Sequence[Any]]
    has_more: bool
    next: str | None


class ValueItem(msgspec.Struct, kw_only=True):
    name: str


@describes(answer=EventPage, query=LIST_PARAMETERS)
async def list_events(call: Annotated[ProjectCall, in_project("query:read", also=CSV)]) -> Response:
    """Events, newest first. Follow `next` to see each of them once. With `select`, the answer is
    columns, types, results, hasMore and next."""
    is_csv = _wants_csv(call)
    wish = asked(_parameters(call), call.now, ZoneInfo(call.project.timezone), has_cap=not is_csv)
    if wish.select is not None:
        return await _selected(call, wish, is_csv=is_csv)
    if is_csv:
        return await _sheet(call, wish)
    page = await call.rooms.listing.page(call.project, wish, call.now)
    following = _next(call, wish, page.end)
    return await _json(call, lambda: EventPage(next=following, results=page.records()))


@describes(answer=EventRecord, query=(FORMAT,))
async def retrieve_event(
    event_id: str, call: Annotated[ProjectCall, in_project("query:read", also=CSV)]
) -> Response:
    """One event by its uuid."""
    if event_id == "delete":  # which is a path of its own, for POST
        raise MethodNotAllowed(call.request.method, allowed_methods(call.request))
    is_csv = _wants_csv(call)
    uuid = canonical_uuid(_without_suffix(event_id))
    if uuid is None:
        raise Invalid("Invalid UUID", code="invalid")
    record = await call.rooms.listing.find(call.project, uuid, call.now)
    if record is None:
        raise NotFound(f"No events exist for event UUID {uuid}")
    if not is_csv:
        return await _json(call, lambda: record)
    sheet = Sheet(include_person=True)
    sheet.see([record])
    return _csv(call, sheet.heading() + sheet.rows([record]))


@describes(answer=list[ValueItem], query=VALUES_PARAMETERS)
async def list_values(call: Annotated[ProjectCall, in_project("query:read", also=CSV)]) -> Response:
    """Ten values that a property had in the last seven days. Without `key`: nothing."""
    is_csv = _wants_csv(call)
    names = [name for name, _ in call.request.query_params.multi_items()]
    wish = asked_values(_parameters(call), names)
    if wish is None:
        return Response(headers=_headers(call))
    found = await call.rooms.values.of(call.project, wish, call.now)
    headers = {"Cache-Control": "max-age=10"}
    if is_csv:
        return _csv(call, lines([["name"], *([each] for each in found)]), headers)
    return await _json(call, lambda: [ValueItem(name=each) for each in found], headers)


def _parameters(call: ProjectCall) -> Any:
    return call.request.query_params.getlist


def _wants_csv(call: ProjectCall) -> bool:
    """By parameter, by the path's ending, by Accept."""
    form = call.asked("format")
    if form and form not in ("csv", "json"):
        raise Invalid(f'"{cut_short(form)}" is neither csv nor json.', attr="format")
    path = call.request.scope["path"].rstrip("/")
    if form or path.endswith((".csv", ".json")):
        return form == "csv" or (not form and path.endswith(".csv"))
    return accepts(call.request, CSV) and not accepts(call.request, "application/json")


def _without_suffix(text: str) -> str:
    return text.removesuffix(".csv").removesuffix(".json")


def _headers(call: ProjectCall) -> dict[str, str]:
    base = call.rooms.origins.base_url(call.request.scope)
    query = f"{base}/api/projects/{call.project.id}/query/"
    return {"Deprecation": DEPRECATED_AT, "Link": f'<{query}>; rel="successor-version"'}


async def _json(call: ProjectCall, answer: Any, more: dict[str, str] | None = None) -> Response:
    """Written beside the event loop: there may be megabytes of it."""
    body = await in_daemon_thread(lambda: encoded(answer()))
    headers = _headers(call) | (more or {})
    return Response(body, media_type="application/json", headers=headers)


def _csv(call: ProjectCall, body: bytes, more: dict[str, str] | None = None) -> Response:
    return Response(body, media_type=CSV, headers=_csv_headers(call) | (more or {}))


def _csv_headers(call: ProjectCall) -> dict[str, str]:
    return {**_headers(call), "Content-Disposition": 'attachment; filename="events.csv"'}


def _next(call: ProjectCall, wish: Asked, end: Cursor | int | None) -> str | None:
    """The same question, about what came before now, from where the page ended."""
    if end is None:
        return None
    changes = {
        "after": wish.after and iso(wish.after),
        "before": iso(wish.before),
        "cursor": end.text() if isinstance(end, Cursor) else None,
        "offset": None if isinstance(end, Cursor) else end,
    }
    return link_with(call.request, call.rooms.origins, changes)


async def _selected(call: ProjectCall, wish: Asked, *, is_csv: bool) -> Response:
    if not is_csv:
        table = await call.rooms.selecting.table(call.project, wish, call.now)
        following = _next(call, wish, table.next)
        return await _json(call, lambda: _table_page(table, following))
    tables = call.rooms.selecting.walk(call.project, wish, call.now)
    first = await anext(tables)  # what cannot be asked is told before anything is sent

    async def body() -> AsyncIterator[bytes]:
        yield await in_daemon_thread(lambda: lines([first.columns, *first.rows]))
        async for table in tables:
            yield await in_daemon_thread(partial(lines, table.rows))

    return Streamed(body(), media_type=CSV, headers=_csv_headers(call))


def _table_page(table: Table, following: str | None) -> TablePage:
    return TablePage(
        columns=table.columns,
        types=table.types,
        results=table.rows,
        has_more=table.has_more,
        next=following,
    )


async def _sheet(call: ProjectCall, wish: Asked) -> Response:
    """All events, read twice: for the columns, and to be sent. Neither holds them all."""
    now, sheet = call.now, Sheet(include_person=wish.include_person)
    unknown = replace(wish, include_person=False)
    async for page in call.rooms.listing.walk(call.project, unknown, now):
        await in_daemon_thread(partial(_see, sheet, page))

    async def body() -> AsyncIterator[bytes]:
        yield sheet.heading()
        async for page in call.rooms.listing.walk(call.project, wish, now):
            yield await in_daemon_thread(partial(_rows, sheet, page))

    return Streamed(body(), media_type=CSV, headers=_csv_headers(call))


def _see(sheet: Sheet, page: Page) -> None:
    sheet.see(page.records())


def _rows(sheet: Sheet, page: Page) -> bytes:
    return sheet.rows(page.records())


for root in ("projects", "environments"):
    base = f"/api/{root}/{{project_id}}/"
    router.get(base + "events/")(list_events)
    router.get(base + "events/values/")(list_values)
    for ending in (".csv", ".json"):
        router.get(base + f"events{ending}/", include_in_schema=False)(list_events)
        router.get(base + f"events/values{ending}/", include_in_schema=False)(list_values)
    # After the values, which must not be taken for an id.
    router.get(base + "events/{event_id}/")(retrieve_event)
