"""Links that show an insight or a dashboard without a key: their settings, and what they show."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from starlette.responses import Response

from hedgerow.dashboards.dashboards import Dashboards
from hedgerow.dashboards.model import SavedInsight, SharedLink, ShownTile
from hedgerow.dashboards.results import InsightResult, InsightResults
from hedgerow.dashboards.saved_insights import SavedInsights, build_runnable
from hedgerow.dashboards.sharing import SharedObject, Sharing
from hedgerow.errors import AppError, Invalid, NotFound
from hedgerow.events.query.result_json import encode_result
from hedgerow.http.api.dashboards.dashboards import parse_dashboard_id
from hedgerow.http.api.dashboards.insight_items import limit_results
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall, PublicCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.openapi.sdk_types import NO_KEY
from hedgerow.http.payload.fields import Boolean, Fields
from hedgerow.http.sdk.cors_assets import CORS_HEADERS, build_asset_error
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib.clock import format_iso
from hedgerow.projects.call_limits import CallLimits
from hedgerow.projects.model import KeyId, Project
from hedgerow.projects.rate_limit import RateLimiter

READ = in_project("sharing_configuration:read")
WRITE = in_project("sharing_configuration:write")
SHARED = "/shared/{token}"
JSON_SUFFIX = ".json"


class SharingItem(msgspec.Struct, kw_only=True):
    """The link of an insight or a dashboard: `/shared/<access_token>`. `settings` are for pages
    that show it."""

    created_at: str
    enabled: bool
    access_token: str
    settings: Mapping[str, Any] | None
    password_required: bool = False
    share_passwords: Sequence[Any] = ()


class SharingBody(Fields):
    ignored_fields: ClassVar[frozenset[str] | None] = frozenset(
        ("created_at", "access_token", "settings", "share_passwords")
    )

    enabled: Boolean | None = None
    password_required: Boolean | None = None

    def check(self) -> None:
        if self.password_required:
            detail = "Passwords are not supported. A link is as secret as its token."
            raise Invalid(detail, attr="password_required", code="not_supported")


class SharedResult(msgspec.Struct, kw_only=True):
    """The result of an insight. `last_refresh` is when it was computed. `is_stale` means that
    something may have changed since."""

    result: msgspec.Raw | None = None
    last_refresh: str | None = None
    is_stale: bool = False
    has_more: bool = msgspec.field(default=False, name="hasMore")
    columns: Sequence[str] | None = None
    timezone: str | None = None
    resolved_date_range: Mapping[str, str] | None = None


class SharedInsight(SharedResult, kw_only=True):
    name: str
    derived_name: str | None
    description: str
    query: Mapping[str, Any]


class SharedTile(msgspec.Struct, kw_only=True):
    order: int
    layouts: Mapping[str, Any]
    color: str | None
    insight: SharedInsight | None
    text: Mapping[str, str] | None


class SharedDashboard(msgspec.Struct, kw_only=True):
    name: str
    description: str
    filters: Mapping[str, Any]
    tiles: Sequence[SharedTile]


class SharedItem(msgspec.Struct, kw_only=True):
    """What a link shows: an insight or a dashboard."""

    insight: SharedInsight | None = None
    dashboard: SharedDashboard | None = None


class SharingEndpoints:
    tag = "Sharing"

    def __init__(self, insights: SavedInsights, dashboards: Dashboards, sharing: Sharing) -> None:
        self._insights = insights
        self._dashboards = dashboards
        self._sharing = sharing

    @endpoint(
        "GET",
        *project_paths("insights/{insight_id}/sharing/"),
        access=READ,
        response=SharingItem,
    )
    async def retrieve_insight_sharing(self, call: ProjectCall) -> Response:
        """Retrieve the link of an insight."""
        return await self._retrieve(call, await self._find_insight(call))

    @endpoint(
        "PATCH",
        *project_paths("insights/{insight_id}/sharing/"),
        access=WRITE,
        response=SharingItem,
        body=SharingBody,
    )
    async def change_insight_sharing(self, call: ProjectCall) -> Response:
        """Enable or disable the link of an insight. A disabled link stops working at once."""
        return await self._change(call, await self._find_insight(call))

    @endpoint(
        "POST",
        *project_paths("insights/{insight_id}/sharing/refresh/"),
        access=WRITE,
        response=SharingItem,
    )
    async def refresh_insight_sharing(self, call: ProjectCall) -> Response:
        """Give an insight another link. The one that it had stops working at once."""
        return await self._replace_token(call, await self._find_insight(call))

    @endpoint(
        "GET",
        *project_paths("dashboards/{dashboard_id}/sharing/"),
        access=READ,
        response=SharingItem,
    )
    async def retrieve_dashboard_sharing(self, call: ProjectCall) -> Response:
        """Retrieve the link of a dashboard."""
        return await self._retrieve(call, await self._find_dashboard(call))

    @endpoint(
        "PATCH",
        *project_paths("dashboards/{dashboard_id}/sharing/"),
        access=WRITE,
        response=SharingItem,
        body=SharingBody,
    )
    async def change_dashboard_sharing(self, call: ProjectCall) -> Response:
        """Enable or disable the link of a dashboard. A disabled link stops working at once."""
        return await self._change(call, await self._find_dashboard(call))

    @endpoint(
        "POST",
        *project_paths("dashboards/{dashboard_id}/sharing/refresh/"),
        access=WRITE,
        response=SharingItem,
    )
    async def refresh_dashboard_sharing(self, call: ProjectCall) -> Response:
        """Give a dashboard another link. The one that it had stops working at once."""
        return await self._replace_token(call, await self._find_dashboard(call))

    async def _find_insight(self, call: ProjectCall) -> SharedObject:
        found = await self._insights.find(call.project, call.path_param("insight_id"))
        return SharedObject(insight=found.insight)

    async def _find_dashboard(self, call: ProjectCall) -> SharedObject:
        found = await self._dashboards.find(call.project, parse_dashboard_id(call))
        return SharedObject(dashboard=found.dashboard)

    async def _retrieve(self, call: ProjectCall, of: SharedObject) -> Response:
        return _respond(await self._sharing.find(call.project, of, call.now))

    async def _change(self, call: ProjectCall, of: SharedObject) -> Response:
        body = await call.body(SharingBody)
        body.check()
        fields = {} if body.enabled is None else {"enabled": body.enabled}
        return _respond(await self._sharing.change(call.project, of, fields, call.actor, call.now))

    async def _replace_token(self, call: ProjectCall, of: SharedObject) -> Response:
        return _respond(await self._sharing.replace_token(call.project, of, call.actor, call.now))


def _respond(link: SharedLink) -> Response:
    return JsonResponse(
        SharingItem(
            created_at=format_iso(link.created_at),
            enabled=link.enabled,
            access_token=link.access_token,
            settings=link.settings or None,
        )
    )


class SharedEndpoints:
    """What links show, without a key. Only kept results: a visitor cannot cause more than one
    computation of each in ten minutes."""

    tag = "Sharing"

    def __init__(
        self,
        sharing: Sharing,
        insights: SavedInsights,
        dashboards: Dashboards,
        results: InsightResults,
        limits: CallLimits,
        rate_limiter: RateLimiter,
    ) -> None:
        self._sharing = sharing
        self._insights = insights
        self._dashboards = dashboards
        self._results = results
        self._limits = limits
        self._rate_limiter = rate_limiter

    @endpoint("GET", SHARED, access=None, keys=NO_KEY, response=SharedItem, name="shared")
    async def retrieve_shared(self, call: PublicCall) -> Response:
        """Retrieve the insight or the dashboard that a link shows, with its kept results, as JSON.
        The token may end with `.json`."""
        try:
            self._limits.admit_address(call.context.origins.client(call.request.scope).group)
            item = await self._render(call)
        except AppError as error:
            return build_asset_error(error)
        headers = {**CORS_HEADERS, "Cache-Control": "no-store"}
        return Response(encode_result(item), media_type="application/json", headers=headers)

    async def _render(self, call: PublicCall) -> SharedItem:
        link = await self._sharing.resolve(call.path_param("token").removesuffix(JSON_SUFFIX))
        project = call.context.directory.get_project(link.project_id)
        if project is None:
            raise NotFound
        self._rate_limiter.admit(KeyId(f"shared {link.access_token}"), time.monotonic())
        if link.dashboard_id is not None:
            found = await self._dashboards.find(project, link.dashboard_id)
            return SharedItem(
                dashboard=SharedDashboard(
                    name=found.dashboard.name,
                    description=found.dashboard.description,
                    filters=found.dashboard.filters,
                    tiles=await self._render_tiles(project, found.tiles, found.dashboard.filters),
                )
            )
        shown = (await self._insights.find(project, str(link.insight_id))).insight
        [result] = await self._results.fetch_shared(project, [build_runnable(shown, {})])
        return SharedItem(insight=SharedInsight(**_render_shared(shown, result)))

    async def _render_tiles(
        self, project: Project, tiles: Sequence[ShownTile], filters: Mapping[str, Any]
    ) -> list[SharedTile]:
        insights = [each.insight.insight for each in tiles if each.insight is not None]
        found = await self._results.fetch_shared(
            project, [build_runnable(insight, filters) for insight in insights]
        )
        rendered = {
            insight.id: SharedInsight(**_render_shared(insight, result))
            for insight, result in zip(insights, limit_results(found), strict=True)
        }
        return [
            SharedTile(
                order=number,
                layouts=each.tile.layouts,
                color=each.tile.color,
                insight=None if each.insight is None else rendered[each.insight.insight.id],
                text=None if each.tile.text is None else {"body": each.tile.text},
            )
            for number, each in enumerate(tiles)
        ]


def _render_shared(insight: SavedInsight, result: InsightResult) -> dict[str, Any]:
    fields = {
        "name": insight.name,
        "derived_name": insight.derived_name or None,
        "description": insight.description,
        "query": insight.query,
    }
    kept, computed_at = result.kept, result.computed_at
    if kept is None or computed_at is None:
        return fields
    return fields | {
        "result": kept.results,
        "last_refresh": format_iso(computed_at),
        "is_stale": result.is_stale,
        "has_more": kept.has_more,
        "columns": kept.columns or None,
        "timezone": kept.timezone,
        "resolved_date_range": kept.resolved_date_range,
    }
