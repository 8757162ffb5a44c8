"""Pipeline records of all families: list, create, retrieve, update, delete."""

from collections.abc import Hashable
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.http.api.pipelines.record_items import (
    SEEN,
    RecordItem,
    RecordRenderer,
    family_paths,
    parse_family,
    parse_record_key,
)
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_boolean, parse_positive, parse_text
from hedgerow.http.payload.fields import OMITTED, Between, Boolean, Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib import jsonio
from hedgerow.lib.text import parse_whole_number
from hedgerow.pipelines.deliveries.destination_health import DestinationHealthCache
from hedgerow.pipelines.model import DESCRIPTION_MAX, NAME_MAX, ComponentId
from hedgerow.pipelines.records.records import RecordFields, Records
from hedgerow.pipelines.store import RecordQuery
from hedgerow.queries.byte_cache import ByteCache

IDEMPOTENCY_KEY_MAX = 200
SEARCH_MAX = 200
# Responses to longer query strings are not cached: such requests rarely repeat.
CACHED_QUERY_MAX = 1000
PAGE_CACHE_BYTES = 32 * 1024 * 1024
# An estimate of the size of a key. Callers keep keys short.
PAGE_KEY_BYTES = 2048


def _parse_primary_key(value: Any) -> Any:
    number = parse_whole_number(value) if isinstance(value, str) else value
    if value is None or (isinstance(number, int) and not isinstance(number, bool)):
        return number
    kind = type(value).__name__
    raise PydanticCustomError(
        "incorrect_type",
        "Incorrect type. Expected pk value, received {kind}.",
        {"kind": kind, "code": "incorrect_type"},
    )


class RecordBody(Fields):
    """The writable fields. An empty name or description falls back to that of the component."""

    plugin: Annotated[ComponentId, BeforeValidator(_parse_primary_key)] = OMITTED
    enabled: Boolean = OMITTED
    order: Annotated[int, Between()] = OMITTED
    name: Annotated[str, Text(NAME_MAX, blank=True)] | None = None
    description: Annotated[str, Text(DESCRIPTION_MAX, blank=True)] | None = None
    deleted: Boolean | None = None

    def to_fields(self) -> RecordFields:
        sent = self.model_fields_set
        return RecordFields(
            component_id=self.plugin,
            enabled=self.enabled,
            order=self.order,
            name=(self.name or "") if "name" in sent else None,
            description=(self.description or "") if "description" in sent else None,
            deleted=self.deleted,
        )


class NewRecordBody(RecordBody):
    plugin: Annotated[ComponentId, BeforeValidator(_parse_primary_key)]


LIST_PARAMETERS = (
    Parameter("enabled", "Only enabled (true) or disabled (false) records.", {"type": "boolean"}),
    Parameter("plugin", "Only records of the component with this id.", {"type": "integer"}),
    Parameter("search", "Only records whose name or description contains this text."),
    Parameter(
        "failing", "Only records with (true) or without (false) an error.", {"type": "boolean"}
    ),
)


def _parse_enabled(text: str | None) -> bool | None:
    if text is None or text == "":
        return None
    if text.lower() in ("true", "1"):
        return True
    if text.lower() in ("false", "0"):
        return False
    raise Invalid("Must be a valid boolean.", attr="enabled")


def _parse_component(text: str | None) -> ComponentId | None:
    if text is None or text == "":
        return None
    number = parse_positive(text)
    if number is None:
        raise Invalid("A valid integer is required.", attr="plugin")
    return ComponentId(min(number, 2**31 - 1))


def parse_record_query(call: ProjectCall) -> RecordQuery:
    window = call.window
    return RecordQuery(
        project_id=call.project.id,
        family=parse_family(call),
        enabled=_parse_enabled(call.query_param("enabled")),
        component_id=_parse_component(call.query_param("plugin")),
        search=parse_text(call.query_param("search"), "search").strip()[:SEARCH_MAX],
        failing=parse_boolean(call.query_param("failing"), "failing"),
        limit=window.limit,
        offset=window.offset,
    )


def _parse_idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= IDEMPOTENCY_KEY_MAX and key.isascii()):
        raise Invalid(
            f"Expected an Idempotency-Key of 1 to {IDEMPOTENCY_KEY_MAX} ASCII characters.",
            attr="Idempotency-Key",
        )
    return key


class PageCache(ByteCache[Hashable, bytes]):
    """Encoded list pages. A key must include everything that a page depends on, first of all the
    generation number of the records.
    """

    def __init__(self, max_bytes: int = PAGE_CACHE_BYTES) -> None:
        super().__init__(max_bytes, size_of=len, overhead_bytes=PAGE_KEY_BYTES)


class RecordEndpoints:
    tag = "Pipelines"

    def __init__(
        self,
        page_cache: PageCache,
        records: Records,
        destination_health: DestinationHealthCache,
        renderer: RecordRenderer,
    ) -> None:
        self._page_cache = page_cache
        self._records = records
        self._destination_health = destination_health
        self._renderer = renderer

    @endpoint(
        "GET",
        *family_paths(""),
        access=in_project("plugin:read"),
        response=Page[RecordItem],
        query=PAGE_PARAMETERS + LIST_PARAMETERS,
    )
    async def list_records(self, call: ProjectCall) -> Response:
        """List the project's records of this family by position, without deleted ones."""
        query = parse_record_query(call)
        scope = call.request.scope
        key = (
            await self._records.generation(call.project.id),
            self._destination_health.version,
            call.project.id,
            scope["path"],
            scope["query_string"],
            call.base_url,
        )
        body = self._page_cache.get(key)
        if body is None:
            records, count = await self._records.list_records(query)
            body = jsonio.encode(call.page(count, self._renderer.render_all(call, records)))
            if len(scope["query_string"]) <= CACHED_QUERY_MAX:
                self._page_cache.put(key, body)
        return Response(body, media_type="application/json")

    @endpoint(
        "POST",
        *family_paths(""),
        access=in_project("plugin:write"),
        response=RecordItem,
        status=201,
        body=NewRecordBody,
    )
    async def create_record(self, call: ProjectCall) -> Response:
        """Create a record. A repeated call with the same Idempotency-Key header returns the first
        record."""
        key = _parse_idempotency_key(call.request)
        fields = (await call.body(NewRecordBody)).to_fields()
        record = await self._records.create(
            call.project.id,
            parse_family(call),
            fields,
            idempotency_key=key,
            actor=call.actor,
            now=call.now,
        )
        return JsonResponse(self._renderer.render(call, record), status_code=201)

    @endpoint(
        "GET", *family_paths("{record_id}/"), access=in_project("plugin:read"), response=RecordItem
    )
    async def retrieve_record(self, call: ProjectCall) -> Response:
        """Retrieve a record."""
        record = await self._records.find(parse_record_key(call))
        return JsonResponse(self._renderer.render(call, record))

    @endpoint(
        "PATCH",
        *family_paths("{record_id}/"),
        access=in_project("plugin:write"),
        response=RecordItem,
        query=(SEEN,),
        body=RecordBody,
    )
    async def change_record(self, call: ProjectCall) -> Response:
        """Update the given fields. `deleted: false` restores a deleted record."""
        place = parse_record_key(call)
        found = await self._records.find(place, include_deleted=True)
        fields = (await call.body(RecordBody)).to_fields()
        if found.deleted and fields.deleted is not False:
            raise NotFound
        seen = call.query_param(SEEN.name)
        record = await self._records.change(place, fields, call.actor, call.now, seen=seen)
        return JsonResponse(self._renderer.render(call, record))

    @endpoint(
        "DELETE", *family_paths("{record_id}/"), access=in_project("plugin:write"), status=204
    )
    async def delete_record(self, call: ProjectCall) -> Response:
        """Delete a record. It is disabled and hidden. Restore it with `deleted: false`."""
        await self._records.delete(parse_record_key(call), call.actor, call.now)
        return no_content()
