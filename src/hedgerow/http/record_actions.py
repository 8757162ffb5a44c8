"""What else can be asked of a record: activity, frontend, migrate, rearrange, settings.

The bare call is the specification's: 200 and an empty body. `?format=json` (for the script:
`?format=js`) gives the result.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.activity import PAGE, ActivityPage, activity_page
from hedgerow.http.body import Form
from hedgerow.http.describe import Parameter, describes
from hedgerow.http.fields import Fields
from hedgerow.http.records import (
    RecordBody,
    RecordItem,
    family_of,
    found_record,
    item,
    items,
    place_of,
    under_every_base,
)
from hedgerow.http.reply import JsonResponse
from hedgerow.http.site_app import frontend_module
from hedgerow.lib.text import cut_short
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.audit import SCOPE
from hedgerow.pipelines.model import ComponentId, Record, RecordId
from hedgerow.pipelines.numbers import checked_int32
from hedgerow.projects.store import ActivityQuery

router = APIRouter(tags=["Pipelines"])

FORMAT = (Parameter("format", "json for the result; without it the body is empty."),)


KEY_FIELD = "personal_api_key"


class MigrateBody(RecordBody):
    """Only `plugin` counts: the component to move to."""


class RearrangeBody(Fields):
    """`orders` maps record ids to places; or `plugin` and `order` move one record."""

    orders: Any = None
    plugin: Any = None
    order: Any = None


class ConfigBody(Fields):
    """The component's settings by key."""

    model_config = ConfigDict(extra="allow", str_strip_whitespace=False)


@describes(answer=ActivityPage, query=(*FORMAT, *PAGE))
async def record_activity(
    record_id: str,
    call: Annotated[ProjectCall, in_project("plugin:read")],
) -> Response:
    """Who changed what, newest first."""
    record = await call.rooms.records.find(place_of(call, record_id), deleted_too=True)
    if not wants(call.request, "json"):
        return empty()
    query = ActivityQuery(project_id=call.project.id, scope=SCOPE, item_id=str(record.id))
    return await activity_page(call, query)


@describes(answer=str, query=FORMAT, media_type="application/javascript")
async def record_frontend(
    record_id: str,
    call: Annotated[ProjectCall, in_project("plugin:read")],
) -> Response:
    """The script of a frontend app, with `?format=js`."""
    record = await call.rooms.records.find(place_of(call, record_id))
    if not wants(call.request, "js"):
        return empty()
    component = call.rooms.records.component(record)
    return Response(frontend_module(component), media_type="application/javascript; charset=UTF-8")


@describes(answer=RecordItem, query=FORMAT, body=MigrateBody)
async def migrate_record(
    record_id: str,
    call: Annotated[ProjectCall, in_project("plugin:write")],
) -> Response:
    """Move the record to its component's newest version, or to the component in `plugin`."""
    place = place_of(call, record_id)
    await call.rooms.records.find(place)
    to = (await call.body(MigrateBody)).plugin
    record = await call.rooms.records.migrate(place, to, call.actor, call.now)
    return JsonResponse(item(call, record)) if wants(call.request, "json") else empty()


@describes(answer=list[RecordItem], query=FORMAT, body=RearrangeBody)
async def rearrange_records(call: Annotated[ProjectCall, in_project("plugin:write")]) -> Response:
    """Put records into another order: all as asked, or nothing."""
    body = await call.body(RearrangeBody)
    family, records = family_of(call.request), call.rooms.records
    if body.orders is None and body.plugin is not None and body.order is not None:
        moved = await records.move_component(
            call.project.id,
            family,
            ComponentId(checked_int32(body.plugin, "plugin")),
            checked_int32(body.order, "order"),
            call.actor,
            call.now,
        )
    else:
        moved = await records.rearrange(
            call.project.id, family, _orders(body.orders), call.actor, call.now
        )
    return JsonResponse(items(call, moved)) if wants(call.request, "json") else empty()


@describes(answer=dict[str, Any])
async def retrieve_config(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:read")]
) -> Response:
    """The record's settings; secrets are masked."""
    return _config(call, await found_record(call, record_id))


@describes(answer=dict[str, Any], body=ConfigBody)
async def replace_config(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:write")]
) -> Response:
    """Give all settings anew. What is left out goes back to its default, except secrets."""
    return await _set_config(call, record_id, whole=True)


@describes(answer=dict[str, Any], body=ConfigBody)
async def change_config(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:write")]
) -> Response:
    """Change some settings. The mask leaves a secret as it is, an empty text clears a setting."""
    return await _set_config(call, record_id, whole=False)


async def _set_config(call: ProjectCall, record_id: str, *, whole: bool) -> Response:
    place = place_of(call, record_id)
    component = call.rooms.records.component(await call.rooms.records.find(place))
    given = dict((await call.body(ConfigBody)).model_extra or {})
    if not any(field.key == KEY_FIELD for field in (component.settings if component else ())):
        given.pop(KEY_FIELD, None)  # a key that came in the body
    if component and isinstance(await call.rooms.bodies.value(call.request), Form):
        given = settings.from_form(component, given)
    record = await call.rooms.records.set_config(
        place, given, whole=whole, actor=call.actor, now=call.now
    )
    return _config(call, record)


def _config(call: ProjectCall, record: Record) -> Response:
    component = call.rooms.records.component(record)
    return JsonResponse(settings.masked(component, record.config) if component else {})


def wants(request: Request, format: str) -> bool:
    return request.query_params.get("format") == format


def empty(headers: Mapping[str, str] | None = None) -> Response:
    return Response(status_code=200, headers=dict(headers or {}))


def _orders(orders: Any) -> dict[RecordId, int]:
    if orders is None:
        return {}
    if not isinstance(orders, dict):
        kind = type(orders).__name__
        raise Invalid(
            f'Expected a dictionary of items but got type "{kind}".',
            attr="orders",
            code="not_a_dict",
        )
    return {
        RecordId(_id(key)): checked_int32(value, f"orders__{key}") for key, value in orders.items()
    }


def _id(key: str) -> int:
    if not (key.isascii() and key.isdecimal() and len(key) < 19) or key != str(int(key)):
        raise Invalid(
            f'Invalid pk "{cut_short(key)}" - object does not exist.',
            attr="orders",
            code="does_not_exist",
        )
    return int(key)


# Before the records' own routes: "rearrange" must not be taken for an id.
under_every_base(router.patch, "rearrange/", rearrange_records)
under_every_base(router.get, "{record_id}/activity/", record_activity)
under_every_base(router.get, "{record_id}/frontend/", record_frontend)
under_every_base(router.post, "{record_id}/migrate/", migrate_record)
under_every_base(router.get, "{record_id}/config/", retrieve_config)
under_every_base(router.put, "{record_id}/config/", replace_config)
under_every_base(router.patch, "{record_id}/config/", change_config)
