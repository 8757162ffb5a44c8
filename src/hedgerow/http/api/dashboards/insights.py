"""Saved insights."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from starlette.responses import Response

from hedgerow.dashboards.dashboards import Dashboards
from hedgerow.dashboards.model import (
    DESCRIPTION_MAX_CHARS,
    MAX_TAGS,
    MAX_TILES,
    NAME_MAX_CHARS,
    TAG_MAX_CHARS,
    DashboardId,
    InsightWithTiles,
)
from hedgerow.dashboards.results import InsightResults
from hedgerow.dashboards.saved_insights import (
    SCOPE,
    InsightEdit,
    SavedInsights,
    build_runnable,
)
from hedgerow.dashboards.store import INSIGHT_ORDERS, LAST_MODIFIED_FIRST, InsightFilter
from hedgerow.errors import Invalid
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.dashboards.insight_items import (
    REFRESH,
    InsightItem,
    limit_results,
    parse_refresh,
    render_insight,
    respond,
)
from hedgerow.http.api.definitions.details import parse_names
from hedgerow.http.call import ProjectCall
from hedgerow.http.collection import Collection
from hedgerow.http.paging import Page
from hedgerow.http.parameters import (
    Parameter,
    parse_boolean,
    parse_choice,
    parse_positive,
    parse_text,
)
from hedgerow.http.payload.fields import INT64_MAX, OMITTED, Between, Boolean, Fields, Text
from hedgerow.http.server.response import no_content
from hedgerow.lib import jsonio
from hedgerow.projects.store import ActivityStore
from hedgerow.queries.queries import Refresh

RESERVED = {"activity": "GET, HEAD"}
# Fields that PostHog returns or accepts, without effect here.
POSTHOG_INSIGHT_FIELDS = frozenset(
    (
        *("id", "short_id", "order", "dashboard_tiles", "last_refresh", "cache_target_age"),
        *("next_allowed_client_refresh", "result", "hasMore", "columns", "created_at"),
        *("created_by", "updated_at", "last_modified_at", "last_modified_by", "is_sample"),
        *("effective_restriction_level", "effective_privilege_level", "user_access_level"),
        *("timezone", "is_cached", "query_status", "hogql", "types", "_create_in_folder"),
        *("alerts", "last_viewed_at", "refreshing", "resolved_date_range", "is_stale", "error"),
    )
)
# PostHog's names of types, and the kinds of their queries.
INSIGHT_KINDS = {
    "TRENDS": "TrendsQuery",
    "FUNNELS": "FunnelsQuery",
    "RETENTION": "RetentionQuery",
    "PATHS": "PathsQuery",
    "SQL": "HogQLQuery",
}
LIST_PARAMETERS = (
    Parameter("search", "Only insights whose name or description contains this text."),
    Parameter("short_id", "Only the insight with this short id."),
    Parameter("saved", "Only insights that are saved, or that are not.", {"type": "boolean"}),
    Parameter("favorited", "Only favorites, or none of them.", {"type": "boolean"}),
    Parameter("tags", "Only insights with one of these tags: a JSON list, or with commas."),
    Parameter("insight", f"Only insights of this type: {', '.join(INSIGHT_KINDS)}."),
    Parameter("created_by", "Only insights of this user, by id or email."),
    Parameter("dashboards", "Only insights that these dashboards show: an id, or a JSON list."),
    Parameter("order", "Sort by name, created_at, last_modified_at or id; - for descending."),
    Parameter("basic", "Leave out the results.", {"type": "boolean"}),
)
FROM_DASHBOARD = Parameter(
    "from_dashboard", "The id of a dashboard that shows the insight, to apply its filters."
)
Tags = list[Annotated[str, Text(TAG_MAX_CHARS)]]


class InsightBody(Fields):
    """`query` is a query as `query/` takes it, or a node that shows one: InsightVizNode,
    DataVisualizationNode or DataTableNode. `dashboards` are all dashboards that show the
    insight. `deleted: false` restores a deleted insight."""

    ignored_fields: ClassVar[frozenset[str] | None] = POSTHOG_INSIGHT_FIELDS

    name: Annotated[str, Text(NAME_MAX_CHARS, blank=True)] | None = None
    derived_name: Annotated[str, Text(NAME_MAX_CHARS, blank=True)] | None = None
    description: Annotated[str, Text(DESCRIPTION_MAX_CHARS, blank=True)] | None = None
    query: dict[str, Any] = OMITTED
    favorited: Boolean = OMITTED
    saved: Boolean = OMITTED
    tags: Tags | None = None
    deleted: Boolean = OMITTED
    dashboards: list[Annotated[int, Between(1, INT64_MAX)]] | None = None
    filters: dict[str, Any] | None = None

    def to_edit(self) -> InsightEdit:
        if self.filters:
            detail = "Insights by `filters` are not supported. Send a `query`."
            raise Invalid(detail, attr="filters", code="not_supported")
        sent = {name: getattr(self, name) for name in self.model_fields_set - _OTHER_FIELDS}
        for name in ("name", "derived_name", "description"):
            if name in sent:
                sent[name] = sent[name] or ""
        if "tags" in sent:
            sent["tags"] = clean_tags(sent["tags"])
        ids = self.dashboards
        return InsightEdit(
            fields=sent,
            dashboards=None if ids is None else [DashboardId(id) for id in dict.fromkeys(ids)],
        )


_OTHER_FIELDS = {"dashboards", "filters"}


class NewInsight(InsightBody):
    query: dict[str, Any]


def clean_tags(tags: Sequence[str] | None) -> list[str]:
    unique = list(dict.fromkeys(tags or ()))
    if len(unique) > MAX_TAGS:
        raise Invalid(f"Ensure this field has no more than {MAX_TAGS} elements.", attr="tags")
    return unique


def parse_creator(call: ProjectCall) -> str | None:
    """Return the email of a user that is given by id or email."""
    text = parse_text(call.query_param("created_by"), "created_by")
    owner = call.owner
    return owner.email if text in (str(owner.id), owner.uuid) else text or None


INSIGHTS = Collection(name="insight", page=Page[InsightItem], item=InsightItem)


class InsightEndpoints:
    tag = "Insights"

    def __init__(
        self,
        activity: ActivityStore,
        insights: SavedInsights,
        dashboards: Dashboards,
        results: InsightResults,
    ) -> None:
        self._activity = activity
        self._insights = insights
        self._dashboards = dashboards
        self._results = results

    @INSIGHTS.list_endpoint(*LIST_PARAMETERS)
    async def list_insights(self, call: ProjectCall) -> Response:
        """List the project's insights, last modified first, with their kept results."""
        found, count = await self._insights.list_insights(call.project, _parse_filter(call))
        if parse_boolean(call.query_param("basic"), "basic"):
            return respond(call.page(count, [render_insight(call, each) for each in found]))
        results = await self._results.fetch(
            call.project, [build_runnable(each.insight, {}) for each in found], Refresh.FORCE_CACHE
        )
        pairs = zip(found, limit_results(results), strict=True)
        return respond(call.page(count, [render_insight(call, *pair) for pair in pairs]))

    @INSIGHTS.create_endpoint(NewInsight, REFRESH)
    async def create_insight(self, call: ProjectCall) -> Response:
        """Create an insight."""
        refresh = parse_refresh(call)
        body = await call.body(NewInsight)
        made = await self._insights.create(call.project, body.to_edit(), call.actor, call.now)
        return await self._respond_with_result(call, made, refresh, 201)

    @INSIGHTS.retrieve_endpoint(REFRESH, FROM_DASHBOARD)
    async def retrieve_insight(self, call: ProjectCall) -> Response:
        """Retrieve an insight by its id or short id, with its result."""
        refresh = parse_refresh(call)
        found = await self._insights.find(call.project, call.path_param("insight_id"))
        filters = await self._find_filters(call, found)
        return await self._respond_with_result(call, found, refresh, filters=filters)

    @INSIGHTS.change_endpoint(InsightBody, REFRESH)
    async def change_insight(self, call: ProjectCall) -> Response:
        """Update the given fields. `deleted: false` restores a deleted insight."""
        refresh = parse_refresh(call)
        id = call.path_param("insight_id", RESERVED)
        found = await self._insights.find(call.project, id, deleted_too=True)
        body = await call.body(InsightBody)
        changed = await self._insights.change(
            call.project, found.insight.id, body.to_edit(), call.actor, call.now
        )
        return await self._respond_with_result(call, changed, refresh)

    @INSIGHTS.delete_endpoint()
    async def delete_insight(self, call: ProjectCall) -> Response:
        """Delete an insight. `deleted: false` restores it."""
        found = await self._insights.find(call.project, call.path_param("insight_id", RESERVED))
        edit = InsightEdit(fields={"deleted": True})
        await self._insights.change(call.project, found.insight.id, edit, call.actor, call.now)
        return no_content()

    @activity_endpoint("insights/{insight_id}/activity/", INSIGHTS.read)
    async def list_insight_activity(self, call: ProjectCall) -> Response:
        """List the changes made to an insight, newest first."""
        id = call.path_param("insight_id")
        found = await self._insights.find(call.project, id, deleted_too=True)
        return await respond_with_activity(call, self._activity, SCOPE, str(found.insight.id))

    @activity_endpoint("insights/activity/", INSIGHTS.read)
    async def list_insights_activity(self, call: ProjectCall) -> Response:
        """List the changes made to all insights, newest first."""
        return await respond_with_activity(call, self._activity, SCOPE)

    async def _find_filters(
        self, call: ProjectCall, found: InsightWithTiles
    ) -> Mapping[str, Any] | None:
        """Return the filters of the dashboard that the client shows the insight on."""
        text = call.query_param("from_dashboard")
        if not text:
            return None
        id = parse_positive(text)
        if id is None or all(tile.dashboard_id != id for tile in found.tiles):
            detail = "Expected the id of a dashboard that shows the insight."
            raise Invalid(detail, attr="from_dashboard", code="does_not_exist")
        shown_on = await self._dashboards.find(call.project, DashboardId(id))
        return shown_on.dashboard.filters

    async def _respond_with_result(
        self,
        call: ProjectCall,
        found: InsightWithTiles,
        refresh: Refresh,
        status: int = 200,
        *,
        filters: Mapping[str, Any] | None = None,
    ) -> Response:
        query = build_runnable(found.insight, filters or {})
        result = await call.while_connected(self._results.fetch_one(call.project, query, refresh))
        return respond(render_insight(call, found, result), status)


def _parse_filter(call: ProjectCall) -> InsightFilter:
    window = call.window
    order = call.query_param("order") or LAST_MODIFIED_FIRST
    if order.removeprefix("-") not in INSIGHT_ORDERS:
        detail = f"Expected one of: {', '.join(INSIGHT_ORDERS)}."
        raise Invalid(detail, attr="order", code="invalid_choice")
    kind = parse_choice(call.query_param("insight"), "insight", INSIGHT_KINDS)
    return InsightFilter(
        search=parse_text(call.query_param("search"), "search").strip()[:200],
        saved=parse_boolean(call.query_param("saved"), "saved"),
        favorited=parse_boolean(call.query_param("favorited"), "favorited"),
        tags=clean_tags(parse_names(call, "tags")),
        query_kind=INSIGHT_KINDS[kind] if kind else None,
        short_id=parse_text(call.query_param("short_id"), "short_id") or None,
        created_by=parse_creator(call),
        dashboard_ids=_parse_dashboards(call),
        order=order,
        limit=window.limit,
        offset=window.offset,
    )


def _parse_dashboards(call: ProjectCall) -> list[DashboardId]:
    """Parse `dashboards`: one id, or as PostHog's clients send it a JSON list of ids."""
    text = call.query_param("dashboards") or ""
    found: Any = [parse_positive(text)] if text not in ("", "null") else []
    if text.startswith("["):
        try:
            found = jsonio.parse(text.encode("utf-8", "surrogatepass"))
        except jsonio.JsonError as error:
            raise Invalid(str(error), attr="dashboards") from None
    if len(found) > MAX_TILES or any(type(each) is not int or each < 1 for each in found):
        raise Invalid("A valid integer is required.", attr="dashboards")
    return [DashboardId(min(id, INT64_MAX)) for id in found]
