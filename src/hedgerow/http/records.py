"""Pipeline records: list, create, retrieve, change, delete, for all families alike."""

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response

from hedgerow.errors import Invalid, MethodNotAllowed, NotFound
from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.components import plugin_item
from hedgerow.http.describe import Parameter, describes
from hedgerow.http.fields import INT64_MAX, LEFT_OUT, Between, Boolean, Fields, Text
from hedgerow.http.paging import WINDOW, Page, page, positive
from hedgerow.http.reply import JsonResponse, no_content
from hedgerow.lib import jsonio
from hedgerow.lib.clock import iso
from hedgerow.lib.text import whole_number, why_unstorable
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.model import (
    DESCRIPTION_MAX,
    NAME_MAX,
    ComponentId,
    Family,
    Record,
    RecordId,
)
from hedgerow.pipelines.records import RecordFields
from hedgerow.pipelines.store import Place, RecordQuery
from hedgerow.projects.model import Organization

router = APIRouter(tags=["Pipelines"])

TRANSFORMATIONS = "pipeline_transformation_configs"
FAMILIES = {
    "pipeline_destination_configs": Family.DESTINATION,
    "pipeline_frontend_apps_configs": Family.FRONTEND_APP,
    "pipeline_import_apps_configs": Family.IMPORT_APP,
    TRANSFORMATIONS: Family.TRANSFORMATION,
}
OTHERS = FAMILIES.keys() - {TRANSFORMATIONS}

IDEMPOTENCY_KEY_MAX = 200
SEARCH_MAX = 200
# Longer queries, which nobody repeats, are not worth keeping an answer for.
CACHED_QUERY_MAX = 1000


class RecordItem(msgspec.Struct, kw_only=True):
    """The record of the specification: its fields, their order, their types."""

    id: int
    plugin: int
    enabled: bool
    order: int
    config: str
    error: str
    team_id: int
    plugin_info: str
    delivery_rate_24h: str
    created_at: str
    updated_at: str
    name: str
    description: str
    deleted: bool


def _primary_key(value: Any) -> Any:
    number = whole_number(value) if isinstance(value, str) else value
    if value is None or (isinstance(number, int) and not isinstance(number, bool)):
        return number
    kind = type(value).__name__
    raise PydanticCustomError(
        "incorrect_type",
        "Incorrect type. Expected pk value, received {kind}.",
        {"kind": kind, "code": "incorrect_type"},
    )


class RecordBody(Fields):
    """The writable fields. An empty name or description shows the component's own."""

    plugin: Annotated[ComponentId, BeforeValidator(_primary_key)] = LEFT_OUT
    enabled: Boolean = LEFT_OUT
    order: Annotated[int, Between()] = LEFT_OUT
    name: Annotated[str, Text(NAME_MAX, blank=True)] | None = None
    description: Annotated[str, Text(DESCRIPTION_MAX, blank=True)] | None = None
    deleted: Boolean | None = None

    def fields(self) -> RecordFields:
        given = self.model_fields_set
        return RecordFields(
            component_id=self.plugin,
            enabled=self.enabled,
            order=self.order,
            name=(self.name or "") if "name" in given else None,
            description=(self.description or "") if "description" in given else None,
            deleted=self.deleted,
        )


class NewRecordBody(RecordBody):
    plugin: Annotated[ComponentId, BeforeValidator(_primary_key)]


def family_of(request: Request) -> Family:
    """Read off the path: /api/environments/1/<family>/…"""
    return FAMILIES[request.scope["path"].split("/")[4]]


def place_of(call: ProjectCall, record_id: str) -> Place:
    if record_id == "rearrange":
        raise MethodNotAllowed(call.request.method, ["PATCH", "OPTIONS"])
    number = positive(record_id) if record_id.isdecimal() else None
    if number is None or number > INT64_MAX:
        raise NotFound
    return Place(project_id=call.project.id, family=family_of(call.request), id=RecordId(number))


async def found_record(call: ProjectCall, record_id: str) -> Record:
    return await call.rooms.records.find(place_of(call, record_id))


def item(call: ProjectCall, record: Record) -> RecordItem:
    component = call.rooms.records.component(record)
    shown = settings.masked(component, record.config) if component else {}
    standing = call.rooms.standings.of(record.id)
    return RecordItem(
        id=record.id,
        plugin=record.component_id,
        enabled=record.enabled,
        order=record.order,
        config=_text(shown),
        error=standing.error if component else "The component of this record is not installed.",
        team_id=record.project_id,
        plugin_info=_plugin_info(call, record),
        delivery_rate_24h=standing.delivery_rate,
        created_at=iso(record.created_at),
        updated_at=iso(record.updated_at),
        name=record.name or (component.name if component else ""),
        description=record.description or (component.description if component else ""),
        deleted=record.deleted,
    )


def items(call: ProjectCall, records: Sequence[Record]) -> list[RecordItem]:
    return [item(call, record) for record in records]


def _plugin_info(call: ProjectCall, record: Record) -> str:
    component = call.rooms.records.component(record)
    if component is None:
        return "{}"
    return _info_text(
        record.component_id, component, call.rooms.directory.user(call.key.user_id).organization
    )


@lru_cache(maxsize=1000)
def _info_text(id: ComponentId, component: Component, organization: Organization) -> str:
    """The same for every record of a component, and much longer than the rest: encoded once."""
    return _text(plugin_item(id, component, organization))


def _text(value: Any) -> str:
    return jsonio.encode(value).decode()


FILTERS = (
    Parameter("enabled", "Only enabled (true) or disabled (false) ones.", {"type": "boolean"}),
    Parameter("plugin", "Only those of this component.", {"type": "integer"}),
    Parameter("search", "Only those with this text in their name or description."),
)


@describes(answer=Page[RecordItem], query=WINDOW + FILTERS)
async def list_records(call: Annotated[ProjectCall, in_project("plugin:read")]) -> Response:
    """The project's records of this family that are not deleted, in their order."""
    asked = call.window
    query = RecordQuery(
        project_id=call.project.id,
        family=family_of(call.request),
        enabled=_enabled(call.asked("enabled")),
        component_id=_component(call.asked("plugin")),
        search=_search(call.asked("search")),
        limit=asked.limit,
        offset=asked.offset,
    )
    scope = call.request.scope
    key = (
        await call.rooms.records.generation(call.project.id),
        call.rooms.standings.number,
        call.project.id,
        scope["path"],
        scope["query_string"],
        call.rooms.origins.base_url(scope),
    )
    answer = call.rooms.pages.get(key)
    if answer is None:
        records, count = await call.rooms.records.listing(query)
        answer = jsonio.encode(
            page(call.request, call.rooms.origins, asked, count, items(call, records))
        )
        if len(scope["query_string"]) <= CACHED_QUERY_MAX:
            call.rooms.pages.put(key, answer)
    return Response(answer, media_type="application/json")


@describes(answer=RecordItem, status=201, body=NewRecordBody)
async def create_record(call: Annotated[ProjectCall, in_project("plugin:write")]) -> Response:
    """Make a record. With an Idempotency-Key header, a repeated call gives the first record."""
    key = _idempotency_key(call.request)
    fields = (await call.body(NewRecordBody)).fields()
    record = await call.rooms.records.create(
        call.project.id,
        family_of(call.request),
        fields,
        idempotency_key=key,
        actor=call.actor,
        now=call.now,
    )
    return JsonResponse(item(call, record), status_code=201)


@describes(answer=RecordItem)
async def retrieve_record(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:read")]
) -> Response:
    """One record."""
    record = await call.rooms.records.find(place_of(call, record_id))
    return JsonResponse(item(call, record))


@describes(answer=RecordItem, body=RecordBody)
async def change_record(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:write")]
) -> Response:
    """Change some fields. `deleted: false` restores a deleted record."""
    place = place_of(call, record_id)
    found = await call.rooms.records.find(place, deleted_too=True)
    fields = (await call.body(RecordBody)).fields()
    if found.deleted and fields.deleted is not False:
        raise NotFound
    record = await call.rooms.records.change(place, fields, call.actor, call.now)
    return JsonResponse(item(call, record))


@describes(status=204)
async def delete_record(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:write")]
) -> Response:
    """Delete a record. It is disabled and hidden, and can be restored."""
    await call.rooms.records.delete(place_of(call, record_id), call.actor, call.now)
    return no_content()


def _enabled(text: str | None) -> bool | None:
    if text is None or text == "":
        return None
    if text.lower() in ("true", "1"):
        return True
    if text.lower() in ("false", "0"):
        return False
    raise Invalid("Must be a valid boolean.", attr="enabled")


def _component(text: str | None) -> ComponentId | None:
    if text is None or text == "":
        return None
    number = positive(text)
    if number is None:
        raise Invalid("A valid integer is required.", attr="plugin")
    return ComponentId(min(number, 2**31 - 1))


def _search(text: str | None) -> str:
    if text and (unstorable := why_unstorable(text)):
        code, detail = unstorable
        raise Invalid(detail, attr="search", code=code)
    return (text or "").strip()[:SEARCH_MAX]


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= IDEMPOTENCY_KEY_MAX and key.isascii()):
        raise Invalid(
            f"An Idempotency-Key has 1 to {IDEMPOTENCY_KEY_MAX} plain characters.",
            attr="Idempotency-Key",
        )
    return key


def under_every_base(
    add: Callable[..., Any],
    path: str,
    endpoint: Callable[..., Any],
    families: Collection[str] = FAMILIES,
) -> None:
    """Register an endpoint for each family, or some, under both roots."""
    for root in ("environments", "projects"):
        for family in FAMILIES:
            if family in families:
                add(f"/api/{root}/{{project_id}}/{family}/{path}")(endpoint)


under_every_base(router.get, "", list_records)
under_every_base(router.post, "", create_record)
under_every_base(router.get, "{record_id}/", retrieve_record)
under_every_base(router.patch, "{record_id}/", change_record)
under_every_base(router.delete, "{record_id}/", delete_record)
