"""Change requests as rows, for all stores that apply one."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from hedgerow.flags.approvals.change_requests import build_request_entry
from hedgerow.flags.approvals.model import (
    ApproverConfig,
    ChangeRequest,
    RequestComment,
    RequestState,
    RequiredApproval,
    ResourceType,
    Vote,
    Voter,
)
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import change_request_comments, change_request_votes
from hedgerow.storage.tables import change_requests as table


def save_request(connection: Connection, request: ChangeRequest) -> None:
    """Store a request. The figures of a known one stay as they are."""
    values = encode_request(request)
    own = update(table).where(table.c.id == request.id)
    kept = {name: value for name, value in values.items() if name != "what_if"}
    if not connection.execute(own.values(kept)).rowcount:
        connection.execute(insert(table), values)


def end_request(
    connection: Connection, request: ChangeRequest, state: RequestState, actor: Actor, now: datetime
) -> None:
    """Store that a request is applied or withdrawn, because its change was made or is gone."""
    applied_at = now if state is RequestState.APPLIED else request.applied_at
    ended = replace(request, state=state, applied_at=applied_at, updated_at=now)
    save_request(connection, ended)
    activity.record(connection, build_request_entry(state.value, ended, actor), now)


def find_request(connection: Connection, project_id: ProjectId, id: str) -> ChangeRequest | None:
    own = (table.c.project_id == project_id) & (table.c.id == id)
    found = decode_requests(connection, connection.execute(select(table).where(own)).all())
    return found[0] if found else None


def decode_requests(connection: Connection, rows: Sequence[Row[Any]]) -> list[ChangeRequest]:
    """Decode requests with their votes and comments."""
    ids = [row.id for row in rows]
    votes: defaultdict[str, list[Vote]] = defaultdict(list)
    comments: defaultdict[str, list[RequestComment]] = defaultdict(list)
    own = change_request_votes
    for row in connection.execute(
        select(own).where(own.c.request_id.in_(ids)).order_by(own.c.created_at, own.c.id)
    ):
        votes[row.request_id].append(_decode_vote(row))
    written = change_request_comments
    for row in connection.execute(
        select(written)
        .where(written.c.request_id.in_(ids))
        .order_by(written.c.created_at, written.c.id)
    ):
        comments[row.request_id].append(
            RequestComment(
                id=row.id,
                author=Actor(**row.author),
                author_uuid=row.author_uuid,
                content=row.content,
                created_at=row.created_at,
            )
        )
    return [decode_request(row, votes[row.id], comments[row.id]) for row in rows]


def _decode_vote(row: Row[Any]) -> Vote:
    return Vote(
        id=row.id,
        voter=Voter(**{**row.voter, "actor": Actor(**row.voter["actor"])}),
        decision=row.decision,
        reason=row.reason,
        created_at=row.created_at,
    )


def decode_request(
    row: Row[Any], votes: Sequence[Vote] = (), comments: Sequence[RequestComment] = ()
) -> ChangeRequest:
    return ChangeRequest(
        **{
            **row._mapping,
            "resource_type": ResourceType(row.resource_type),
            "required": [_decode_required(each) for each in row.required],
            "state": RequestState(row.state),
            "author": Actor(**row.author),
            "applied_by": None if row.applied_by is None else Actor(**row.applied_by),
        },
        votes=votes,
        comments=comments,
    )


def _decode_required(stored: dict[str, Any]) -> RequiredApproval:
    return RequiredApproval(
        policy_id=stored["policy_id"],
        action_key=stored["action_key"],
        approvers=ApproverConfig(**stored["approvers"]),
        reason=stored["reason"],
        expires_after=timedelta(seconds=stored["expires_after_s"]),
    )


def _encode_required(required: RequiredApproval) -> dict[str, Any]:
    approvers = required.approvers
    return {
        "policy_id": required.policy_id,
        "action_key": required.action_key,
        "approvers": {
            "quorum": approvers.quorum,
            "users": list(approvers.users),
            "roles": list(approvers.roles),
        },
        "reason": required.reason,
        "expires_after_s": int(required.expires_after.total_seconds()),
    }


def encode_request(request: ChangeRequest) -> dict[str, Any]:
    return {
        "id": request.id,
        "project_id": request.project_id,
        "resource_type": request.resource_type.value,
        "resource_id": request.resource_id,
        "resource_name": request.resource_name,
        "action_key": request.action_key,
        "fields": dict(request.fields),
        "original": dict(request.original),
        "version": request.version,
        "required": [_encode_required(each) for each in request.required],
        "state": request.state.value,
        "author": asdict(request.author),
        "author_uuid": request.author_uuid,
        "created_at": request.created_at,
        "updated_at": request.updated_at,
        "expires_at": request.expires_at,
        "applied_at": request.applied_at,
        "applied_by": None if request.applied_by is None else asdict(request.applied_by),
        "apply_error": request.apply_error,
        "result": dict(request.result),
        "what_if": None if request.what_if is None else dict(request.what_if),
    }
