"""Holdouts: people who get no variant of several experiments. Paths and fields are PostHog's."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.experiments.holdouts import SCOPE, Holdout, HoldoutId, Holdouts
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.people.users import render_user
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_positive, parse_text
from hedgerow.http.payload.fields import INT64_MAX, OMITTED, Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.lib.text import truncate
from hedgerow.projects.store import ActivityStore

NAME_MAX_CHARS = 400
DESCRIPTION_MAX_CHARS = 400
SEARCH = Parameter("search", "Only holdouts whose name or description contains this text.")
READ = in_project("experiment:read")
WRITE = in_project("experiment:write")
RETURNED_FIELDS = frozenset(
    ("id", "created_by", "created_at", "updated_at", "user_access_level", "exclusion_percentage")
)
_GROUP_FIELDS = ("properties", "rollout_percentage", "variant")


class HoldoutItem(msgspec.Struct, kw_only=True):
    """`filters` has one group, whose `rollout_percentage` is the share of people who are held
    out. Flags return its `variant` for them."""

    id: int
    name: str
    description: str
    filters: Sequence[Mapping[str, Any]]
    created_by: Mapping[str, Any] | None
    created_at: str
    updated_at: str


class HoldoutBody(Fields):
    """`filters` is a list of one object with the `rollout_percentage` of people to hold out."""

    ignored_fields: ClassVar[frozenset[str] | None] = RETURNED_FIELDS

    name: Annotated[str, Text(NAME_MAX_CHARS)] = OMITTED
    description: Annotated[str, Text(DESCRIPTION_MAX_CHARS, blank=True)] | None = None
    filters: list[Any] = OMITTED

    def to_fields(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in self.model_fields_set}
        if "description" in found:
            found["description"] = found["description"] or ""
        if "filters" in found:
            found["exclusion_percentage"] = _parse_share(found.pop("filters"))
        return found


class NewHoldout(HoldoutBody):
    name: Annotated[str, Text(NAME_MAX_CHARS)]
    filters: list[Any]


def _parse_share(filters: Sequence[Any]) -> float:
    if len(filters) != 1 or not isinstance(filters[0], dict):
        raise Invalid(
            "Expected a list of one object, such as "
            '`[{"properties": [], "rollout_percentage": 10}]`.',
            attr="filters",
        )
    [group] = filters
    if unknown := sorted(set(group) - set(_GROUP_FIELDS)):
        expected = ", ".join(_GROUP_FIELDS)
        detail = f"Unknown field `{truncate(unknown[0])}`. Expected one of: {expected}."
        raise Invalid(detail, attr=f"filters[0].{truncate(unknown[0])}", code="unknown_field")
    if group.get("properties"):
        detail = "A holdout is a share of all people. Leave out the properties."
        raise Invalid(detail, attr="filters[0].properties", code="not_supported")
    share: Any = group.get("rollout_percentage")
    if type(share) not in (int, float) or not 0 <= share <= 100:
        detail = "Expected a percentage from 0 to 100."
        raise Invalid(detail, attr="filters[0].rollout_percentage")
    return float(share)


def _render(call: ProjectCall, holdout: Holdout) -> HoldoutItem:
    group = {
        "properties": [],
        "rollout_percentage": holdout.document["exclusion_percentage"],
        "variant": f"holdout-{holdout.id}",
    }
    return HoldoutItem(
        id=holdout.id,
        name=holdout.name,
        description=holdout.description,
        filters=[group],
        created_by=render_user(call, holdout.created_by),
        created_at=format_iso(holdout.created_at),
        updated_at=format_iso(holdout.updated_at),
    )


def _parse_id(call: ProjectCall) -> HoldoutId:
    text = call.path_param("holdout_id")
    number = parse_positive(text) if text.isascii() and text.isdecimal() else None
    if number is None or number > INT64_MAX:
        raise NotFound
    return HoldoutId(number)


class HoldoutEndpoints:
    tag = "Experiments"

    def __init__(self, activity: ActivityStore, holdouts: Holdouts) -> None:
        self._activity = activity
        self._holdouts = holdouts

    @endpoint(
        "GET",
        *project_paths("experiment_holdouts/"),
        access=READ,
        response=Page[HoldoutItem],
        query=(*PAGE_PARAMETERS, SEARCH),
    )
    async def list_holdouts(self, call: ProjectCall) -> Response:
        """List the holdouts of experiments, newest first."""
        search = parse_text(call.query_param("search"), "search").strip().casefold()
        found = [
            each
            for each in await self._holdouts.list_holdouts(call.project)
            if search in each.name.casefold() or search in each.description.casefold()
        ]
        listed = [_render(call, each) for each in call.window.of(found)]
        return JsonResponse(call.page(len(found), listed))

    @endpoint(
        "POST",
        *project_paths("experiment_holdouts/"),
        access=WRITE,
        response=HoldoutItem,
        status=201,
        body=NewHoldout,
    )
    async def create_holdout(self, call: ProjectCall) -> Response:
        """Create a holdout. Experiments use it by `holdout_id`."""
        body = await call.body(NewHoldout)
        made = await self._holdouts.create(call.project, body.to_fields(), call.actor, call.now)
        return JsonResponse(_render(call, made), status_code=201)

    @endpoint(
        "GET",
        *project_paths("experiment_holdouts/{holdout_id}/"),
        access=READ,
        response=HoldoutItem,
    )
    async def retrieve_holdout(self, call: ProjectCall) -> Response:
        """Retrieve a holdout."""
        found = await self._holdouts.find(call.project, _parse_id(call))
        return JsonResponse(_render(call, found))

    @endpoint(
        "PATCH",
        *project_paths("experiment_holdouts/{holdout_id}/"),
        access=WRITE,
        response=HoldoutItem,
        body=HoldoutBody,
    )
    async def change_holdout(self, call: ProjectCall) -> Response:
        """Change a holdout, and with its share the flags of its experiments. The share cannot
        change while one of them is running."""
        id = _parse_id(call)
        await self._holdouts.find(call.project, id)
        body = await call.body(HoldoutBody)
        changed = await self._holdouts.change(
            call.project, id, body.to_fields(), call.actor, call.now
        )
        return JsonResponse(_render(call, changed))

    @endpoint(
        "DELETE", *project_paths("experiment_holdouts/{holdout_id}/"), access=WRITE, status=204
    )
    async def delete_holdout(self, call: ProjectCall) -> Response:
        """Delete a holdout, and remove it from its experiments and their flags."""
        await self._holdouts.delete(call.project, _parse_id(call), call.actor, call.now)
        return no_content()

    @activity_endpoint("experiment_holdouts/{holdout_id}/activity/", READ)
    async def list_holdout_activity(self, call: ProjectCall) -> Response:
        """List the changes made to a holdout, newest first."""
        found = await self._holdouts.find(call.project, _parse_id(call))
        return await respond_with_activity(call, self._activity, SCOPE, str(found.id))
