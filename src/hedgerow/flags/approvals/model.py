"""Approval policies and change requests. Names and states are those of PostHog's approvals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from hedgerow.errors import AppError
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId

DEFAULT_EXPIRY = timedelta(days=14)
MAX_EXPIRY = timedelta(days=365)
MAX_QUORUM = 20
MAX_POLICIES = 100
MAX_PENDING = 1_000
MAX_COMMENTS = 500

Decision = Literal["approved", "rejected"]


class ActionKey(StrEnum):
    """What a policy is about. `ANY` is each change of a flag, `UPDATE` each one of a flag that
    exists: it includes enabling, disabling, deletion, and changes of cohorts that the flag uses."""

    ANY = "feature_flag.*"
    CREATE = "feature_flag.create"
    UPDATE = "feature_flag.update"
    ENABLE = "feature_flag.enable"
    DISABLE = "feature_flag.disable"
    DELETE = "feature_flag.delete"


class ResourceType(StrEnum):
    """What a change request changes."""

    FLAG = "feature_flag"
    COHORT = "cohort"
    POLICY = "approval_policy"
    SCHEDULED_CHANGE = "scheduled_change"
    PROMOTION = "promotion"
    BANDIT = "bandit"


class RequestState(StrEnum):
    """An approved request has its approvals, and waits for its time."""

    PENDING = "pending"
    APPROVED = "approved"
    APPLIED = "applied"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConditions:
    """When a policy holds: for flags with one of the tags, for changes of one of the fields, in a
    protected environment only, or if more than `changed_percent` of the persons who match
    `properties` would get another value. Without any, always."""

    tags: Sequence[str] = ()
    fields: Sequence[str] = ()
    protected: bool = False
    changed_percent: float | None = None
    properties: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproverConfig:
    """How many people must approve, and who may: these users, members with one of these roles (an
    owner has every role), or without both everyone who may change flags."""

    quorum: int = 1
    users: Sequence[int] = ()
    roles: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPolicy:
    id: str
    project_id: ProjectId
    action_key: ActionKey
    conditions: PolicyConditions
    approvers: ApproverConfig
    expires_after: timedelta
    enabled: bool
    version: int
    created_by: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """A person with its role in the project at the time of the vote."""

    uuid: str
    user_id: int
    actor: Actor
    role_id: str | None
    is_owner: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    id: str
    voter: Voter
    decision: Decision
    reason: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestComment:
    id: str
    author: Actor
    author_uuid: str
    content: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredApproval:
    """A policy that a change falls under, as it was then, and why."""

    policy_id: str
    action_key: str
    approvers: ApproverConfig
    reason: str
    expires_after: timedelta = DEFAULT_EXPIRY

    def describe(self) -> str:
        number = (
            "1 approval" if self.approvers.quorum == 1 else f"{self.approvers.quorum} approvals"
        )
        return f"{number} by {describe_approvers(self.approvers)} ({self.reason})"


def describe_approvers(approvers: ApproverConfig) -> str:
    named = [f"the role {role}" for role in approvers.roles]
    if approvers.users:
        named.append(f"the users {', '.join(map(str, approvers.users))}")
    return " or ".join(named) or "another person who may change flags"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """A change that waits for approvals. `fields` are the new values, `original` those that the
    author saw, both as JSON; `version` is that of the object then. `what_if` are figures, or the
    reason why there are none."""

    id: str
    project_id: ProjectId
    resource_type: ResourceType
    resource_id: str | None
    resource_name: str
    action_key: str
    fields: Mapping[str, Any]
    original: Mapping[str, Any]
    version: int
    required: Sequence[RequiredApproval]
    state: RequestState
    author: Actor
    author_uuid: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime
    applied_at: datetime | None = None
    applied_by: Actor | None = None
    apply_error: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    what_if: Mapping[str, Any] | None = None
    votes: Sequence[Vote] = ()
    comments: Sequence[RequestComment] = ()

    def get_state(self, now: datetime) -> RequestState:
        is_over = self.state is RequestState.PENDING and now >= self.expires_at
        return RequestState.EXPIRED if is_over else self.state


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChange:
    """New values of an object; `resource_id` is None for a new flag. `seen` is what the client
    edited, if it says so."""

    resource_type: ResourceType
    resource_id: str | None
    fields: Mapping[str, Any]
    seen: Any = None


class ApprovalRequired(AppError):
    """A policy requires approvals that the change does not have. Code and status are PostHog's."""

    status, type, code = 409, "invalid_request", "approval_required"
    default_detail = "This change requires approval."

    def __init__(
        self, required: Sequence[RequiredApproval], detail: str | None = None, code: str = ""
    ) -> None:
        self.required = required
        needed = "; ".join(each.describe() for each in required)
        super().__init__(
            detail
            or f"This change requires approval: {needed}. Request it over the API, or break the "
            "glass with a reason: as an administrator with the header X-Break-Glass, on the "
            "command line with --break-glass.",
            code=code or None,
        )
