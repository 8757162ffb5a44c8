"""Event definitions: the events of a project, and their schemas."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from pydantic import Field
from starlette.responses import Response

from hedgerow.definitions.definitions import EVENT_SCOPE, DefinitionCatalogue
from hedgerow.definitions.model import NAME_MAX_CHARS, EventDefinition, EventSchemaMode
from hedgerow.definitions.schema_registry import check_in_worker
from hedgerow.definitions.store import EventQuery
from hedgerow.errors import Invalid
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.definitions.details import (
    COMMON_PARAMETERS,
    DetailsBody,
    check_name,
    parse_common,
    parse_id,
    parse_name,
    parse_names,
    render_details,
)
from hedgerow.http.api.people.users import render_user
from hedgerow.http.call import ProjectCall
from hedgerow.http.collection import Collection
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import Page
from hedgerow.http.parameters import Parameter, parse_choice
from hedgerow.http.payload.fields import Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.projects.directory import Directory
from hedgerow.projects.store import ActivityStore

PATH_ID = "event_definition_id"
RESERVED = dict.fromkeys(("activity", "by_name"), "GET, HEAD")
ORDERS = ("name", "created_at", "first_seen_at", "last_seen_at", "volume_30_day")
EVENT_TYPES = {
    "all": None,
    "event": None,
    "event_posthog": True,
    "event_custom": False,
}
LIST_PARAMETERS = (
    *COMMON_PARAMETERS,
    Parameter("names", "Only the events with these names: a JSON list, or with commas."),
    Parameter("event_type", f"One of: {', '.join(EVENT_TYPES)}. event_posthog begins with $."),
    Parameter("ordering", f"One of: {', '.join(ORDERS)}, with - in front for descending."),
)
# Fields of an event definition that PostHog returns or accepts and that have no effect here.
POSTHOG_FIELDS = frozenset(
    (
        *("id", "created_at", "created_by", "updated_at", "updated_by", "last_updated_at"),
        *("first_seen_at", "last_seen_at", "volume_30_day", "query_usage_30_day"),
        *("verified_at", "verified_by", "is_action", "action_id", "is_calculating"),
        *("last_calculated_at", "post_to_slack", "default_columns", "media_preview_urls"),
    )
)


class EventDefinitionItem(msgspec.Struct, kw_only=True):
    """An event. `volume_30_day` counts the events of the last 30 days. An event that breaks
    `schema`, a JSON schema of its properties, is stored with a warning or becomes a dead letter, as
    `schema_mode` says."""

    id: str
    name: str
    owner: Mapping[str, Any] | None
    description: str
    tags: Sequence[str]
    created_at: str
    updated_at: str
    updated_by: Mapping[str, Any] | None
    first_seen_at: str | None
    last_seen_at: str | None
    last_updated_at: str
    volume_30_day: int
    query_usage_30_day: None = None
    verified: bool
    verified_at: str | None
    verified_by: Mapping[str, Any] | None
    hidden: bool
    schema: Mapping[str, Any] | None
    schema_mode: str
    is_action: bool = False
    action_id: None = None
    is_calculating: bool = False
    last_calculated_at: None = None
    created_by: None = None
    post_to_slack: bool = False
    default_columns: Sequence[str] = ()


class EventDefinitionBody(DetailsBody):
    """`owner` is the id of a user. `schema` is a JSON schema of the properties: null removes it."""

    ignored_fields: ClassVar[frozenset[str] | None] = POSTHOG_FIELDS

    name: Annotated[str, Text(NAME_MAX_CHARS)] | None = None
    owner: Any = None
    json_schema: dict[str, Any] | None = Field(None, alias="schema")
    schema_mode: EventSchemaMode | None = None

    def to_fields(self, directory: Directory) -> dict[str, Any]:
        sent = self.to_details()
        if "owner" in self.model_fields_set:
            sent["owner_id"] = _parse_owner(self.owner, directory)
        if "json_schema" in self.model_fields_set:
            sent["schema"] = self.json_schema
        if self.schema_mode is not None:
            sent["schema_mode"] = self.schema_mode
        return sent


class NewEventDefinition(EventDefinitionBody):
    name: Annotated[str, Text(NAME_MAX_CHARS)]


def _parse_owner(value: Any, directory: Directory) -> int | None:
    """A client that sends a whole definition back sends the owner as an object."""
    id = value.get("id") if isinstance(value, dict) else value
    if id is None:
        return None
    if isinstance(id, bool) or not isinstance(id, int) or not directory.get_email(id):
        raise Invalid("Expected the id of a user, or null.", attr="owner")
    return id


def _parse_query(call: ProjectCall) -> EventQuery:
    order = call.query_param("ordering") or ""
    choices = (*ORDERS, *(f"-{each}" for each in ORDERS))
    parse_choice(order, "ordering", choices)
    type = parse_choice(call.query_param("event_type"), "event_type", EVENT_TYPES) or "all"
    return EventQuery(
        project_id=call.project.id,
        names=parse_names(call, "names"),
        is_posthog=EVENT_TYPES[type],
        order=order.removeprefix("-"),
        is_descending=order.startswith("-"),
        **parse_common(call),
    )


DEFINITIONS = Collection(
    name="event_definition", page=Page[EventDefinitionItem], item=EventDefinitionItem
)


class EventDefinitionEndpoints:
    tag = "Definitions"

    def __init__(
        self,
        activity: ActivityStore,
        definitions: DefinitionCatalogue,
        directory: Directory,
        schema_workers: FunctionPool,
    ) -> None:
        self._activity = activity
        self._definitions = definitions
        self._directory = directory
        self._schema_workers = schema_workers

    @DEFINITIONS.list_endpoint(*LIST_PARAMETERS)
    async def list_event_definitions(self, call: ProjectCall) -> Response:
        """List the events of a project, those seen last first."""
        found, count = await self._definitions.list_events(_parse_query(call))
        return JsonResponse(call.page(count, [self._render(call, each) for each in found]))

    @DEFINITIONS.create_endpoint(NewEventDefinition)
    async def create_event_definition(self, call: ProjectCall) -> Response:
        """Define an event before its first occurrence."""
        body = await call.body(NewEventDefinition)
        fields = await self._parse_fields(call, body)
        made = await self._definitions.create_event(
            call.project, body.name, fields, call.actor, call.now
        )
        return JsonResponse(self._render(call, made), status_code=201)

    @endpoint(
        "GET",
        *project_paths("event_definitions/by_name/"),
        access=DEFINITIONS.read,
        response=EventDefinitionItem,
        query=(Parameter("name", "The name of the event. Required."),),
    )
    async def find_event_definition(self, call: ProjectCall) -> Response:
        """Retrieve the definition of the event with this name."""
        name = parse_name(call)
        found = await self._definitions.find_event_by_name(call.project, name)
        return JsonResponse(self._render(call, found))

    @DEFINITIONS.retrieve_endpoint()
    async def retrieve_event_definition(self, call: ProjectCall) -> Response:
        """Retrieve an event definition."""
        found = await self._definitions.find_event(call.project, parse_id(call, PATH_ID, {}))
        return JsonResponse(self._render(call, found))

    @DEFINITIONS.change_endpoint(EventDefinitionBody)
    async def change_event_definition(self, call: ProjectCall) -> Response:
        """Describe, verify or hide an event, or give it a schema."""
        id = parse_id(call, PATH_ID, RESERVED)
        found = await self._definitions.find_event(call.project, id)
        body = await call.body(EventDefinitionBody)
        check_name(body.name, found)
        fields = await self._parse_fields(call, body)
        changed = await self._definitions.change_event(
            call.project, id, fields, call.actor, call.now
        )
        return JsonResponse(self._render(call, changed))

    @DEFINITIONS.delete_endpoint()
    async def delete_event_definition(self, call: ProjectCall) -> Response:
        """Delete an event definition with its schema. The events stay, and the next one with this
        name creates it anew."""
        id = parse_id(call, PATH_ID, RESERVED)
        await self._definitions.delete_event(call.project, id, call.actor, call.now)
        return no_content()

    @activity_endpoint("event_definitions/{event_definition_id}/activity/", DEFINITIONS.read)
    async def list_event_definition_activity(self, call: ProjectCall) -> Response:
        """List the changes made to an event definition, newest first."""
        return await respond_with_activity(
            call, self._activity, EVENT_SCOPE, parse_id(call, PATH_ID, {})
        )

    async def _parse_fields(self, call: ProjectCall, body: EventDefinitionBody) -> dict[str, Any]:
        fields = body.to_fields(self._directory)
        await check_in_worker(self._schema_workers, fields.get("schema"), f"api {call.project.id}")
        return fields

    def _render(self, call: ProjectCall, definition: EventDefinition) -> EventDefinitionItem:
        owner = definition.owner_id
        email = self._directory.get_email(owner) if owner is not None else ""
        return EventDefinitionItem(
            **render_details(call, definition),
            owner={**render_user(call, email), "id": owner} if email else None,
            last_updated_at=format_iso(definition.updated_at),
            volume_30_day=definition.volume_30_day,
            schema=definition.schema,
            schema_mode=definition.schema_mode.value,
        )
