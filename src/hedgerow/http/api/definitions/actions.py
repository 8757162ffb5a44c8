"""Actions: names for the events that match one of several steps."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.events.actions.actions import SCOPE, Actions
from hedgerow.events.actions.model import Action, ActionId
from hedgerow.events.actions.steps import validate_steps
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.people.users import render_user
from hedgerow.http.call import ProjectCall
from hedgerow.http.collection import Collection
from hedgerow.http.paging import Page
from hedgerow.http.parameters import Parameter, parse_positive
from hedgerow.http.payload.fields import (
    INT64_MAX,
    OMITTED,
    Boolean,
    Date,
    Fields,
    Text,
)
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.projects.store import ActivityStore

NAME_MAX = 400
TEXT_MAX = 10_000
TAG_MAX = 255
MAX_TAGS = 100
LIST_PARAMETERS = (Parameter("search", "Only actions whose name contains this text."),)
# ActionSerializer in PostHog's posthog/api/action.py: what it returns beyond the fields here.
POSTHOG_ACTION_FIELDS = frozenset(
    (
        *("id", "created_at", "created_by", "is_calculating", "last_calculated_at", "team_id"),
        *("is_action", "bytecode_error", "creation_context", "_create_in_folder"),
        *("user_access_level", "last_summarized_at", "summary", "steps_json"),
    )
)


class ActionItem(msgspec.Struct, kw_only=True):
    """An action. An event belongs to it if it matches one of the `steps`."""

    id: int
    name: str
    description: str
    tags: Sequence[str]
    post_to_slack: bool
    slack_message_format: str
    steps: Sequence[Mapping[str, Any]]
    created_at: str
    created_by: Mapping[str, Any] | None
    deleted: bool
    is_calculating: bool
    last_calculated_at: str
    team_id: int
    is_action: bool
    bytecode_error: None = None
    pinned_at: str | None
    user_access_level: str


class ActionBody(Fields):
    """An event matches a step if it matches all its fields: `event`, `url`, the filters in
    `properties`, and for autocaptured elements `text`, `href`, `selector` and `tag_name`.
    `url_matching`, `text_matching` and `href_matching` are contains, regex or exact."""

    ignored_fields: ClassVar[frozenset[str] | None] = POSTHOG_ACTION_FIELDS

    name: Annotated[str, Text(NAME_MAX)] = OMITTED
    description: Annotated[str, Text(TEXT_MAX, blank=True)] = OMITTED
    steps: list[dict[str, Any]] = OMITTED
    tags: list[Annotated[str, Text(TAG_MAX)]] = OMITTED
    pinned_at: Date | None = None
    deleted: Boolean = OMITTED
    post_to_slack: Boolean | None = None
    slack_message_format: Annotated[str, Text(TEXT_MAX, blank=True)] = OMITTED

    def to_fields(self) -> dict[str, Any]:
        """Validate the fields present in the body and convert them to their stored form."""
        if self.post_to_slack:
            detail = "Actions send no messages. Add a destination that matches the same events."
            raise Invalid(detail, attr="post_to_slack", code="not_supported")
        sent = {name: getattr(self, name) for name in self.model_fields_set - {"post_to_slack"}}
        if "steps" in sent:
            sent["steps"] = validate_steps(sent["steps"])
        if "tags" in sent:
            sent["tags"] = list(dict.fromkeys(sent["tags"]))[:MAX_TAGS]
        return sent


class NewAction(ActionBody):
    name: Annotated[str, Text(NAME_MAX)]


def _render_action(call: ProjectCall, action: Action) -> ActionItem:
    return ActionItem(
        id=action.id,
        name=action.name,
        description=action.description,
        tags=action.tags,
        post_to_slack=False,
        slack_message_format=action.slack_message_format,
        steps=action.steps,
        created_at=format_iso(action.created_at),
        created_by=render_user(call, action.created_by),
        deleted=action.deleted,
        is_calculating=False,
        last_calculated_at=format_iso(action.created_at),
        team_id=action.project_id,
        is_action=True,
        pinned_at=format_iso(action.pinned_at) if action.pinned_at else None,
        user_access_level="manager",
    )


def _parse_id(call: ProjectCall) -> ActionId:
    text = call.path_param("action_id")
    number = parse_positive(text) if text.isdecimal() else None
    if number is None or number > INT64_MAX:
        raise NotFound
    return ActionId(number)


ACTIONS = Collection(name="action", page=Page[ActionItem], item=ActionItem)


class ActionEndpoints:
    tag = "Actions"

    def __init__(self, actions: Actions, activity: ActivityStore) -> None:
        self._actions = actions
        self._activity = activity

    @ACTIONS.list_endpoint(*LIST_PARAMETERS)
    async def list_actions(self, call: ProjectCall) -> Response:
        """List the project's actions, pinned ones first, then the newest."""
        window = call.window
        search = (call.query_param("search") or "").strip().lower()
        found = [
            each
            for each in await self._actions.list_actions(call.project)
            if search in each.name.lower()
        ]
        found.sort(key=lambda each: each.pinned_at is None)
        listed = [_render_action(call, each) for each in window.of(found)]
        return JsonResponse(call.page(len(found), listed))

    @ACTIONS.create_endpoint(NewAction)
    async def create_action(self, call: ProjectCall) -> Response:
        """Create an action."""
        body = await call.body(NewAction)
        created = await self._actions.create(call.project, body.to_fields(), call.actor, call.now)
        return JsonResponse(_render_action(call, created), status_code=201)

    @ACTIONS.retrieve_endpoint()
    async def retrieve_action(self, call: ProjectCall) -> Response:
        """Retrieve an action, also a deleted one."""
        found = await self._actions.find(call.project, _parse_id(call))
        return JsonResponse(_render_action(call, found))

    @ACTIONS.change_endpoint(ActionBody)
    async def change_action(self, call: ProjectCall) -> Response:
        """Update the given fields. `deleted` deletes or restores the action."""
        found = await self._actions.find(call.project, _parse_id(call))
        body = await call.body(ActionBody)
        changed = await self._actions.change(
            call.project, found.id, body.to_fields(), call.actor, call.now
        )
        return JsonResponse(_render_action(call, changed))

    @ACTIONS.delete_endpoint()
    async def delete_action(self, call: ProjectCall) -> Response:
        """Delete an action. Queries that name it are refused."""
        found = await self._actions.find(call.project, _parse_id(call))
        await self._actions.change(call.project, found.id, {"deleted": True}, call.actor, call.now)
        return no_content()

    @activity_endpoint("actions/{action_id}/activity/", ACTIONS.read)
    async def list_action_activity(self, call: ProjectCall) -> Response:
        """List the changes made to an action, newest first."""
        found = await self._actions.find(call.project, _parse_id(call))
        return await respond_with_activity(call, self._activity, SCOPE, str(found.id))
