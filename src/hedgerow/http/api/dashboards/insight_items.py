"""An insight with its result, as insights and tiles of dashboards contain it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from hedgerow.dashboards.kept_result import KeptResult
from hedgerow.dashboards.model import (
    EVERYONE_CAN_EDIT,
    ONLY_COLLABORATORS_CAN_EDIT,
    InsightWithTiles,
)
from hedgerow.dashboards.results import MAX_AGE, InsightResult
from hedgerow.errors import AppError, Invalid
from hedgerow.events.query.result_json import encode_result
from hedgerow.http.api.people.users import render_user
from hedgerow.http.call import ProjectCall, PublicCall
from hedgerow.http.parameters import Parameter
from hedgerow.lib.clock import format_iso
from hedgerow.lib.text import truncate
from hedgerow.projects.model import ProjectId
from hedgerow.queries.model import QueryResponse, QueryStatus
from hedgerow.queries.queries import Refresh

# Results beyond this are left out of a response with several of them.
MAX_RESPONSE_BYTES = 32 << 20
USER_ACCESS_LEVEL = "manager"
REFRESH = Parameter(
    "refresh",
    "Whether to compute results: force_cache (or false, the default) returns the kept ones, "
    "blocking waits for new ones if something changed, async lets them be computed, lazy_async "
    "only if there are none, async_except_on_cache_miss waits only if there are none; "
    "force_blocking (or true) and force_async compute them in any case.",
)


class InsightError(msgspec.Struct, kw_only=True):
    """Why there is no newer result."""

    type: str
    code: str
    detail: str


class InsightTileItem(msgspec.Struct, kw_only=True):
    id: int
    dashboard_id: int
    deleted: bool = False


class InsightItem(msgspec.Struct, kw_only=True):
    """A saved insight with its kept result. `last_refresh` is when the result was computed.
    `is_cached` is false for a result that was computed for this request. `is_stale` means that
    events, persons or cohorts may have changed since, or a minute has passed; `query_status` that a
    newer result is being computed; `error` why there is none. `effective_restriction_level` and
    the other access fields have fixed values."""

    id: int
    short_id: str
    name: str | None
    derived_name: str | None
    query: Mapping[str, Any]
    order: int | None = None
    deleted: bool
    dashboards: Sequence[int]
    dashboard_tiles: Sequence[InsightTileItem]
    last_refresh: str | None = None
    cache_target_age: str | None = None
    next_allowed_client_refresh: str | None = None
    result: msgspec.Raw | None = None
    has_more: bool | None = msgspec.field(default=None, name="hasMore")
    columns: Sequence[str] | None = None
    created_at: str
    created_by: Mapping[str, Any] | None
    description: str | None
    updated_at: str
    tags: Sequence[str]
    favorited: bool
    saved: bool
    last_modified_at: str
    last_modified_by: Mapping[str, Any] | None
    is_sample: bool = False
    effective_restriction_level: int = EVERYONE_CAN_EDIT
    effective_privilege_level: int = ONLY_COLLABORATORS_CAN_EDIT
    user_access_level: str = USER_ACCESS_LEVEL
    timezone: str | None = None
    is_cached: bool = False
    is_stale: bool = False
    query_status: QueryStatus | None = None
    hogql: str | None = None
    types: Sequence[Any] | None = None
    resolved_date_range: Mapping[str, str] | None = None
    error: InsightError | None = None


def parse_refresh(call: PublicCall) -> Refresh:
    """Older clients send true for a new result."""
    text = (call.query_param("refresh") or "").strip()
    if text.lower() in ("", "false", "0"):
        return Refresh.FORCE_CACHE
    if text.lower() in ("true", "1"):
        return Refresh.FORCE_BLOCKING
    try:
        return Refresh(text)
    except ValueError:
        detail = f'"{truncate(text)}" is not a valid choice.'
        raise Invalid(detail, attr="refresh", code="invalid_choice") from None


def respond(value: Any, status: int = 200) -> Response:
    return Response(encode_result(value), status_code=status, media_type="application/json")


def render_insight(
    call: ProjectCall, found: InsightWithTiles, result: InsightResult | None = None
) -> InsightItem:
    insight = found.insight
    item = InsightItem(
        id=insight.id,
        short_id=insight.short_id,
        name=insight.name,
        derived_name=insight.derived_name or None,
        query=insight.query,
        deleted=insight.deleted,
        dashboards=[tile.dashboard_id for tile in found.tiles],
        dashboard_tiles=[
            InsightTileItem(id=tile.id, dashboard_id=tile.dashboard_id) for tile in found.tiles
        ],
        created_at=format_iso(insight.created_at),
        created_by=render_user(call, insight.created_by),
        description=insight.description,
        updated_at=format_iso(insight.updated_at),
        tags=insight.tags,
        favorited=insight.favorited,
        saved=insight.saved,
        last_modified_at=format_iso(insight.last_modified_at),
        last_modified_by=render_user(call, insight.last_modified_by),
    )
    if result is None:
        return item
    return msgspec.structs.replace(item, **render_result(call.project.id, result))


def render_result(project_id: ProjectId, result: InsightResult) -> dict[str, Any]:
    """Render the fields of an insight that depend on its result."""
    fields: dict[str, Any] = {
        "is_stale": result.is_stale,
        "error": _render_error(result.error) if result.error else None,
        "query_status": render_status(project_id, result) if result.is_running else None,
    }
    kept, computed_at = result.kept, result.computed_at
    if kept is None or computed_at is None:
        return fields | {"is_stale": False}
    return fields | {
        "last_refresh": format_iso(computed_at),
        "cache_target_age": format_iso(computed_at + MAX_AGE),
        "next_allowed_client_refresh": format_iso(computed_at),
        "result": kept.results,
        "has_more": kept.has_more,
        "columns": kept.columns or None,
        "timezone": kept.timezone,
        "is_cached": result.is_cached,
        "hogql": kept.hogql or None,
        "types": kept.types or None,
        "resolved_date_range": kept.resolved_date_range,
    }


def _render_error(error: AppError) -> InsightError:
    return InsightError(type=error.type, code=error.code, detail=error.detail)


def render_status(project_id: ProjectId, result: InsightResult) -> QueryStatus:
    """Render a result as the status of an asynchronous query."""
    is_done = not result.is_running
    kept = result.kept if is_done else None
    error = result.error if is_done else None
    return QueryStatus(
        id=result.key,
        team_id=project_id,
        complete=is_done,
        error=error is not None,
        error_message=error.detail if error else None,
        results=_render_response(kept, result) if kept and not error else None,
        start_time=result.requested_at or result.computed_at,
        end_time=result.computed_at if is_done else None,
        expiration_time=None,
    )


def _render_response(kept: KeptResult, result: InsightResult) -> QueryResponse:
    dates = kept.resolved_date_range
    return QueryResponse(
        results=kept.results,
        columns=kept.columns,
        types=kept.types,
        hogql=kept.hogql,
        query={},
        has_more=kept.has_more,
        timezone=kept.timezone,
        is_cached=True,
        cache_key=result.key,
        last_refresh=result.computed_at,
        resolved_date_range=msgspec.UNSET if dates is None else dates,
    )


def limit_results(results: Sequence[InsightResult]) -> list[InsightResult]:
    """Leave out results that would make a response too large."""
    limited, size = [], 0
    for result in results:
        size += result.kept.size if result.kept else 0
        if size > MAX_RESPONSE_BYTES and result.kept is not None:
            detail = "The results are too large for one response. Request the insight alone."
            error = Invalid(detail, code="query_limit_exceeded")
            limited.append(InsightResult(key=result.key, error=error))
        else:
            limited.append(result)
    return limited
