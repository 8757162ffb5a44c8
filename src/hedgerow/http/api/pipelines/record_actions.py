"""Actions on pipeline records: activity, frontend script, migrate, rearrange, settings.

By default these respond with 200 and an empty body, as the specification demands. `?format=json`
(for the script: `?format=js`) returns the result.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict
from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.http.api.activity import ACTIVITY_PARAMETERS, ActivityPage, respond_with_activity
from hedgerow.http.api.pipelines.record_items import (
    SEEN,
    RecordItem,
    RecordRenderer,
    check_activity_access,
    family_paths,
    parse_family,
    parse_record_key,
)
from hedgerow.http.api.pipelines.records import RecordBody
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.parameters import Parameter
from hedgerow.http.payload.body import FormFields
from hedgerow.http.payload.fields import Fields, Json
from hedgerow.http.sdk.site_apps import render_module
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib.text import truncate
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.config import parse_int32
from hedgerow.pipelines.event_filters import is_of_activity_log
from hedgerow.pipelines.model import ComponentId, Record, RecordId
from hedgerow.pipelines.records.audit import SCOPE
from hedgerow.pipelines.records.records import Records
from hedgerow.projects.store import ActivityStore

FORMAT_PARAMETERS = (
    Parameter("format", "json returns the result. By default the response body is empty."),
)
KEY_FIELD = "personal_api_key"


class MigrateBody(RecordBody):
    """`plugin` is the target component. Other fields are ignored."""


class RearrangeBody(Fields):
    """`orders` maps record ids to positions. Instead, `plugin` and `order` move the oldest record
    of a component. Without either, nothing moves."""

    orders: Json = None
    plugin: Json = None
    order: Json = None


class ConfigBody(Fields):
    """The settings of the component, by key."""

    model_config = ConfigDict(extra="allow", str_strip_whitespace=False)


def wants_format(call: ProjectCall, format: str) -> bool:
    return call.query_param("format") == format


def empty_response(headers: Mapping[str, str] | None = None) -> Response:
    return Response(status_code=200, headers=dict(headers or {}))


def _parse_orders(orders: Any) -> dict[RecordId, int]:
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
        RecordId(_parse_record_id(key)): parse_int32(value, f"orders__{key}")
        for key, value in orders.items()
    }


def _parse_record_id(key: str) -> int:
    if not (key.isascii() and key.isdecimal() and len(key) < 19) or key != str(int(key)):
        raise Invalid(
            f'Invalid pk "{truncate(key)}" - object does not exist.',
            attr="orders",
            code="does_not_exist",
        )
    return int(key)


class RecordActionEndpoints:
    tag = "Pipelines"

    def __init__(self, activity: ActivityStore, records: Records, renderer: RecordRenderer) -> None:
        self._activity = activity
        self._records = records
        self._renderer = renderer

    @endpoint(
        "GET",
        *family_paths("{record_id}/activity/"),
        access=in_project("plugin:read"),
        response=ActivityPage,
        query=(*FORMAT_PARAMETERS, *ACTIVITY_PARAMETERS),
    )
    async def list_record_activity(self, call: ProjectCall) -> Response:
        """List the changes made to a record, newest first."""
        record = await self._records.find(parse_record_key(call), include_deleted=True)
        if not wants_format(call, "json"):
            return empty_response()
        return await respond_with_activity(call, self._activity, SCOPE, str(record.id))

    @endpoint(
        "GET",
        *family_paths("{record_id}/frontend/"),
        access=in_project("plugin:read"),
        response=str,
        query=FORMAT_PARAMETERS,
        media_type="application/javascript",
    )
    async def retrieve_frontend(self, call: ProjectCall) -> Response:
        """Retrieve the script of a frontend app, with `?format=js`."""
        record = await self._records.find(parse_record_key(call))
        if not wants_format(call, "js"):
            return empty_response()
        component = self._records.component(record)
        return Response(
            render_module(component), media_type="application/javascript; charset=UTF-8"
        )

    @endpoint(
        "POST",
        *family_paths("{record_id}/migrate/"),
        access=in_project("plugin:write"),
        response=RecordItem,
        query=FORMAT_PARAMETERS,
        body=MigrateBody,
    )
    async def migrate_record(self, call: ProjectCall) -> Response:
        """Migrate a record to the newest version of its component, or to the component in
        `plugin`."""
        place = parse_record_key(call)
        await self._records.find(place)
        to = (await call.body(MigrateBody)).plugin
        record = await self._records.migrate(place, to, call.actor, call.now)
        return (
            JsonResponse(self._renderer.render(call, record))
            if wants_format(call, "json")
            else empty_response()
        )

    @endpoint(
        "PATCH",
        *family_paths("rearrange/"),
        access=in_project("plugin:write"),
        response=list[RecordItem],
        query=FORMAT_PARAMETERS,
        body=RearrangeBody,
    )
    async def rearrange_records(self, call: ProjectCall) -> Response:
        """Reorder records. Either all positions change or none."""
        body = await call.body(RearrangeBody)
        family, records = parse_family(call), self._records
        if body.orders is None and body.plugin is not None and body.order is not None:
            moved = await records.move_component(
                call.project.id,
                family,
                ComponentId(parse_int32(body.plugin, "plugin")),
                parse_int32(body.order, "order"),
                call.actor,
                call.now,
            )
        else:
            moved = await records.rearrange(
                call.project.id, family, _parse_orders(body.orders), call.actor, call.now
            )
        return (
            JsonResponse(self._renderer.render_all(call, moved))
            if wants_format(call, "json")
            else empty_response()
        )

    @endpoint(
        "GET",
        *family_paths("{record_id}/config/"),
        access=in_project("plugin:read"),
        response=dict[str, Any],
    )
    async def retrieve_config(self, call: ProjectCall) -> Response:
        """Retrieve the settings of a record. Secrets are masked."""
        return self._respond_with_config(await self._records.find(parse_record_key(call)))

    @endpoint(
        "PUT",
        *family_paths("{record_id}/config/"),
        access=in_project("plugin:write"),
        response=dict[str, Any],
        query=(SEEN,),
        body=ConfigBody,
    )
    async def replace_config(self, call: ProjectCall) -> Response:
        """Replace all settings. Settings that are left out return to their default, except
        secrets."""
        return await self._set_config(call, whole=True)

    @endpoint(
        "PATCH",
        *family_paths("{record_id}/config/"),
        access=in_project("plugin:write"),
        response=dict[str, Any],
        query=(SEEN,),
        body=ConfigBody,
    )
    async def change_config(self, call: ProjectCall) -> Response:
        """Update the given settings. Sending the mask keeps a secret; an empty string clears a
        setting."""
        return await self._set_config(call, whole=False)

    async def _set_config(self, call: ProjectCall, *, whole: bool) -> Response:
        place = parse_record_key(call)
        before = await self._records.find(place)
        component = self._records.component(before)
        config = dict((await call.body(ConfigBody)).model_extra or {})
        if not any(field.key == KEY_FIELD for field in (component.settings if component else ())):
            config.pop(KEY_FIELD, None)  # authenticates the request
        if component and isinstance(await call.raw_body(), FormFields):
            config = settings.parse_form(component, config)
        sends_activity = any(map(is_of_activity_log, (before.config, config)))
        check_activity_access(call, has_activity=sends_activity)
        record = await self._records.set_config(
            place,
            config,
            whole=whole,
            actor=call.actor,
            now=call.now,
            seen=call.query_param(SEEN.name),
        )
        return self._respond_with_config(record)

    def _respond_with_config(self, record: Record) -> Response:
        component = self._records.component(record)
        return JsonResponse(settings.mask_settings(component, record.config) if component else {})
