"""Feature flags: definitions, status and activity."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from pydantic import BeforeValidator, ConfigDict, ValidationInfo
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.flags.edits import EditBase, FlagFields
from hedgerow.flags.flags import SCOPE, STALE, TYPES, FlagFilter, Flags, get_flag_status
from hedgerow.flags.known_fields import POSTHOG_FLAG_FIELDS
from hedgerow.flags.model import KEY_MAX_CHARS, Bucketing, Flag, Runtime
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.flags.change_request_items import (
    ApprovalRefusal,
    ChangeRequester,
    propose_flag,
)
from hedgerow.http.api.flags.summary import FlagItem, FlagRenderer
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.definitions import compile_patterns
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import (
    Parameter,
    parse_boolean,
    parse_choice,
    parse_positive,
    parse_text,
)
from hedgerow.http.payload.fields import OMITTED, Between, Boolean, Fields, Json, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso
from hedgerow.lib.text import truncate
from hedgerow.projects.store import ActivityStore
from hedgerow.surveys.surveys import Surveys

NAME_MAX = 10_000
NO_USER = "@"
# Path segments that are not flag keys, with the methods of their own routes.
RESERVED = {
    "activity": "GET, HEAD",
    "evaluation_reasons": "GET, HEAD",
    "explain": "POST",
    "explanations": "POST",
    "local_evaluation": "GET, HEAD",
    "preview": "POST",
    "stream": "GET, HEAD",
    "user_blast_radius": "POST",
    "what_if": "POST",
}
LIST_PARAMETERS = (
    Parameter("search", "Only flags whose key or name contains this text."),
    Parameter("active", "Only active (true), inactive (false) or stale (STALE) flags."),
    Parameter("archived", "Only archived (true) or other (false) flags.", {"type": "boolean"}),
    Parameter("created_by_id", "Only flags created by the user with this id.", {"type": "integer"}),
    Parameter("owner", "Only flags that have this owner."),
    Parameter("type", f"Only flags of this type: {', '.join(TYPES)}."),
    Parameter("tags", "Only flags with one of these tags, as a JSON list."),
)


def _check_own_rollout(value: Any, info: ValidationInfo) -> None:
    """Earlier versions of PostHog return the percentage of a flag's only condition also as one of
    the flag."""
    if value is not None and value != _get_first_rollout(info.data.get("filters")):
        detail = "A flag has no percentage of its own. Send `filters.groups[0].rollout_percentage`."
        raise PydanticCustomError("unsupported", detail, {"code": "not_supported"})


def _get_first_rollout(filters: Any) -> Any:
    try:
        return filters["groups"][0]["rollout_percentage"]
    except (TypeError, KeyError, IndexError):
        return None


class FlagStatus(msgspec.Struct, kw_only=True):
    """`calls` counts the `$feature_flag_called` events for each value."""

    status: str
    reason: str
    last_called_at: str | None
    calls: Mapping[str, int]


class FlagReference(msgspec.Struct, kw_only=True):
    id: int
    key: str
    name: str


class FlagBody(Fields):
    """The writable fields. `version` and `original_flag` describe the flag before the edit, so that
    conflicting edits are detected."""

    model_config = ConfigDict(str_strip_whitespace=False)
    ignored_fields: ClassVar[frozenset[str] | None] = POSTHOG_FLAG_FIELDS | {
        *FlagItem.__struct_fields__
    }

    key: Annotated[str, Text(KEY_MAX_CHARS, blank=True)] = OMITTED
    name: Annotated[str, Text(NAME_MAX, blank=True)] | None = None
    filters: Json = None
    active: Boolean = OMITTED
    deleted: Boolean = OMITTED
    archived: Boolean = OMITTED
    ensure_experience_continuity: Boolean | None = None
    is_remote_configuration: Boolean | None = None
    has_encrypted_payloads: Boolean | None = None
    evaluation_runtime: Runtime | None = None
    bucketing_identifier: Bucketing | None = None
    evaluation_contexts: list[Annotated[str, Text(200)]] | None = None
    evaluation_tags: list[Annotated[str, Text(200)]] | None = None
    tags: list[Annotated[str, Text(200)]] | None = None
    owners: list[Annotated[str, Text(200)]] | None = None
    rollout_percentage: Annotated[None, BeforeValidator(_check_own_rollout)] = None
    version: Annotated[int, Between()] | None = None
    original_flag: Json = None

    def to_fields(self) -> FlagFields:
        fields = {
            name: getattr(self, name)
            for name in FlagFields.__slots__
            if getattr(self, name) is not None
        }
        if self.evaluation_tags is not None:  # the name in earlier versions of PostHog
            fields.setdefault("evaluation_contexts", self.evaluation_tags)
        for name in ("evaluation_contexts", "tags", "owners"):
            if name in fields:
                fields[name] = tuple(dict.fromkeys(fields[name]))
        return FlagFields(**fields)

    def to_base(self) -> EditBase | None:
        if self.version is None:
            return None
        original = self.original_flag
        return EditBase(
            version=self.version, fields=original if isinstance(original, dict) else None
        )


def _parse_active(text: str) -> bool | None:
    if text.lower() not in ("", "true", "false"):
        detail = f'"{truncate(text)}" is not a valid choice. Expected one of: true, false, {STALE}.'
        raise Invalid(detail, attr="active", code="invalid_choice")
    return parse_boolean(text, "active")


def _parse_creator(call: ProjectCall) -> str | None:
    """Return the email of a user, one that no user has if there is none with this id."""
    text = call.query_param("created_by_id")
    if not text:
        return None
    id = parse_positive(text)
    if id is None:
        raise Invalid("A valid integer is required.", attr="created_by_id")
    user = call.context.directory.find_user_by_id(id)
    return NO_USER if user is None else user.email


def _parse_tags(text: str | None) -> frozenset[str]:
    if not text:
        return frozenset()
    try:
        tags = jsonio.parse(text.encode("utf-8", "surrogatepass"))
    except jsonio.JsonError as error:
        raise Invalid(str(error), attr="tags") from None
    if tags is None:
        return frozenset()
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Invalid('Expected a list of texts, such as ["checkout"].', attr="tags")
    return frozenset(tags)


class FlagEndpoints:
    tag = "Feature flags"

    def __init__(
        self,
        activity: ActivityStore,
        flag_renderer: FlagRenderer,
        flags: Flags,
        requester: ChangeRequester,
        surveys: Surveys,
    ) -> None:
        self._activity = activity
        self._requester = requester
        self._flag_renderer = flag_renderer
        self._flags = flags
        self._surveys = surveys

    async def _respond(self, call: ProjectCall, flag: Flag, status: int = 200) -> Response:
        return JsonResponse(await self._flag_renderer.render_one(call, flag), status_code=status)

    async def _find_unreserved(self, call: ProjectCall, *, deleted_too: bool = False) -> Flag:
        """Find the flag with the id or key at the end of the path."""
        call.path_param("flag_id", RESERVED)  # raises MethodNotAllowed
        return await self._find(call, deleted_too=deleted_too)

    async def _find(self, call: ProjectCall, *, deleted_too: bool = False) -> Flag:
        flag_id = call.path_param("flag_id")
        return await self._flags.find(call.project, flag_id, deleted_too=deleted_too)

    @endpoint(
        "GET",
        *project_paths("feature_flags/"),
        access=in_project("feature_flag:read"),
        response=Page[FlagItem],
        query=PAGE_PARAMETERS + LIST_PARAMETERS,
    )
    async def list_flags(self, call: ProjectCall) -> Response:
        """List the project's flags, newest first, without deleted ones."""
        window = call.window
        search = parse_text(call.query_param("search"), "search")
        kind = parse_choice(call.query_param("type"), "type", TYPES)
        active = call.query_param("active") or ""
        is_stale = active.upper() == STALE
        links = await self._flag_renderer.load_links(call.project)
        flag_filter = FlagFilter(
            search=search.strip()[:200],
            active=None if is_stale else _parse_active(active),
            archived=parse_boolean(call.query_param("archived"), "archived"),
            created_by=_parse_creator(call),
            owner=call.query_param("owner") or None,
            type=kind,
            experimental=links.experiments.keys(),
            stale_at=call.now if is_stale else None,
            tags=_parse_tags(call.query_param("tags")),
        )
        # Like PostHog, leave out the internal flags of surveys.
        owned = await self._surveys.owned_flags(call.project)
        found = await self._flags.list_flags(call.project, flag_filter)
        flags = [flag for flag in found if flag.id not in owned]
        listed = [self._flag_renderer.render(call, flag, links) for flag in window.of(flags)]
        return JsonResponse(call.page(len(flags), listed))

    @endpoint(
        "POST",
        *project_paths("feature_flags/"),
        access=in_project("feature_flag:write"),
        response=FlagItem,
        status=201,
        body=FlagBody,
        failure=ApprovalRefusal,
    )
    async def create_flag(self, call: ProjectCall) -> Response:
        """Create a flag. If a policy requires approvals, the response is 409 with the change
        request."""
        fields = (await call.body(FlagBody)).to_fields()
        await compile_patterns(fields.filters)
        flag = await self._requester.run(
            call,
            self._flags.create(call.project, fields, call.actor, call.now),
            propose_flag(None, fields),
        )
        return await self._respond(call, flag, 201)

    @endpoint(
        "GET",
        *project_paths("feature_flags/{flag_id}/"),
        access=in_project("feature_flag:read"),
        response=FlagItem,
    )
    async def retrieve_flag(self, call: ProjectCall) -> Response:
        """Retrieve a flag by its id or key."""
        return await self._respond(call, await self._find_unreserved(call))

    @endpoint(
        "PATCH",
        *project_paths("feature_flags/{flag_id}/"),
        access=in_project("feature_flag:write"),
        response=FlagItem,
        body=FlagBody,
        failure=ApprovalRefusal,
    )
    async def change_flag(self, call: ProjectCall) -> Response:
        """Update the given fields. `deleted: false` restores a deleted flag. If a policy requires
        approvals, the response is 409 with the change request."""
        found = await self._find_unreserved(call, deleted_too=True)
        body = await call.body(FlagBody)
        fields = body.to_fields()
        await compile_patterns(fields.filters)
        flag = await self._change(call, found, fields, body.to_base())
        return await self._respond(call, flag)

    async def _change(
        self, call: ProjectCall, flag: Flag, fields: FlagFields, seen: EditBase | None
    ) -> Flag:
        change = self._flags.change(
            call.project, flag.id, fields, seen=seen, actor=call.actor, now=call.now
        )
        return await self._requester.run(call, change, propose_flag(flag.id, fields, seen))

    @endpoint(
        "DELETE",
        *project_paths("feature_flags/{flag_id}/"),
        access=in_project("feature_flag:write"),
        status=204,
        failure=ApprovalRefusal,
    )
    async def delete_flag(self, call: ProjectCall) -> Response:
        """Delete a flag. It is disabled and hidden. Restore it by its id with `deleted: false`. If
        a policy requires approvals, the response is 409 with the change request."""
        found = await self._find_unreserved(call)
        await self._change(call, found, FlagFields(deleted=True), None)
        return no_content()

    @endpoint(
        "GET",
        *project_paths("feature_flags/{flag_id}/status/"),
        access=in_project("feature_flag:read"),
        response=FlagStatus,
    )
    async def retrieve_flag_status(self, call: ProjectCall) -> Response:
        """Retrieve the status of a flag (ACTIVE, STALE or DELETED) and the reason for it."""
        found = await self._find(call, deleted_too=True)
        status, reason = get_flag_status(found, call.now)
        return JsonResponse(
            FlagStatus(
                status=status,
                reason=reason,
                last_called_at=format_iso(found.last_called_at) if found.last_called_at else None,
                calls=await self._flags.count_calls(found),
            )
        )

    @endpoint(
        "GET",
        *project_paths("feature_flags/{flag_id}/dependent_flags/"),
        access=in_project("feature_flag:read"),
        response=list[FlagReference],
    )
    async def list_dependent_flags(self, call: ProjectCall) -> Response:
        """List the flags that depend on this one."""
        found = await self._find(call)
        flags = await self._flags.list_dependents(call.project, found.id)
        return JsonResponse(
            [FlagReference(id=flag.id, key=flag.key, name=flag.name) for flag in flags]
        )

    @activity_endpoint("feature_flags/{flag_id}/activity/", in_project("feature_flag:read"))
    async def list_flag_activity(self, call: ProjectCall) -> Response:
        """List the changes made to a flag, newest first."""
        found = await self._find(call, deleted_too=True)
        return await respond_with_activity(call, self._activity, SCOPE, str(found.id))

    @activity_endpoint("feature_flags/activity/", in_project("feature_flag:read"))
    async def list_flags_activity(self, call: ProjectCall) -> Response:
        """List the changes made to all flags, newest first."""
        return await respond_with_activity(call, self._activity, SCOPE)
