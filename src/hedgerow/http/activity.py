"""Pages of the audit trail: `{results, next, previous, total_count}`, newest first, by `page` and
`limit`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.http.access import Call, ProjectCall, anywhere, in_project
from hedgerow.http.describe import Parameter, describes
from hedgerow.http.paging import MAX_LIMIT, MAX_OFFSET, link_with, positive
from hedgerow.http.reply import JsonResponse
from hedgerow.lib.clock import iso
from hedgerow.lib.text import why_unstorable
from hedgerow.projects.activity import Actor, Recorded
from hedgerow.projects.store import ActivityQuery

router = APIRouter(tags=["Activity"])

DEFAULT_LIMIT = 10

PAGE = (
    Parameter("limit", "Entries per page, 10 unless told.", {"type": "integer", "minimum": 1}),
    Parameter("page", "Which page, from 1.", {"type": "integer", "minimum": 1}),
)
FILTERS = (
    Parameter("scope", "Only entries about this kind of thing, such as Project."),
    Parameter("item_id", "Only entries about the thing of this id."),
)


class ActivityUser(msgspec.Struct, kw_only=True, omit_defaults=True):
    first_name: str
    email: str | None
    is_system: bool = False


class ActivityItem(msgspec.Struct, kw_only=True):
    id: int
    user: ActivityUser
    activity: str
    scope: str
    item_id: str
    detail: Mapping[str, Any]
    created_at: str


class ActivityPage(msgspec.Struct, kw_only=True):
    results: Sequence[ActivityItem]
    next: str | None
    previous: str | None
    total_count: int


@router.get("/api/projects/{project_id}/activity_log/")
@router.get("/api/environments/{project_id}/activity_log/")
@describes(answer=ActivityPage, query=PAGE + FILTERS)
async def project_activity(
    call: Annotated[ProjectCall, in_project("activity_log:read")],
) -> Response:
    """Everything that was changed in one project."""
    return await activity_page(call, replace(_filtered(call), project_id=call.project.id))


@router.get("/api/organizations/@current/activity_log/")
@describes(answer=ActivityPage, query=PAGE + FILTERS)
async def whole_activity(call: Annotated[Call, anywhere("activity_log:read")]) -> Response:
    """Everything that was changed anywhere, keys included."""
    return await activity_page(call, _filtered(call))


def _filtered(call: Call) -> ActivityQuery:
    return ActivityQuery(scope=call.asked("scope"), item_id=call.asked("item_id"))


async def activity_page(call: Call, query: ActivityQuery) -> Response:
    """One page of the entries that `query` names; families show their own things' trail with it."""
    size = min(_number("limit", call.asked("limit"), DEFAULT_LIMIT), MAX_LIMIT)
    number = _number("page", call.asked("page"), 1)
    asked = replace(query, limit=size, offset=min((number - 1) * size, MAX_OFFSET))
    for name, text in (("scope", asked.scope), ("item_id", asked.item_id)):
        if text and (unstorable := why_unstorable(text)):
            code, detail = unstorable
            raise Invalid(detail, attr=name, code=code)
    entries, total = await call.rooms.activity.activity(asked)

    def link(to: int) -> str:
        return link_with(call.request, call.rooms.origins, {"limit": size, "page": to})

    return JsonResponse(
        ActivityPage(
            results=[item(entry) for entry in entries],
            next=link(number + 1) if asked.offset + size < total else None,
            previous=link(number - 1) if number > 1 else None,
            total_count=total,
        )
    )


def item(recorded: Recorded) -> ActivityItem:
    entry = recorded.entry
    return ActivityItem(
        id=recorded.id,
        user=_user(entry.actor),
        activity=entry.activity,
        scope=entry.scope,
        item_id=entry.item_id,
        detail={
            "id": entry.item_id,
            "name": entry.item_name,
            "short_id": None,
            "type": None,
            "changes": [asdict(change) for change in entry.changes],
            "merge": None,
            "trigger": None,
            **entry.detail,
        },
        created_at=iso(recorded.created_at),
    )


def _user(actor: Actor) -> ActivityUser:
    is_system = actor.kind == "system"
    return ActivityUser(first_name=actor.name, email=actor.email, is_system=is_system)


def _number(name: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    number = positive(text)
    if number is None:
        raise Invalid("A whole number of at least 1 is required.", attr=name)
    return number
