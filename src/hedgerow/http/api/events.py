"""The legacy event endpoints: list, retrieve, property values, delete.

Reads are deprecated in favour of the query endpoint.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from annotated_types import MaxLen
from starlette.responses import Response

from hedgerow.errors import AppError, InternalError, Invalid, MethodNotAllowed, NotFound
from hedgerow.events.deletion import MAX_EVENT_NAME_CHARS, DeletionRequest, EventDeletion
from hedgerow.events.listing.csv_writer import (
    EventCsv,
    encode_csv_rows,
    format_csv_rows,
    format_failure,
)
from hedgerow.events.listing.cursor import EventCursor
from hedgerow.events.listing.event_listing import EventListing, ListedEvents
from hedgerow.events.listing.parameters import ParameterReader
from hedgerow.events.listing.property_values import PropertyValues, parse_values_query
from hedgerow.events.listing.query import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_OFFSET,
    EventsQuery,
    parse_events_query,
)
from hedgerow.events.listing.record import EventRecord, stringify_record
from hedgerow.events.listing.select_listing import ResultTable, SelectListing
from hedgerow.events.query.admission import admit_task, dismiss_task
from hedgerow.events.query.result_json import encode_result
from hedgerow.http.auth.access import accepts, in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.parameters import Parameter
from hedgerow.http.payload.fields import Boolean, Fields, Text
from hedgerow.http.server.errors import find_allowed_methods
from hedgerow.http.server.response import ApiStreamingResponse, IncompleteBody, JsonResponse
from hedgerow.lib.clock import format_iso
from hedgerow.lib.ids import normalize_uuid
from hedgerow.lib.text import truncate
from hedgerow.lib.threads import run_in_thread
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS
from hedgerow.persons.store import PersonStore

CSV = "text/csv"
READ = in_project("query:read", also=CSV)
# 2025-01-01 in the format of RFC 9745.
DEPRECATED_AT = "@1735689600"
_JSON_LIST = {"type": "string", "contentMediaType": "application/json"}
FORMAT = Parameter("format", "json or csv.", {"type": "string", "enum": ["csv", "json"]})
STRINGIFY = Parameter(
    "stringify",
    "Whether `properties`, `person` and `elements` of a record are strings that contain JSON. No "
    "effect on CSV and `select`.",
    {"type": "boolean", "default": False},
)
LIST_PARAMETERS = (
    Parameter("after", "Only events after this time: ISO 8601, or relative such as -7d."),
    Parameter("before", "Only events before this time. Default: now."),
    Parameter("action_id", "Only events of the action with this id.", {"type": "integer"}),
    Parameter("distinct_id", "Only events with this distinct id."),
    Parameter("event", "Only events with this name."),
    FORMAT,
    Parameter(
        "limit",
        f"Events per page. Default: {DEFAULT_LIMIT}, maximum: {MAX_LIMIT}; unlimited for CSV.",
        {"type": "integer"},
    ),
    Parameter(
        "offset",
        f"Number of events to skip. Maximum: {MAX_OFFSET}. Not needed to follow `next`.",
        {"type": "integer"},
    ),
    Parameter("person_id", "Only events of the person with this uuid or numeric id."),
    Parameter("properties", "Only events that match these property filters, as JSON.", _JSON_LIST),
    Parameter("select", "HogQL expressions to return, as a JSON list.", _JSON_LIST),
    Parameter(
        "where", "HogQL expressions that each event must satisfy, as a JSON list.", _JSON_LIST
    ),
    Parameter("orderBy", 'The sort order, as a JSON list. Default: ["-timestamp"].', _JSON_LIST),
    Parameter(
        "include_person", "Whether to include the person of each event.", {"type": "boolean"}
    ),
    STRINGIFY,
    Parameter("cursor", "The end of the previous page. Part of the `next` link."),
)
VALUES_PARAMETERS = (
    Parameter("key", "The property, or custom_event for event names."),
    Parameter("value", "Only values that contain this text."),
    Parameter("event_name", "Only values from events with this name. May be repeated."),
    Parameter("is_column", "Whether `key` is a column of the events table.", {"type": "boolean"}),
    FORMAT,
)


class EventPage(msgspec.Struct, kw_only=True):
    next: str | None
    results: Sequence[EventRecord]


class TablePage(msgspec.Struct, kw_only=True, rename="camel"):
    """The response to a request with `select`."""

    columns: Sequence[str]
    types: Sequence[str]
    results: msgspec.Raw
    has_more: bool
    next: str | None


class ValueItem(msgspec.Struct, kw_only=True):
    name: str


def _parameters(call: ProjectCall) -> Any:
    return call.request.query_params.getlist


def _wants_csv(call: ProjectCall) -> bool:
    """The `format` parameter wins over the suffix of the path, which wins over Accept."""
    format = call.query_param("format")
    if format and format not in ("csv", "json"):
        raise Invalid(
            f'Unknown format "{truncate(format)}". Expected one of: csv, json.', attr="format"
        )
    path = call.request.scope["path"].rstrip("/")
    if format or path.endswith((".csv", ".json")):
        return format == "csv" or (not format and path.endswith(".csv"))
    return accepts(call.request, CSV) and not accepts(call.request, "application/json")


def _select_renderer(call: ProjectCall) -> Callable[[EventRecord], EventRecord]:
    is_text = ParameterReader(_parameters(call)).boolean(STRINGIFY.name, default=False)
    return stringify_record if is_text else lambda record: record


def _strip_suffix(text: str) -> str:
    return text.removesuffix(".csv").removesuffix(".json")


def _deprecation_headers(call: ProjectCall) -> dict[str, str]:
    base = call.base_url
    query = f"{base}/api/projects/{call.project.id}/query/"
    return {"Deprecation": DEPRECATED_AT, "Link": f'<{query}>; rel="successor-version"'}


async def _respond_json(
    call: ProjectCall, build: Callable[[], Any], extra: dict[str, str] | None = None
) -> Response:
    """Encode in a thread: the response can be megabytes long."""
    body = await run_in_thread(lambda: encode_result(build()))
    headers = _deprecation_headers(call) | (extra or {})
    return Response(body, media_type="application/json", headers=headers)


def _respond_csv(call: ProjectCall, body: bytes, extra: dict[str, str] | None = None) -> Response:
    return Response(body, media_type=CSV, headers=_csv_headers(call) | (extra or {}))


def _stream_csv(call: ProjectCall, parts: AsyncIterator[bytes]) -> Response:
    return ApiStreamingResponse(_mark_failure(parts), media_type=CSV, headers=_csv_headers(call))


async def _mark_failure(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pass the parts of a file on, whose beginning the client has. After a failure the last line
    says so, and the transfer remains incomplete."""
    admit_task()
    try:
        async for part in parts:
            yield part
    except Exception as error:
        detail = error.detail if isinstance(error, AppError) else InternalError.default_detail
        yield format_failure(detail)
        if isinstance(error, AppError):
            raise IncompleteBody(detail) from None
        raise
    finally:
        dismiss_task()


def _csv_headers(call: ProjectCall) -> dict[str, str]:
    return {
        **_deprecation_headers(call),
        "Content-Disposition": 'attachment; filename="events.csv"',
    }


def _build_next_link(
    call: ProjectCall, query: EventsQuery, end: EventCursor | int | None
) -> str | None:
    """The same query with a fixed end time, continued from the end of this page."""
    if end is None:
        return None
    changes = {
        "after": query.after and format_iso(query.after),
        "before": format_iso(query.before),
        "cursor": end.encode() if isinstance(end, EventCursor) else None,
        "offset": None if isinstance(end, EventCursor) else end,
    }
    return call.link(changes)


def _render_table(table: ResultTable, next_link: str | None) -> TablePage:
    return TablePage(
        columns=table.columns,
        types=table.types,
        results=msgspec.Raw(table.rows),
        has_more=table.has_more,
        next=next_link,
    )


async def _fetch_first(tables: AsyncIterator[ResultTable]) -> ResultTable:
    return await anext(tables)


def _collect_columns(sheet: EventCsv, page: ListedEvents) -> None:
    sheet.collect_columns(page.build_records())


def _format_rows(sheet: EventCsv, page: ListedEvents) -> bytes:
    return sheet.format_rows(page.build_records())


MAX_UUIDS = 1000


class DeletionBody(Fields):
    """Selects the events that match all given criteria. `person` is a uuid or a distinct id,
    `before` a timestamp. `dry_run` counts the events without deleting them."""

    uuids: Annotated[list[Annotated[str, Text(64)]], MaxLen(MAX_UUIDS)] | None = None
    person: Annotated[str, Text(DISTINCT_ID_MAX_CHARS)] | None = None
    event: Annotated[str, Text(MAX_EVENT_NAME_CHARS)] | None = None
    before: Annotated[str, Text(64)] | None = None
    dry_run: Boolean = False


class DeletionResult(msgspec.Struct, kw_only=True):
    """The number of matching events, and whether they were deleted."""

    events: int
    deleted: bool


class EventEndpoints:
    tag = "Events"

    def __init__(
        self,
        deletion: EventDeletion,
        event_listing: EventListing,
        persons: PersonStore,
        select_listing: SelectListing,
        property_values: PropertyValues,
    ) -> None:
        self._deletion = deletion
        self._event_listing = event_listing
        self._persons = persons
        self._select_listing = select_listing
        self._property_values = property_values

    @endpoint(
        "GET", *project_paths("events/"), access=READ, response=EventPage, query=LIST_PARAMETERS
    )
    @endpoint(
        "GET", *project_paths("events.csv/", "events.json/"), access=READ, is_documented=False
    )
    async def list_events(self, call: ProjectCall) -> Response:
        """List events, newest first. Follow `next` to read each event exactly once. With `select`,
        the response holds columns, types, results, hasMore and next."""
        is_csv, render = _wants_csv(call), _select_renderer(call)
        query = parse_events_query(
            _parameters(call), call.now, ZoneInfo(call.project.timezone), has_cap=not is_csv
        )
        if query.select is not None:
            return await self._respond_with_table(call, query, is_csv=is_csv)
        if is_csv:
            return await self._export_csv(call, query)
        page = await call.while_connected(
            self._event_listing.fetch_page(call.project, query, call.now)
        )
        next_link = _build_next_link(call, query, page.end)
        return await _respond_json(
            call,
            lambda: EventPage(next=next_link, results=[*map(render, page.build_records())]),
        )

    @endpoint(
        "GET",
        *project_paths("events/{event_id}/"),
        access=READ,
        response=EventRecord,
        query=(FORMAT, STRINGIFY),
    )
    async def retrieve_event(self, call: ProjectCall) -> Response:
        """Retrieve an event by its uuid."""
        if call.path_param("event_id") == "delete":  # has its own route, which accepts POST only
            raise MethodNotAllowed(call.request.method, find_allowed_methods(call.request))
        is_csv, render = _wants_csv(call), _select_renderer(call)
        uuid = normalize_uuid(_strip_suffix(call.path_param("event_id")))
        if uuid is None:
            raise Invalid("Invalid UUID", code="invalid")
        record = await call.while_connected(self._event_listing.find(call.project, uuid, call.now))
        if record is None:
            raise NotFound(f"No events exist for event UUID {uuid}")
        if not is_csv:
            return await _respond_json(call, lambda: render(record))
        sheet = EventCsv(include_person=True)
        sheet.collect_columns([record])
        return _respond_csv(call, sheet.format_header() + sheet.format_rows([record]))

    @endpoint(
        "GET",
        *project_paths("events/values/"),
        access=READ,
        response=list[ValueItem],
        query=VALUES_PARAMETERS,
    )
    @endpoint(
        "GET",
        *project_paths("events/values.csv/", "events/values.json/"),
        access=READ,
        is_documented=False,
    )
    async def list_values(self, call: ProjectCall) -> Response:
        """List up to ten values that a property had in the last seven days. Without `key` the
        response is empty."""
        is_csv = _wants_csv(call)
        names = [name for name, _ in call.request.query_params.multi_items()]
        query = parse_values_query(_parameters(call), names)
        if query is None:
            return Response(headers=_deprecation_headers(call))
        found = await call.while_connected(
            self._property_values.list_values(call.project, query, call.now)
        )
        headers = {"Cache-Control": "max-age=10"}
        if is_csv:
            return _respond_csv(
                call, format_csv_rows([["name"], *([each] for each in found)]), headers
            )
        return await _respond_json(call, lambda: [ValueItem(name=each) for each in found], headers)

    async def _respond_with_table(
        self, call: ProjectCall, query: EventsQuery, *, is_csv: bool
    ) -> Response:
        if not is_csv:
            table = await call.while_connected(
                self._select_listing.fetch_table(call.project, query, call.now)
            )
            next_link = _build_next_link(call, query, table.next)
            return await _respond_json(call, lambda: _render_table(table, next_link))
        tables = self._select_listing.iterate_tables(
            call.project, query, call.now, encode=encode_csv_rows
        )
        # Raises on an invalid query before the response starts.
        first = await call.while_connected(_fetch_first(tables))

        async def body() -> AsyncIterator[bytes]:
            yield format_csv_rows([first.columns])
            yield first.rows
            async for table in tables:
                yield table.rows

        return _stream_csv(call, body())

    async def _export_csv(self, call: ProjectCall, query: EventsQuery) -> Response:
        """Read all events twice, page by page: first to collect the columns, then to send the
        rows."""
        now, sheet = call.now, EventCsv(include_person=query.include_person)
        without_persons = replace(query, include_person=False)

        async def collect_columns() -> None:
            async for page in self._event_listing.iterate_pages(call.project, without_persons, now):
                await run_in_thread(partial(_collect_columns, sheet, page))
                admit_task()

        await call.while_connected(collect_columns())

        async def body() -> AsyncIterator[bytes]:
            yield sheet.format_header()
            async for page in self._event_listing.iterate_pages(call.project, query, now):
                yield await run_in_thread(partial(_format_rows, sheet, page))

        return _stream_csv(call, body())

    @endpoint(
        "POST",
        *project_paths("events/delete/"),
        access=in_project("project:write"),
        response=DeletionResult,
        body=DeletionBody,
    )
    async def delete_events(self, call: ProjectCall) -> Response:
        """Delete the events that match all given criteria. They no longer appear in any query once
        this call returns."""
        body = await call.body(DeletionBody)
        project_id, deletion = call.project.id, self._deletion
        request = DeletionRequest(
            uuids=body.uuids or (), person=body.person, event=body.event or "", before=body.before
        )
        chosen = await deletion.select(self._persons, project_id, request)
        if body.dry_run:
            return JsonResponse(
                DeletionResult(events=await deletion.count(project_id, chosen), deleted=False)
            )
        number = await deletion.delete(project_id, chosen, call.actor, call.now)
        return JsonResponse(DeletionResult(events=number, deleted=True))
