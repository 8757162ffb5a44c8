"""Operations on change requests: create, approve, reject, withdraw, comment, break the glass.

A request that has its approvals is applied in the transaction of the last one, while the project is
locked: once, with any number of processes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from hedgerow.errors import AppError, Conflict, Forbidden, Invalid, NotFound
from hedgerow.flags.approvals.model import (
    MAX_COMMENTS,
    MAX_PENDING,
    ApprovalRequired,
    ChangeRequest,
    Decision,
    ProposedChange,
    RequestComment,
    RequestState,
    ResourceType,
    Vote,
    Voter,
)
from hedgerow.flags.approvals.policies import find_unmet, may_approve
from hedgerow.flags.approvals.resources import (
    CohortResource,
    FlagResource,
    PolicyResource,
    PreparedEdit,
    RefusedResource,
    Resource,
)
from hedgerow.flags.approvals.schedules import ScheduleResource
from hedgerow.flags.approvals.store import ApprovalStore, ApprovalTransaction, ChangeRequestFilter
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.lib import jsonio
from hedgerow.lib.dates import EPOCH
from hedgerow.lib.encryption import Cipher
from hedgerow.projects.activity import SYSTEM, ActivityEntry, Actor
from hedgerow.projects.model import Project

SCOPE = "ChangeRequest"
BREAK_GLASS = "break_glass"
NOT_PENDING = "This change request is {state}. Only a pending one can be {action}."
OWN_CHANGE = (
    "You cannot approve your own change, with any of your keys. Another person must approve it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAuthor:
    """The person, and the key or session that was used."""

    actor: Actor
    uuid: str


class ChangeRequests:
    def __init__(self, store: ApprovalStore, flag_cache: FlagCache, cipher: Cipher) -> None:
        self._store = store
        self._flag_cache = flag_cache
        self._cipher = cipher

    async def list_requests(
        self, project: Project, wanted: ChangeRequestFilter, now: datetime
    ) -> tuple[Sequence[ChangeRequest], int]:
        return await self._store.requests(project.id, wanted, now)

    async def find(self, project: Project, id: str) -> ChangeRequest:
        found = await self._store.request(project.id, id)
        if found is None:
            raise NotFound
        return found

    async def save_what_if(self, request: ChangeRequest, figures: Mapping[str, Any]) -> None:
        await self._store.save_what_if(replace(request, what_if=figures))

    async def create(
        self, project: Project, change: ProposedChange, author: RequestAuthor, now: datetime
    ) -> tuple[ChangeRequest, bool]:
        """Create a request, or find the pending one for the same change. Raises Invalid for a
        change that is not possible or that needs no approval."""

        def work(transaction: ApprovalTransaction) -> tuple[ChangeRequest, bool]:
            resource = self._build(project, change.resource_type, author.actor, now)
            edit = resource.prepare(transaction, change)
            if not edit.required:
                raise Invalid(
                    "No policy requires an approval for this change. Make it directly.",
                    code="approval_not_required",
                )
            pending = [each for each in transaction.list_pending() if now < each.expires_at]
            for each in pending:
                if _is_same(each, change, edit.fields):
                    return each, False
            if len(pending) >= MAX_PENDING:
                raise Invalid(
                    f"A project can have at most {MAX_PENDING} pending change requests. Withdraw "
                    "or decide some first."
                )
            made = _build_request(project, change, edit, author, now)
            transaction.save_request(made)
            resource.register(transaction, made)
            transaction.record(build_request_entry("created", made, author.actor))
            return made, True

        made, is_new = await self._store.write(project.id, work, author.actor, now)
        return await self.find(project, made.id), is_new

    async def find_approved(self, project: Project, change: ProposedChange) -> ChangeRequest | None:
        """Return the approved request for the same change, which waits to be applied."""
        wanted = ChangeRequestFilter(
            states=(RequestState.APPROVED,),
            resource_type=change.resource_type,
            resource_id=change.resource_id,
            limit=MAX_PENDING,
        )
        found, _ = await self._store.requests(project.id, wanted, EPOCH)
        same = [each for each in found if _is_same(each, change, change.fields)]
        return same[0] if same else None

    async def refuse_approved(
        self, project: Project, id: str, error: AppError, now: datetime
    ) -> ChangeRequest:
        """Store that an approved request could not be applied: it waits for more approvals, or has
        failed."""

        def work(transaction: ApprovalTransaction) -> None:
            request = transaction.find_request(id)
            if request is None or request.state is not RequestState.APPROVED:
                return  # another process has applied it
            if isinstance(error, ApprovalRequired):
                state, detail = RequestState.PENDING, ""
                request = replace(request, required=tuple(error.required), result={})
            else:
                state, detail = RequestState.FAILED, error.detail
                transaction.record(
                    build_request_entry("failed", request, request.author, reason=detail)
                )
            transaction.save_request(
                replace(request, state=state, apply_error=detail, updated_at=now)
            )

        await self._store.write(project.id, work, SYSTEM, now)
        return await self.find(project, id)

    async def approve(
        self, project: Project, id: str, voter: Voter, reason: str, now: datetime
    ) -> ChangeRequest:
        """Approve a request. The last approval that it needs applies it."""

        def work(transaction: ApprovalTransaction) -> None:
            request = _find_pending(transaction, id, "approved", now)
            _check_voter(request, voter)
            vote = _build_vote(voter, "approved", reason, now)
            transaction.add_vote(request, vote)
            transaction.record(build_request_entry("approved", request, voter.actor, reason=reason))
            request = replace(request, votes=(*request.votes, vote), updated_at=now)
            if find_unmet(request.required, request.votes, request.author_uuid):
                transaction.save_request(request)
                return
            transaction.save_request(self._apply(transaction, project, request, voter.actor, now))

        await self._store.write(project.id, work, voter.actor, now)
        return await self._refresh(project, id)

    async def break_glass(
        self, project: Project, id: str, actor: Actor, reason: str, now: datetime
    ) -> ChangeRequest:
        """Apply a pending request without its approvals. The caller has broken the glass."""

        def work(transaction: ApprovalTransaction) -> None:
            request = _find_pending(transaction, id, "applied", now)
            transaction.record(build_request_entry("break_glass", request, actor, reason=reason))
            done = self._apply(transaction, project, request, actor, now)
            # An approved one is applied later, and then has no approvals either.
            result = {**done.result, BREAK_GLASS: reason}
            transaction.save_request(replace(done, result=result))

        await self._store.write(project.id, work, actor, now)
        return await self._refresh(project, id)

    async def reject(
        self, project: Project, id: str, voter: Voter, reason: str, now: datetime
    ) -> ChangeRequest:
        def work(transaction: ApprovalTransaction) -> None:
            request = _find_pending(transaction, id, "rejected", now)
            _check_voter(request, voter)
            transaction.add_vote(request, _build_vote(voter, "rejected", reason, now))
            transaction.record(build_request_entry("rejected", request, voter.actor, reason=reason))
            transaction.save_request(replace(request, state=RequestState.REJECTED, updated_at=now))

        await self._store.write(project.id, work, voter.actor, now)
        return await self.find(project, id)

    async def withdraw(
        self, project: Project, id: str, author: RequestAuthor, now: datetime
    ) -> ChangeRequest:
        """Withdraw a request of the same person."""

        def work(transaction: ApprovalTransaction) -> None:
            request = _find_pending(transaction, id, "withdrawn", now)
            if request.author_uuid != author.uuid:
                raise Forbidden("Only the author can withdraw a change request. Reject it instead.")
            transaction.record(build_request_entry("withdrawn", request, author.actor))
            transaction.save_request(replace(request, state=RequestState.WITHDRAWN, updated_at=now))

        await self._store.write(project.id, work, author.actor, now)
        return await self.find(project, id)

    async def comment(
        self, project: Project, id: str, content: str, author: RequestAuthor, now: datetime
    ) -> ChangeRequest:
        def work(transaction: ApprovalTransaction) -> None:
            request = transaction.find_request(id)
            if request is None:
                raise NotFound
            if len(request.comments) >= MAX_COMMENTS:
                raise Invalid(f"A change request can have at most {MAX_COMMENTS} comments.")
            transaction.add_comment(request, _build_comment(content, author, now))
            transaction.record(build_request_entry("commented", request, author.actor))

        await self._store.write(project.id, work, author.actor, now)
        return await self.find(project, id)

    def _build(self, project: Project, type: ResourceType, actor: Actor, now: datetime) -> Resource:
        match type:
            case ResourceType.FLAG:
                return FlagResource(project, self._cipher, actor, now)
            case ResourceType.COHORT:
                return CohortResource(actor, now)
            case ResourceType.POLICY:
                return PolicyResource(actor, now)
            case ResourceType.SCHEDULED_CHANGE:
                return ScheduleResource(self._cipher, actor, now)
            case ResourceType.PROMOTION | ResourceType.BANDIT:
                return RefusedResource()

    def _apply(
        self,
        transaction: ApprovalTransaction,
        project: Project,
        request: ChangeRequest,
        actor: Actor,
        now: datetime,
    ) -> ChangeRequest:
        """Return the request after its application: applied, still pending because policies have
        become stricter, or failed. Nothing is written by a failed application."""
        resource = self._build(project, request.resource_type, request.author, now)
        try:
            result = resource.apply(transaction, request)
        except ApprovalRequired as error:
            return replace(request, required=tuple(error.required), updated_at=now)
        except AppError as error:
            if error.is_server_error:
                raise
            transaction.record(build_request_entry("failed", request, actor, reason=error.detail))
            return replace(
                request, state=RequestState.FAILED, apply_error=error.detail, updated_at=now
            )
        is_applied = resource.approved_state is RequestState.APPLIED
        if is_applied:
            transaction.record(build_request_entry("applied", request, actor))
        return replace(
            request,
            state=resource.approved_state,
            applied_at=now if is_applied else None,
            applied_by=actor,
            result=result,
            updated_at=now,
        )

    async def _refresh(self, project: Project, id: str) -> ChangeRequest:
        await self._flag_cache.refresh(project)
        return await self.find(project, id)


def _find_pending(
    transaction: ApprovalTransaction, id: str, action: str, now: datetime
) -> ChangeRequest:
    request = transaction.find_request(id)
    if request is None:
        raise NotFound
    state = request.get_state(now)
    if state is not RequestState.PENDING:
        raise Conflict(NOT_PENDING.format(state=state.value, action=action))
    return request


def _check_voter(request: ChangeRequest, voter: Voter) -> None:
    if voter.uuid == request.author_uuid:
        raise Forbidden(OWN_CHANGE)
    if not any(may_approve(each.approvers, voter) for each in request.required):
        needed = "; ".join(each.describe() for each in request.required)
        raise Forbidden(f"You cannot decide on this change. It requires {needed}.")
    if any(vote.voter.uuid == voter.uuid for vote in request.votes):
        raise Conflict("You have already voted on this change request.", code="already_voted")


def _is_same(request: ChangeRequest, change: ProposedChange, fields: Mapping[str, Any]) -> bool:
    return (
        request.resource_type is change.resource_type
        and request.resource_id == change.resource_id
        and jsonio.is_equal(dict(request.fields), dict(fields))
    )


def _build_request(
    project: Project,
    change: ProposedChange,
    edit: PreparedEdit,
    author: RequestAuthor,
    now: datetime,
) -> ChangeRequest:
    return ChangeRequest(
        id=str(uuid4()),
        project_id=project.id,
        resource_type=change.resource_type,
        resource_id=change.resource_id,
        resource_name=edit.name,
        action_key=edit.action_key,
        fields=edit.fields,
        original=edit.original,
        version=edit.version,
        required=tuple(edit.required),
        state=RequestState.PENDING,
        author=author.actor,
        author_uuid=author.uuid,
        created_at=now,
        updated_at=now,
        expires_at=now + min(each.expires_after for each in edit.required),
    )


def _build_vote(voter: Voter, decision: Decision, reason: str, now: datetime) -> Vote:
    return Vote(id=str(uuid4()), voter=voter, decision=decision, reason=reason, created_at=now)


def _build_comment(content: str, author: RequestAuthor, now: datetime) -> RequestComment:
    return RequestComment(
        id=str(uuid4()),
        author=author.actor,
        author_uuid=author.uuid,
        content=content,
        created_at=now,
    )


def build_request_entry(
    activity: str, request: ChangeRequest, actor: Actor, reason: str = ""
) -> ActivityEntry:
    return ActivityEntry(
        scope=SCOPE,
        item_id=request.id,
        item_name=f"{request.action_key} {request.resource_name}",
        activity=activity,
        actor=actor,
        project_id=request.project_id,
        detail={"reason": reason} if reason else {},
    )
