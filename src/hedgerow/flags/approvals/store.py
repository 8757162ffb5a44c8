"""Where policies and change requests are stored."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from hedgerow.flags.approvals.model import (
    ApprovalPolicy,
    ChangeRequest,
    RequestComment,
    RequestState,
    RequiredApproval,
    ResourceType,
    Vote,
)
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.schedules.model import ScheduledChange, ScheduledChangeId
from hedgerow.flags.store import FlagWrite
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.activity import ActivityEntry, Actor
from hedgerow.projects.model import ProjectId

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequestFilter:
    """Which change requests to list; None means any."""

    states: Collection[RequestState] | None = None
    resource_type: ResourceType | None = None
    resource_id: str | None = None
    author_uuid: str | None = None
    search: str = ""
    limit: int = 100
    offset: int = 0


class ApprovalTransaction(Protocol):
    """What can be done in one transaction, while the project is locked. `require_…` return what a
    change still needs. `store_…` write it if the votes of its request suffice, or if the glass is
    broken; otherwise they raise ApprovalRequired and write nothing."""

    @property
    def definitions(self) -> FlagDefinitions: ...

    def find_flag(self, id: FlagId) -> Flag | None: ...

    def find_cohort(self, id: CohortId) -> Cohort | None: ...

    def find_request(self, id: str) -> ChangeRequest | None: ...

    def list_pending(self) -> Sequence[ChangeRequest]:
        """Return the pending requests of the project, without votes and comments."""
        ...

    def find_scheduled_change(self, id: ScheduledChangeId) -> ScheduledChange | None: ...

    def link_scheduled_changes(
        self, ids: Sequence[ScheduledChangeId], request: ChangeRequest
    ) -> None:
        """Let the approvals of a request count for scheduled changes."""
        ...

    def check_flag(self, before: Flag, after: Flag, request: ChangeRequest) -> None:
        """Raise ApprovalRequired if the votes of a request do not suffice for a change, unless the
        glass is broken. Nothing is stored."""
        ...

    def save_request(self, request: ChangeRequest) -> None: ...

    def add_vote(self, request: ChangeRequest, vote: Vote) -> None: ...

    def add_comment(self, request: ChangeRequest, comment: RequestComment) -> None: ...

    def record(self, entry: ActivityEntry) -> None: ...

    def list_policies(self) -> Sequence[ApprovalPolicy]: ...

    def require_for_flag(self, before: Flag | None, after: Flag) -> Sequence[RequiredApproval]: ...

    def require_for_cohort(self, before: Cohort, after: Cohort) -> Sequence[RequiredApproval]: ...

    def require_for_policy(self, policy: ApprovalPolicy) -> Sequence[RequiredApproval]: ...

    def store_flag(self, write: FlagWrite, request: ChangeRequest) -> Flag: ...

    def store_cohort(
        self, before: Cohort, after: Cohort, entry: ActivityEntry, request: ChangeRequest
    ) -> None: ...

    def store_policy(
        self,
        before: ApprovalPolicy | None,
        after: ApprovalPolicy | None,
        entry: ActivityEntry,
        request: ChangeRequest | None,
    ) -> None:
        """Create, change or delete a policy."""
        ...


class ApprovalStore(Protocol):
    async def policies(self, project_id: ProjectId) -> Sequence[ApprovalPolicy]:
        """Return all policies of a project, newest first."""
        ...

    async def requests(
        self, project_id: ProjectId, wanted: ChangeRequestFilter, now: datetime
    ) -> tuple[Sequence[ChangeRequest], int]:
        """Return a page of requests, newest first, and the number of all."""
        ...

    async def request(self, project_id: ProjectId, id: str) -> ChangeRequest | None: ...

    async def save_what_if(self, request: ChangeRequest) -> None: ...

    async def write(
        self,
        project_id: ProjectId,
        work: Callable[[ApprovalTransaction], T],
        actor: Actor,
        now: datetime,
    ) -> T:
        """Run `work` in one transaction."""
        ...
