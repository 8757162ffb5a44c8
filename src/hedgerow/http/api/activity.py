"""The activity log: `{results, next, previous, total_count}`, newest first, paged by `page` and
`limit`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.http.auth.access import Access, anywhere, in_project
from hedgerow.http.call import Call, ProjectCall
from hedgerow.http.endpoint import M, endpoint, project_paths
from hedgerow.http.paging import MAX_LIMIT, MAX_OFFSET
from hedgerow.http.parameters import Parameter, parse_positive, parse_text
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso, utc_now
from hedgerow.lib.dates import parse_query_date
from hedgerow.lib.threads import build_pauses, run_in_thread
from hedgerow.projects.activity import Actor, RecordedActivity, render_detail
from hedgerow.projects.store import ActivityQuery, ActivityStore

DEFAULT_LIMIT = 10
ACTIVITY_PARAMETERS = (
    Parameter("limit", "Entries per page. Default: 10.", {"type": "integer", "minimum": 1}),
    Parameter("page", "Page number, starting at 1.", {"type": "integer", "minimum": 1}),
)
FILTERS = (
    Parameter("scope", "Only entries with this scope, such as Project."),
    Parameter("item_id", "Only entries about the item with this id."),
    Parameter("activity", "Only entries with this activity, such as updated."),
    Parameter("user", "Only changes by the person with this email, or by the key with this name."),
    Parameter("search", "Only entries with this text in who made the change, or in what changed."),
    Parameter("start_date", "Only changes since this date, such as 2026-01-31 or -7d."),
    Parameter("end_date", "Only changes before this date."),
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


class _EncodedPage(msgspec.Struct, kw_only=True):
    """An ActivityPage whose entries are JSON."""

    results: Sequence[msgspec.Raw]
    next: str | None
    previous: str | None
    total_count: int


def _parse_filters(call: Call) -> ActivityQuery:
    def read(name: str) -> str | None:
        return parse_text(call.query_param(name), name) or None

    return ActivityQuery(
        scope=call.query_param("scope"),
        item_id=call.query_param("item_id"),
        activity=read("activity"),
        user=read("user"),
        search=read("search"),
        since=_parse_date(call, "start_date"),
        until=_parse_date(call, "end_date"),
    )


def _parse_date(call: Call, name: str) -> datetime | None:
    text = call.query_param(name)
    if not text:
        return None
    try:
        return parse_query_date(text, utc_now(), UTC)
    except ValueError:
        raise Invalid("Expected a date such as 2026-01-31 or -7d.", attr=name) from None


def _render_entry(recorded: RecordedActivity) -> ActivityItem:
    entry = recorded.entry
    return ActivityItem(
        id=recorded.id,
        user=_render_user(entry.actor),
        activity=entry.activity,
        scope=entry.scope,
        item_id=entry.item_id,
        detail=render_detail(entry),
        created_at=format_iso(recorded.created_at),
    )


def _render_user(actor: Actor) -> ActivityUser:
    is_system = actor.kind == "system"
    return ActivityUser(first_name=actor.name, email=actor.email, is_system=is_system)


def activity_endpoint(path: str, access: Access) -> Callable[[M], M]:
    """Serve the changes made to one item, or to all items of a kind, on a path of a project."""
    return endpoint(
        "GET",
        *project_paths(path),
        access=access,
        response=ActivityPage,
        query=ACTIVITY_PARAMETERS,
    )


async def respond_with_activity(
    call: ProjectCall, store: ActivityStore, scope: str, item_id: str | None = None
) -> Response:
    """Respond with a page of the changes made to one item, or to all items with this scope."""
    query = ActivityQuery(project_id=call.project.id, scope=scope, item_id=item_id)
    return await _respond_with_page(call, store, query)


async def _respond_with_page(call: Call, store: ActivityStore, query: ActivityQuery) -> Response:
    size = min(_parse_number(call, "limit", DEFAULT_LIMIT), MAX_LIMIT)
    number = _parse_number(call, "page", 1)
    query = replace(query, limit=size, offset=min((number - 1) * size, MAX_OFFSET))
    parse_text(query.scope, "scope")
    parse_text(query.item_id, "item_id")
    entries, total = await store.list_activity(query)

    def link(to: int) -> str:
        return call.link({"limit": size, "page": to})

    return JsonResponse(
        _EncodedPage(
            results=await run_in_thread(partial(_encode_entries, entries)),
            next=link(number + 1) if query.offset + size < total else None,
            previous=link(number - 1) if number > 1 else None,
            total_count=total,
        )
    )


def _encode_entries(entries: Sequence[RecordedActivity]) -> Sequence[msgspec.Raw]:
    """Encode one by one: a page of large definitions has tens of megabytes."""
    pause = build_pauses()
    encoded = []
    for entry in entries:
        encoded.append(msgspec.Raw(jsonio.encode(_render_entry(entry))))
        pause()
    return encoded


def _parse_number(call: Call, name: str, default: int) -> int:
    text = call.query_param(name)
    if text is None:
        return default
    number = parse_positive(text)
    if number is None:
        raise Invalid("Expected a whole number of at least 1.", attr=name)
    return number


class ActivityEndpoints:
    tag = "Activity"

    def __init__(self, activity: ActivityStore) -> None:
        self._activity = activity

    @endpoint(
        "GET",
        *project_paths("activity_log/"),
        access=in_project("activity_log:read"),
        response=ActivityPage,
        query=ACTIVITY_PARAMETERS + FILTERS,
    )
    async def list_project_activity(self, call: ProjectCall) -> Response:
        """List the changes made in one project, newest first."""
        return await _respond_with_page(
            call, self._activity, replace(_parse_filters(call), project_id=call.project.id)
        )

    @endpoint(
        "GET",
        "/api/organizations/@current/activity_log/",
        access=anywhere("activity_log:read"),
        response=ActivityPage,
        query=ACTIVITY_PARAMETERS + FILTERS,
    )
    async def list_organization_activity(self, call: Call) -> Response:
        """List the changes made in all projects and to personal API keys, newest first."""
        return await _respond_with_page(call, self._activity, _parse_filters(call))
