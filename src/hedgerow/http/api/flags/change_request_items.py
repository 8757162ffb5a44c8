"""Change requests as the API returns them, and the refusal of a change that needs one."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from hedgerow.errors import AppError, Invalid
from hedgerow.flags.approvals.change_requests import (
    ChangeRequests,
    RequestAuthor,
)
from hedgerow.flags.approvals.model import (
    ApprovalRequired,
    ChangeRequest,
    ProposedChange,
    RequestState,
    RequiredApproval,
    ResourceType,
    Voter,
)
from hedgerow.flags.approvals.policies import count_approvals, may_approve
from hedgerow.flags.approvals.resources import parse_flag_fields
from hedgerow.flags.edits import EditBase, FlagFields, to_json_value
from hedgerow.flags.evaluation.draft import DraftFields
from hedgerow.flags.evaluation.what_if import WhatIf, WhatIfQuestion
from hedgerow.flags.flags import describe_actor
from hedgerow.flags.model import FlagId
from hedgerow.http.api.flags.what_if_figures import render_what_if
from hedgerow.http.api.people.users import render_user
from hedgerow.http.auth.access import BREAK_GLASS_SCOPE
from hedgerow.http.call import ProjectCall
from hedgerow.lib.clock import format_iso

T = TypeVar("T")

# How long a request for a change waits for the figures.
WHAT_IF_TIMEOUT_S = 10.0


class ApprovalItem(msgspec.Struct, kw_only=True):
    """The decision of a person: approved or rejected."""

    id: str
    created_by: Mapping[str, Any]
    decision: str
    reason: str
    created_at: str


class CommentItem(msgspec.Struct, kw_only=True):
    id: str
    created_by: Mapping[str, Any]
    content: str
    created_at: str


class RequirementItem(msgspec.Struct, kw_only=True):
    """What one policy requires, why, and how many `approvals` there are."""

    policy_id: str
    action_key: str
    quorum: int
    approvals: int
    users: Sequence[int]
    roles: Sequence[str]
    reason: str


class ChangeRequestItem(msgspec.Struct, kw_only=True):
    """`intent.gated_changes` are the new values and `intent.current_state` those that the author
    saw. `what_if` are figures at the time of the request, without the names of people, or an
    `error`. `state` is pending, applied, rejected, withdrawn, expired or failed (see
    `apply_error`)."""

    id: str
    action_key: str
    action_version: int
    resource_type: str
    resource_id: str | None
    resource_name: str
    intent: Mapping[str, Any]
    intent_display: Mapping[str, Any]
    policy_snapshot: Mapping[str, Any]
    required_approvals: Sequence[RequirementItem]
    validation_status: str
    validation_errors: Mapping[str, Any] | None
    state: str
    created_by: Mapping[str, Any]
    applied_by: Mapping[str, Any] | None
    created_at: str
    updated_at: str
    expires_at: str
    applied_at: str | None
    apply_error: str
    result_data: Mapping[str, Any] | None
    what_if: Mapping[str, Any] | None
    approvals: Sequence[ApprovalItem]
    comments: Sequence[CommentItem]
    can_approve: bool
    can_cancel: bool
    can_break_glass: bool
    is_requester: bool
    user_decision: str | None


class ApprovalRefusal(msgspec.Struct, kw_only=True):
    """A change that needs approvals. The change request was created, or was already pending."""

    type: str
    code: str
    detail: str
    attr: str | None
    status: str
    message: str
    resource_type: str
    resource_id: str | None
    change_request_id: str
    change_request: ChangeRequestItem
    required_approvers: Mapping[str, Any]


def render_change_request(call: ProjectCall, request: ChangeRequest) -> ChangeRequestItem:
    state, voter = request.get_state(call.now), build_voter(call)
    own_votes = [vote for vote in request.votes if vote.voter.uuid == voter.uuid]
    is_author, is_pending = voter.uuid == request.author_uuid, state is RequestState.PENDING
    can_vote = any(may_approve(each.approvers, voter) for each in request.required)
    return ChangeRequestItem(
        id=request.id,
        action_key=request.action_key,
        action_version=1,
        resource_type=request.resource_type.value,
        resource_id=request.resource_id,
        resource_name=request.resource_name,
        intent={
            "gated_changes": request.fields,
            "current_state": request.original,
            "preconditions": {"version": request.version},
        },
        intent_display=_describe(request),
        policy_snapshot=_render_snapshot(request.required),
        required_approvals=[_render_requirement(request, each) for each in request.required],
        validation_status=_VALIDATION.get(state, "valid"),
        validation_errors={"detail": request.apply_error} if request.apply_error else None,
        state=state.value,
        created_by=render_user(call, describe_actor(request.author)),
        applied_by=None
        if request.applied_by is None
        else render_user(call, describe_actor(request.applied_by)),
        created_at=format_iso(request.created_at),
        updated_at=format_iso(request.updated_at),
        expires_at=format_iso(request.expires_at),
        applied_at=_format(request.applied_at),
        apply_error=request.apply_error,
        result_data=request.result or None,
        what_if=request.what_if,
        approvals=[
            ApprovalItem(
                id=vote.id,
                created_by=render_user(call, describe_actor(vote.voter.actor)),
                decision=vote.decision,
                reason=vote.reason,
                created_at=format_iso(vote.created_at),
            )
            for vote in request.votes
        ],
        comments=[
            CommentItem(
                id=each.id,
                created_by=render_user(call, describe_actor(each.author)),
                content=each.content,
                created_at=format_iso(each.created_at),
            )
            for each in request.comments
        ],
        can_approve=is_pending and not is_author and can_vote and not own_votes,
        can_cancel=is_pending and is_author,
        can_break_glass=is_pending
        and call.caller.find_lack(BREAK_GLASS_SCOPE, call.project.id) is None,
        is_requester=is_author,
        user_decision=own_votes[0].decision if own_votes else None,
    )


_VALIDATION = {RequestState.FAILED: "stale", RequestState.EXPIRED: "expired"}


def _format(moment: datetime | None) -> str | None:
    return None if moment is None else format_iso(moment)


def _describe(request: ChangeRequest) -> dict[str, Any]:
    fields = ", ".join(request.fields)
    return {
        "description": f"{request.action_key} {request.resource_name}: {fields}",
        "before": request.original,
        "after": request.fields,
    }


def _render_snapshot(required: Sequence[RequiredApproval]) -> dict[str, Any]:
    """Return what all policies together require, in the shape of PostHog's single policy."""
    return {
        "quorum": max((each.approvers.quorum for each in required), default=0),
        "users": sorted({user for each in required for user in each.approvers.users}),
        "roles": sorted({role for each in required for role in each.approvers.roles}),
        "allow_self_approve": False,
    }


def _render_requirement(request: ChangeRequest, required: RequiredApproval) -> RequirementItem:
    approvers = required.approvers
    return RequirementItem(
        policy_id=required.policy_id,
        action_key=required.action_key,
        quorum=approvers.quorum,
        approvals=count_approvals(approvers, request.votes, request.author_uuid),
        users=approvers.users,
        roles=approvers.roles,
        reason=required.reason,
    )


def build_voter(call: ProjectCall) -> Voter:
    user = call.caller.user
    role = user.project_roles.get(call.project.id)
    return Voter(
        uuid=user.uuid,
        user_id=user.id,
        actor=call.actor,
        role_id=None if role is None else role.id,
        is_owner=user.is_owner,
    )


def build_author(call: ProjectCall) -> RequestAuthor:
    return RequestAuthor(actor=call.actor, uuid=call.caller.user.uuid)


def propose_flag(
    flag_id: int | None, fields: FlagFields, seen: EditBase | None = None
) -> ProposedChange:
    changes = fields.as_changes().items()
    return ProposedChange(
        resource_type=ResourceType.FLAG,
        resource_id=None if flag_id is None else str(flag_id),
        fields={name: to_json_value(value) for name, value in changes},
        seen=seen,
    )


class ChangeRequester:
    """Turns a change that needs approvals into a change request, as PostHog does: the response is
    409 with the request."""

    def __init__(self, requests: ChangeRequests, what_if: WhatIf) -> None:
        self._requests = requests
        self._what_if = what_if

    async def run(
        self, call: ProjectCall, change: Coroutine[Any, Any, T], proposed: ProposedChange
    ) -> T:
        """Run a change. Raises ApprovalRequired with the change request if it needs approvals."""
        try:
            return await change
        except ApprovalRequired as error:
            refused = error
        try:
            request, is_new = await self.create(call, proposed)
        except Invalid:
            raise refused from None  # a change that no request can hold
        raise build_refusal(call, request, refused, is_new)

    async def create(
        self, call: ProjectCall, proposed: ProposedChange
    ) -> tuple[ChangeRequest, bool]:
        request, is_new = await self._requests.create(
            call.project, proposed, build_author(call), call.now
        )
        return (await self.measure(call, request) if is_new else request), is_new

    async def measure(self, call: ProjectCall, request: ChangeRequest) -> ChangeRequest:
        """Add the figures of what the change would do. They never stop a request."""
        if request.resource_type is not ResourceType.FLAG:
            return request
        id = None if request.resource_id is None else FlagId(int(request.resource_id))
        draft = DraftFields(id=id, fields=parse_flag_fields(request.fields))
        asked = self._what_if.ask(call.project, draft, WhatIfQuestion(), call.actor, call.now)
        figures: dict[str, Any]
        try:
            result = await asyncio.wait_for(asked, WHAT_IF_TIMEOUT_S)
            figures = msgspec.to_builtins(render_what_if(result))
            for each in figures["changes"]:
                del each["sample"]  # readers of requests may not be allowed to see persons
        except TimeoutError:
            figures = {"error": f"The figures took longer than {WHAT_IF_TIMEOUT_S:g} seconds."}
        except AppError as error:
            figures = {"error": error.detail}
        await self._requests.save_what_if(request, figures)
        return await self._requests.find(call.project, request.id)


def build_refusal(
    call: ProjectCall, request: ChangeRequest, refused: ApprovalRequired, is_new: bool
) -> ApprovalRequired:
    """Return the error with the request, in the shape of PostHog's approvals."""
    needed = "; ".join(each.describe() for each in request.required)
    done = "A change request was created" if is_new else "A change request is pending"
    error = ApprovalRequired(
        request.required,
        f"This change requires approval: {needed}. {done}: {request.id}.",
        "approval_required" if is_new else "change_request_pending",
    )
    error.extra = {
        "status": "approval_required",
        "message": error.detail,
        "resource_type": request.resource_type.value,
        "resource_id": request.resource_id,
        "change_request_id": request.id,
        "change_request": render_change_request(call, request),
        "required_approvers": _render_snapshot(request.required),
    }
    return error
