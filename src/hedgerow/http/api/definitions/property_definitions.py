"""Property definitions: the properties of events, persons and groups, with their types."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from starlette.responses import Response

from hedgerow.definitions.definitions import PROPERTY_SCOPE, DefinitionCatalogue
from hedgerow.definitions.model import PropertyDefinition, PropertyKind, PropertyValueType
from hedgerow.definitions.store import PropertyQuery
from hedgerow.errors import Invalid, NotFound
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.definitions.details import (
    BOOLEAN,
    COMMON_PARAMETERS,
    DetailsBody,
    check_name,
    parse_common,
    parse_id,
    parse_name,
    parse_names,
    render_details,
)
from hedgerow.http.call import ProjectCall
from hedgerow.http.collection import Collection
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import Page
from hedgerow.http.parameters import Parameter, parse_boolean, parse_choice
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.projects.store import ActivityStore

PATH_ID = "property_definition_id"
RESERVED = dict.fromkeys(("activity", "by_name"), "GET, HEAD")
# A session has columns instead of properties, so no definition has this type.
SESSION = "session"
TYPES = (*PropertyKind, SESSION)
MAX_GROUP_TYPES = 5
TYPE = Parameter("type", f"One of: {', '.join(TYPES)}. Default: event.")
GROUP_TYPE_INDEX = Parameter(
    "group_type_index", "Required with type group: the type of the groups.", {"type": "integer"}
)
LIST_PARAMETERS = (
    TYPE,
    GROUP_TYPE_INDEX,
    *COMMON_PARAMETERS,
    Parameter("properties", "Only the properties with these names, separated by commas."),
    Parameter("excluded_properties", "Leave out these names: a JSON list."),
    Parameter("event_names", "Tell which properties these events have: a JSON list."),
    Parameter("filter_by_event_names", "Only properties that these events have.", BOOLEAN),
    Parameter("is_feature_flag", "Only properties that begin with $feature/, or others.", BOOLEAN),
    Parameter("is_numerical", "Only properties of type Numeric, or others.", BOOLEAN),
    Parameter("exclude_core_properties", "Leave out properties that begin with $.", BOOLEAN),
)
# Fields of a property definition that PostHog returns or accepts and that have no effect here.
POSTHOG_FIELDS = frozenset(
    (
        *("id", "name", "type", "group_type_index", "is_numerical", "is_seen_on_filtered_events"),
        *("created_at", "updated_at", "updated_by", "first_seen_at", "last_seen_at"),
        *("verified_at", "verified_by", "query_usage_30_day", "volume_30_day", "virtual"),
    )
)


class PropertyDefinitionItem(msgspec.Struct, kw_only=True):
    """A property. `property_type` is the first type that it was seen with, or null.
    `is_seen_on_filtered_events` is null unless the request has `event_names`."""

    id: str
    name: str
    type: str
    group_type_index: int | None
    is_numerical: bool
    property_type: str | None
    is_seen_on_filtered_events: bool | None
    query_usage_30_day: None = None
    description: str
    tags: Sequence[str]
    created_at: str
    updated_at: str
    updated_by: Mapping[str, Any] | None
    first_seen_at: str | None
    last_seen_at: str | None
    verified: bool
    verified_at: str | None
    verified_by: Mapping[str, Any] | None
    hidden: bool


class PropertyDefinitionBody(DetailsBody):
    """`property_type` replaces the type that was detected; null until it is detected again."""

    ignored_fields: ClassVar[frozenset[str] | None] = POSTHOG_FIELDS - {"name"}

    name: str | None = None
    property_type: PropertyValueType | None = None

    def to_fields(self) -> dict[str, Any]:
        sent = self.to_details()
        if "property_type" in self.model_fields_set:
            sent["property_type"] = self.property_type
        return sent


def _parse_index(call: ProjectCall, type: str) -> int | None:
    text = call.query_param("group_type_index") or ""
    if not text:
        if type == PropertyKind.GROUP:
            detail = "With type group, `group_type_index` is required."
            raise Invalid(detail, attr="group_type_index", code="required")
        return None
    if type != PropertyKind.GROUP:
        detail = "`group_type_index` requires type group."
        raise Invalid(detail, attr="group_type_index")
    if text not in map(str, range(MAX_GROUP_TYPES)):
        detail = f"Expected a whole number from 0 to {MAX_GROUP_TYPES - 1}."
        raise Invalid(detail, attr="group_type_index")
    return int(text)


def _parse_type(call: ProjectCall) -> str:
    return parse_choice(call.query_param("type"), "type", TYPES) or PropertyKind.EVENT


def _parse_query(call: ProjectCall, type: str) -> PropertyQuery:
    def flag(name: str) -> bool | None:
        return parse_boolean(call.query_param(name), name)

    return PropertyQuery(
        project_id=call.project.id,
        kind=PropertyKind(type),
        group_type_index=_parse_index(call, type),
        names=parse_names(call, "properties"),
        excluded=parse_names(call, "excluded_properties") or (),
        events=parse_names(call, "event_names"),
        is_filtered_by_events=flag("filter_by_event_names") or False,
        is_feature_flag=flag("is_feature_flag"),
        is_numerical=flag("is_numerical"),
        excludes_core=flag("exclude_core_properties") or False,
        **parse_common(call),
    )


DEFINITIONS = Collection(
    name="property_definition", page=Page[PropertyDefinitionItem], item=PropertyDefinitionItem
)


class PropertyDefinitionEndpoints:
    tag = "Definitions"

    def __init__(self, activity: ActivityStore, definitions: DefinitionCatalogue) -> None:
        self._activity = activity
        self._definitions = definitions

    @DEFINITIONS.list_endpoint(*LIST_PARAMETERS)
    async def list_property_definitions(self, call: ProjectCall) -> Response:
        """List the properties of events, of persons or of groups, by name."""
        type = _parse_type(call)
        if type == SESSION:
            return JsonResponse(call.page(0, []))
        found, count = await self._definitions.list_properties(_parse_query(call, type))
        return JsonResponse(call.page(count, [_render(call, each) for each in found]))

    @endpoint(
        "GET",
        *project_paths("property_definitions/by_name/"),
        access=DEFINITIONS.read,
        response=PropertyDefinitionItem,
        query=(Parameter("name", "The name of the property. Required."), TYPE, GROUP_TYPE_INDEX),
    )
    async def find_property_definition(self, call: ProjectCall) -> Response:
        """Retrieve the definition of the property with this name."""
        name = parse_name(call)
        type = _parse_type(call)
        if type == SESSION:
            raise NotFound
        query = PropertyQuery(
            project_id=call.project.id,
            kind=PropertyKind(type),
            group_type_index=_parse_index(call, type),
            names=[name],
        )
        found, _ = await self._definitions.list_properties(query)
        if not found:
            raise NotFound
        return JsonResponse(_render(call, found[0]))

    @DEFINITIONS.retrieve_endpoint()
    async def retrieve_property_definition(self, call: ProjectCall) -> Response:
        """Retrieve a property definition."""
        found = await self._definitions.find_property(call.project, parse_id(call, PATH_ID, {}))
        return JsonResponse(_render(call, found))

    @DEFINITIONS.change_endpoint(PropertyDefinitionBody)
    async def change_property_definition(self, call: ProjectCall) -> Response:
        """Describe, verify or hide a property, or correct its type."""
        id = parse_id(call, PATH_ID, RESERVED)
        found = await self._definitions.find_property(call.project, id)
        body = await call.body(PropertyDefinitionBody)
        check_name(body.name, found)
        changed = await self._definitions.change_property(
            call.project, id, body.to_fields(), call.actor, call.now
        )
        return JsonResponse(_render(call, changed))

    @DEFINITIONS.delete_endpoint()
    async def delete_property_definition(self, call: ProjectCall) -> Response:
        """Delete a property definition. The events stay, and a later one with this property creates
        it anew."""
        id = parse_id(call, PATH_ID, RESERVED)
        await self._definitions.delete_property(call.project, id, call.actor, call.now)
        return no_content()

    @activity_endpoint("property_definitions/{property_definition_id}/activity/", DEFINITIONS.read)
    async def list_property_definition_activity(self, call: ProjectCall) -> Response:
        """List the changes made to a property definition, newest first."""
        id = parse_id(call, PATH_ID, {})
        return await respond_with_activity(call, self._activity, PROPERTY_SCOPE, id)


def _render(call: ProjectCall, definition: PropertyDefinition) -> PropertyDefinitionItem:
    type = definition.property_type
    return PropertyDefinitionItem(
        **render_details(call, definition),
        type=definition.type.value,
        group_type_index=definition.group_type_index,
        is_numerical=type is PropertyValueType.NUMERIC,
        property_type=type.value if type else None,
        is_seen_on_filtered_events=definition.is_seen_on_events,
    )
