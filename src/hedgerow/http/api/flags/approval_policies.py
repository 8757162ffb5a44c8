"""Approval policies: which changes of flags need how many approvals of whom."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, ClassVar

import msgspec
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.flags.approvals.approval_policies import ApprovalPolicies
from hedgerow.flags.approvals.model import (
    MAX_EXPIRY,
    MAX_QUORUM,
    ActionKey,
    ApprovalPolicy,
    ProposedChange,
    ResourceType,
)
from hedgerow.flags.approvals.policies import GATED_FIELDS
from hedgerow.flags.approvals.resources import POLICY_SCOPE, to_policy_fields
from hedgerow.flags.evaluation.blast_radius import compile_condition
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.flags.change_request_items import ApprovalRefusal, ChangeRequester
from hedgerow.http.api.flags.change_requests import parse_uuid
from hedgerow.http.api.people.users import render_user
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.definitions import compile_patterns
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_text
from hedgerow.http.payload.fields import (
    INT64_MAX,
    OMITTED,
    Between,
    Boolean,
    Fields,
    Text,
    require_unset,
)
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.store import ActivityStore

READ = in_project("feature_flag:read")
WRITE = in_project("project:write")
MAX_LISTED = 100
_DURATION = re.compile(r"(?:(\d{1,4})(?: days?,?)? )?(\d{1,2}):(\d{2}):(\d{2})")


SEARCH = Parameter(
    "search",
    "Only policies with this text in their action, tags, fields, properties, roles or users.",
)


def _parse_duration(value: Any) -> int:
    """Return the seconds of a number, or of a text such as `14 00:00:00`."""
    seconds = value if type(value) is int else None
    if isinstance(value, str) and (found := _DURATION.fullmatch(value)):
        days, hours, minutes, rest = (int(each or 0) for each in found.groups())
        parts = timedelta(days=days, hours=hours, minutes=minutes, seconds=rest)
        seconds = int(parts.total_seconds())
    if seconds is None or not 60 <= seconds <= MAX_EXPIRY.total_seconds():
        detail = "Expected a duration from a minute to 365 days, such as `14 00:00:00`, or seconds."
        raise PydanticCustomError("duration", detail)
    return seconds


def _check_false(value: Any) -> bool:
    if value is not None and value is not False:
        detail = "The author of a change never counts as an approver. Send false."
        raise PydanticCustomError("unsupported", detail, {"code": "not_supported"})
    return False


UnsupportedBypass = Annotated[
    None,
    require_unset("No role is exempt from a policy. An administrator can break the glass."),
]


def refuse_unknown(model: type[Fields]) -> BeforeValidator:
    """A condition with a wrong name must not be left out: the policy would mean something else."""

    def check(value: Any) -> Any:
        known = model.model_fields
        unknown = [name for name in value if name not in known] if isinstance(value, dict) else []
        if unknown:
            detail = f"Unknown field `{unknown[0]!s:.100}`. Expected one of: {', '.join(known)}."
            context = {"code": "unknown_field", "detail": detail, "path": str(unknown[0])[:100]}
            raise PydanticCustomError("unknown_field", "{detail}", context)
        return value

    return BeforeValidator(check)


class ConditionsBody(Fields):
    """Without conditions, a policy always holds. With several, all of them are needed."""

    ignored_fields: ClassVar[frozenset[str] | None] = frozenset()

    tags: list[Annotated[str, Text(200)]] = Field(default_factory=list, max_length=MAX_LISTED)
    fields: list[str] = Field(default_factory=list, max_length=MAX_LISTED)
    protected: Boolean = False
    changed_percent: Annotated[float, Field(ge=0, le=100)] | None = None
    properties: list[dict[str, Any]] = Field(default_factory=list, max_length=MAX_LISTED)

    def to_json(self) -> dict[str, Any]:
        unknown = [each for each in self.fields if each not in GATED_FIELDS]
        if unknown:
            raise Invalid(
                f"Unknown field `{unknown[0][:100]}`. Expected one of: {', '.join(GATED_FIELDS)}.",
                attr="conditions__fields",
                code="invalid_choice",
            )
        if self.properties and self.changed_percent is None:
            raise Invalid(
                "`properties` limit the persons of `changed_percent`. Send both, or none.",
                attr="conditions__properties",
            )
        return {
            "tags": list(dict.fromkeys(self.tags)),
            "fields": list(dict.fromkeys(self.fields)),
            "protected": self.protected,
            "changed_percent": self.changed_percent,
            "properties": self.properties,
        }


class ApproverBody(Fields):
    """Who may approve: these users, or members with these roles. Without both, everyone who may
    change flags."""

    ignored_fields: ClassVar[frozenset[str] | None] = frozenset()

    quorum: Annotated[int, Between(1, MAX_QUORUM)] = 1
    users: list[Annotated[int, Between(1, INT64_MAX)]] = Field(
        default_factory=list, max_length=MAX_LISTED
    )
    roles: list[Annotated[str, Text(200)]] = Field(default_factory=list, max_length=MAX_LISTED)


class PolicyBody(Fields):
    """`expires_after` is how long a change request stays open."""

    ignored_fields: ClassVar[frozenset[str] | None] = frozenset(
        ("id", "created_by", "created_at", "updated_at", "version")
    )

    action_key: ActionKey = OMITTED
    conditions: Annotated[ConditionsBody, refuse_unknown(ConditionsBody)] = OMITTED
    approver_config: Annotated[ApproverBody, refuse_unknown(ApproverBody)] = OMITTED
    allow_self_approve: Annotated[bool, BeforeValidator(_check_false)] = False
    bypass_org_membership_levels: UnsupportedBypass = None
    bypass_roles: UnsupportedBypass = None
    expires_after: Annotated[int, BeforeValidator(_parse_duration)] = OMITTED
    enabled: Boolean = OMITTED

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self.action_key is not None:
            fields["action_key"] = self.action_key.value
        if self.conditions is not None:
            fields["conditions"] = self.conditions.to_json()
        if self.approver_config is not None:
            approvers = self.approver_config
            fields["approver_config"] = {
                "quorum": approvers.quorum,
                "users": list(dict.fromkeys(approvers.users)),
                "roles": list(dict.fromkeys(approvers.roles)),
            }
        if self.expires_after is not None:
            fields["expires_after"] = self.expires_after
        if self.enabled is not None:
            fields["enabled"] = self.enabled
        return fields


class NewPolicy(PolicyBody):
    action_key: ActionKey
    approver_config: Annotated[ApproverBody, refuse_unknown(ApproverBody)]


class PolicyItem(msgspec.Struct, kw_only=True):
    id: str
    action_key: str
    conditions: Mapping[str, Any]
    approver_config: Mapping[str, Any]
    allow_self_approve: bool
    bypass_org_membership_levels: Sequence[str]
    bypass_roles: Sequence[str]
    expires_after: str
    enabled: bool
    version: int
    created_by: Mapping[str, Any]
    created_at: str
    updated_at: str


def _render(call: ProjectCall, policy: ApprovalPolicy) -> PolicyItem:
    fields = to_policy_fields(policy)
    return PolicyItem(
        id=policy.id,
        action_key=policy.action_key.value,
        conditions=fields["conditions"],
        approver_config=fields["approver_config"],
        allow_self_approve=False,
        bypass_org_membership_levels=(),
        bypass_roles=(),
        expires_after=_format_duration(policy.expires_after),
        enabled=policy.enabled,
        version=policy.version,
        created_by=render_user(call, policy.created_by),
        created_at=format_iso(policy.created_at),
        updated_at=format_iso(policy.updated_at),
    )


def _list_texts(call: ProjectCall, policy: ApprovalPolicy) -> Iterator[str]:
    """Return the texts of a policy that a search looks into."""
    fields = to_policy_fields(policy)
    conditions, approvers = fields["conditions"], fields["approver_config"]
    yield policy.action_key.value
    yield from (*conditions["tags"], *conditions["fields"], *approvers["roles"])
    yield from (str(each.get("key", "")) for each in conditions["properties"])
    for id in approvers["users"]:
        if user := call.context.directory.find_user_by_id(id):
            yield from (user.email, user.first_name)


def _format_duration(duration: timedelta) -> str:
    """As Django REST framework does."""
    minutes, seconds = divmod(duration.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days = f"{duration.days} " if duration.days else ""
    return f"{days}{hours:02}:{minutes:02}:{seconds:02}"


class ApprovalPolicyEndpoints:
    tag = "Approvals"

    def __init__(
        self,
        activity: ActivityStore,
        policies: ApprovalPolicies,
        requester: ChangeRequester,
        flag_cache: FlagCache,
    ) -> None:
        self._activity = activity
        self._policies = policies
        self._requester = requester
        self._flag_cache = flag_cache

    @endpoint(
        "GET",
        *project_paths("approval_policies/"),
        access=READ,
        response=Page[PolicyItem],
        query=(*PAGE_PARAMETERS, SEARCH),
    )
    async def list_approval_policies(self, call: ProjectCall) -> Response:
        """List the approval policies of a project, newest first."""
        search = parse_text(call.query_param("search"), "search").strip().casefold()
        policies = await self._policies.list_policies(call.project)
        found = [
            each
            for each in policies
            if any(search in text.casefold() for text in _list_texts(call, each))
        ]
        listed = [_render(call, each) for each in call.window.of(found)]
        return JsonResponse(call.page(len(found), listed))

    @endpoint(
        "POST",
        *project_paths("approval_policies/"),
        access=WRITE,
        response=PolicyItem,
        status=201,
        body=NewPolicy,
    )
    async def create_approval_policy(self, call: ProjectCall) -> Response:
        """Create an approval policy. It is in force at once."""
        fields = (await call.body(NewPolicy)).to_json()
        await self._check(call, fields)
        made = await self._policies.create(call.project, fields, call.actor, call.now)
        return JsonResponse(_render(call, made), status_code=201)

    @endpoint(
        "GET",
        *project_paths("approval_policies/{policy_id}/"),
        access=READ,
        response=PolicyItem,
    )
    async def retrieve_approval_policy(self, call: ProjectCall) -> Response:
        """Retrieve an approval policy."""
        return JsonResponse(_render(call, await self._find(call)))

    @endpoint(
        "PATCH",
        *project_paths("approval_policies/{policy_id}/"),
        access=WRITE,
        response=PolicyItem,
        body=PolicyBody,
        failure=ApprovalRefusal,
    )
    async def change_approval_policy(self, call: ProjectCall) -> Response:
        """Update the given fields. A policy in force needs the approvals that it requires: the
        response is 409 with the change request."""
        found = await self._find(call)
        fields = (await call.body(PolicyBody)).to_json()
        await self._check(call, fields)
        changed = await self._requester.run(
            call,
            self._policies.change(call.project, found.id, fields, call.actor, call.now),
            _propose(found, fields),
        )
        return JsonResponse(_render(call, changed))

    @endpoint(
        "DELETE",
        *project_paths("approval_policies/{policy_id}/"),
        access=WRITE,
        status=204,
        failure=ApprovalRefusal,
    )
    async def delete_approval_policy(self, call: ProjectCall) -> Response:
        """Delete an approval policy. One in force needs the approvals that it requires: the
        response is 409 with the change request."""
        found = await self._find(call)
        await self._requester.run(
            call,
            self._policies.delete(call.project, found.id, call.actor, call.now),
            _propose(found, {"deleted": True}),
        )
        return no_content()

    @activity_endpoint("approval_policies/{policy_id}/activity/", READ)
    async def list_approval_policy_activity(self, call: ProjectCall) -> Response:
        """List the changes made to an approval policy, newest first."""
        found = await self._find(call)
        return await respond_with_activity(call, self._activity, POLICY_SCOPE, found.id)

    async def _find(self, call: ProjectCall) -> ApprovalPolicy:
        return await self._policies.find(call.project, parse_uuid(call, "policy_id"))

    async def _check(self, call: ProjectCall, fields: Mapping[str, Any]) -> None:
        """Raise Invalid for approvers that do not exist, and for filters that cannot be used."""
        if "approver_config" in fields:
            _check_approvers(call, fields["approver_config"])
        properties = fields.get("conditions", {}).get("properties")
        if not properties:
            return
        if any(each.get("type", "person") != "person" for each in properties):
            raise Invalid("Expected filters of person properties.", attr="conditions__properties")
        await compile_patterns(properties)
        snapshot = await self._flag_cache.refresh(call.project)
        try:
            condition = await run_in_thread(
                lambda: compile_condition(snapshot, {"properties": properties}, None, call.now)
            )
        except Invalid as error:
            place = (error.attr or "").replace("condition.", "conditions__", 1)
            raise Invalid(error.detail, attr=place, code=error.code) from None
        fields["conditions"]["properties"] = [dict(each) for each in condition.filters]


def _check_approvers(call: ProjectCall, approvers: Mapping[str, Any]) -> None:
    directory = call.context.directory
    for role in approvers["roles"]:
        if role not in directory.roles:
            raise Invalid(
                f"There is no role `{role[:100]}`. Expected one of: {', '.join(directory.roles)}.",
                attr="approver_config__roles",
                code="does_not_exist",
            )
    for user in approvers["users"]:
        if directory.find_user_by_id(user) is None:
            raise Invalid(
                f"There is no user with the id {user}.",
                attr="approver_config__users",
                code="does_not_exist",
            )
    users = approvers["users"]
    if users and not approvers["roles"] and approvers["quorum"] > len(users):
        raise Invalid(
            "Fewer users can approve than the quorum needs.", attr="approver_config__quorum"
        )


def _propose(policy: ApprovalPolicy, fields: Mapping[str, Any]) -> ProposedChange:
    return ProposedChange(
        resource_type=ResourceType.POLICY, resource_id=policy.id, fields=dict(fields)
    )
