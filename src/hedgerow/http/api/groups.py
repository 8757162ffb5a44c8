"""Groups and group types."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.flags import Flags
from hedgerow.http.api.persons import validate_properties
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_text
from hedgerow.http.payload.fields import Fields, Text
from hedgerow.http.server.response import JsonResponse
from hedgerow.ingestion.read_barrier import ReadBarrier
from hedgerow.lib.clock import format_iso
from hedgerow.persons.model import MAX_GROUP_TYPES, Group
from hedgerow.persons.store import PersonStore

SEARCH_MAX = 400
TYPE_INDEX = Parameter("group_type_index", "The index of the group type.", {"type": "integer"})
LIST_PARAMETERS = (
    TYPE_INDEX,
    Parameter("search", "Only groups with this text in their key or their property `name`."),
)
FIND_PARAMETERS = (TYPE_INDEX, Parameter("group_key", "The key of the group."))


class GroupItem(msgspec.Struct, kw_only=True):
    group_type_index: int
    group_key: str
    group_properties: Mapping[str, Any]
    created_at: str


class GroupTypeItem(msgspec.Struct, kw_only=True):
    group_type: str
    group_type_index: int


class GroupTypeBody(Fields):
    group_type: Annotated[str, Text(400)]


class GroupBody(Fields):
    """A group. A new `group_type` is created; `group_properties` are merged into existing ones."""

    group_type: Annotated[str, Text(400)]
    group_key: Annotated[str, Text(400)]
    group_properties: dict[Any, Any] | None = None


def _render_group(group: Group) -> GroupItem:
    return GroupItem(
        group_type_index=group.type_index,
        group_key=group.key,
        group_properties=group.properties,
        created_at=format_iso(group.created_at),
    )


def _parse_type_index(call: ProjectCall) -> int:
    text = call.query_param("group_type_index") or ""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise Invalid("A valid integer is required.", attr="group_type_index")
    return int(text)


class GroupEndpoints:
    tag = "Persons"

    def __init__(self, flags: Flags, persons: PersonStore, read_barrier: ReadBarrier) -> None:
        self._flags = flags
        self._persons = persons
        self._read_barrier = read_barrier

    @endpoint(
        "GET",
        *project_paths("groups_types/"),
        access=in_project("group:read"),
        response=list[GroupTypeItem],
    )
    async def list_group_types(self, call: ProjectCall) -> Response:
        """List the project's group types, five at most."""
        await self._read_barrier.wait_until_processed(call.project.id)
        types = await self._persons.group_types(call.project.id)
        return JsonResponse(
            [
                GroupTypeItem(group_type=name, group_type_index=index)
                for name, index in types.items()
            ]
        )

    @endpoint(
        "POST",
        *project_paths("groups_types/"),
        access=in_project("group:write"),
        response=GroupTypeItem,
        status=201,
        body=GroupTypeBody,
    )
    async def create_group_type(self, call: ProjectCall) -> Response:
        """Create a group type, so that flags can use it before the first group exists. An existing
        type is returned unchanged."""
        name = (await call.body(GroupTypeBody)).group_type
        index = await self._put_group_type(call, name)
        await self._flags.refresh(call.project)
        return JsonResponse(GroupTypeItem(group_type=name, group_type_index=index), status_code=201)

    async def _put_group_type(self, call: ProjectCall, name: str) -> int:
        index = await self._persons.upsert_group_type(call.project.id, name, MAX_GROUP_TYPES)
        if index is None:
            raise Invalid(
                f"A project can have at most {MAX_GROUP_TYPES} group types.", attr="group_type"
            )
        return index

    @endpoint(
        "GET",
        *project_paths("groups/"),
        access=in_project("group:read"),
        response=Page[GroupItem],
        query=PAGE_PARAMETERS + LIST_PARAMETERS,
    )
    async def list_groups(self, call: ProjectCall) -> Response:
        """List the groups of one type, ordered by key."""
        index = _parse_type_index(call)
        search = parse_text(call.query_param("search"), "search").strip()[:SEARCH_MAX]
        window = call.window
        await self._read_barrier.wait_until_processed(call.project.id)
        found, count = await self._persons.groups(
            call.project.id, index, limit=window.limit, offset=window.offset, search=search
        )
        listed = [_render_group(group) for group in found]
        return JsonResponse(call.page(count, listed))

    @endpoint(
        "GET",
        *project_paths("groups/find/"),
        access=in_project("group:read"),
        response=GroupItem,
        query=FIND_PARAMETERS,
    )
    async def find_group(self, call: ProjectCall) -> Response:
        """Retrieve the group of a type with this key."""
        index = _parse_type_index(call)
        key = parse_text(call.query_param("group_key"), "group_key")
        if not key:
            raise Invalid("This field is required.", attr="group_key", code="required")
        await self._read_barrier.wait_until_processed(call.project.id)
        group = await self._persons.group(call.project.id, index, key)
        if group is None:
            raise NotFound
        return JsonResponse(_render_group(group))

    @endpoint(
        "POST",
        *project_paths("groups/"),
        access=in_project("group:write"),
        response=GroupItem,
        status=201,
        body=GroupBody,
    )
    async def create_group(self, call: ProjectCall) -> Response:
        """Create a group, or merge properties into an existing one."""
        body = await call.body(GroupBody)
        properties = validate_properties(body.group_properties, "group_properties")
        index = await self._put_group_type(call, body.group_type)
        group = await self._persons.upsert_group(
            call.project.id, index, body.group_key, properties, call.now
        )
        await self._flags.refresh(call.project)
        return JsonResponse(_render_group(group), status_code=201)
