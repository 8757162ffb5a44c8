"""Dashboards and their tiles."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from starlette.responses import Response

from hedgerow.dashboards.dashboards import (
    SCOPE,
    Author,
    DashboardEdit,
    Dashboards,
    TileEdit,
)
from hedgerow.dashboards.model import (
    DESCRIPTION_MAX_CHARS,
    EVERYONE_CAN_EDIT,
    MAX_LAYOUTS_BYTES,
    NAME_MAX_CHARS,
    ONLY_COLLABORATORS_CAN_EDIT,
    TILE_TEXT_MAX_CHARS,
    Dashboard,
    DashboardId,
    DashboardWithTiles,
    InsightId,
    ShownTile,
    TileId,
)
from hedgerow.dashboards.results import InsightResult, InsightResults
from hedgerow.dashboards.saved_insights import build_runnable
from hedgerow.dashboards.store import DashboardFilter, SharedLinkStore
from hedgerow.errors import Invalid, NotFound, Unavailable
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.dashboards.insight_items import (
    REFRESH,
    USER_ACCESS_LEVEL,
    InsightItem,
    limit_results,
    parse_refresh,
    render_insight,
    respond,
)
from hedgerow.http.api.dashboards.insights import Tags, clean_tags, parse_creator
from hedgerow.http.api.people.users import render_user
from hedgerow.http.call import ProjectCall
from hedgerow.http.collection import Collection
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import Page
from hedgerow.http.parameters import Parameter, parse_boolean, parse_positive, parse_text
from hedgerow.http.payload.fields import (
    INT64_MAX,
    OMITTED,
    Between,
    Boolean,
    Fields,
    Text,
    validate_part,
)
from hedgerow.http.server.response import no_content
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso
from hedgerow.projects.store import ActivityStore
from hedgerow.projects.validation import check_storable
from hedgerow.queries.queries import Refresh

RESERVED = {"activity": "GET, HEAD"}
# Fields that PostHog returns or accepts, without effect here.
POSTHOG_DASHBOARD_FIELDS = frozenset(
    (
        *("id", "created_at", "created_by", "last_accessed_at", "last_viewed_at", "is_shared"),
        *("creation_mode", "effective_restriction_level", "effective_privilege_level"),
        *("user_access_level", "access_control_version", "last_refresh", "persisted_filters"),
        *("persisted_variables", "team_id", "breakdown_colors", "data_color_theme_id"),
        *("_create_in_folder", "last_modified_at", "last_modified_by", "hash", "customer_id"),
    )
)
POSTHOG_TILE_FIELDS = frozenset(
    (
        *("order", "last_refresh", "is_cached", "is_stale", "error", "refreshing", "dashboard_id"),
        *("show_description", "transparent_background", "filters_overrides"),
    )
)
LIST_PARAMETERS = (
    Parameter("search", "Only dashboards whose name or description contains this text."),
    Parameter("pinned", "Only pinned dashboards, or none of them.", {"type": "boolean"}),
    Parameter("created_by", "Only dashboards of this user, by id or email."),
)
FILTERS_OVERRIDE = Parameter(
    "filters_override",
    "JSON with filters for this request, in place of those of the dashboard: date_from, date_to, "
    "properties, breakdown_filter.",
)

Id = Annotated[int, Between(1, INT64_MAX)]


class DashboardBasics(msgspec.Struct, kw_only=True):
    """A dashboard without its tiles. `effective_restriction_level` and the other access fields
    have fixed values."""

    id: int
    name: str
    description: str
    pinned: bool
    created_at: str
    created_by: Mapping[str, Any] | None
    last_accessed_at: None = None
    last_viewed_at: None = None
    is_shared: bool
    deleted: bool
    creation_mode: str
    tags: Sequence[str]
    restriction_level: int
    effective_restriction_level: int = EVERYONE_CAN_EDIT
    effective_privilege_level: int = ONLY_COLLABORATORS_CAN_EDIT
    user_access_level: str = USER_ACCESS_LEVEL
    access_control_version: str = "v2"
    last_refresh: str | None = None
    team_id: int
    last_modified_at: str
    last_modified_by: Mapping[str, Any] | None


class TextItem(msgspec.Struct, kw_only=True):
    """The text of a tile. It has the id of the tile."""

    id: int
    body: str
    created_by: Mapping[str, Any] | None
    last_modified_by: Mapping[str, Any] | None
    last_modified_at: str


class TileItem(msgspec.Struct, kw_only=True):
    """A tile shows an insight or a text."""

    id: int
    order: int
    layouts: Mapping[str, Any]
    color: str | None
    insight: InsightItem | None
    text: TextItem | None
    last_refresh: str | None
    is_cached: bool


class DashboardItem(DashboardBasics, kw_only=True):
    """A dashboard with its tiles and their results. `last_refresh` is the time of the oldest
    one."""

    filters: Mapping[str, Any]
    variables: Mapping[str, Any] = {}
    persisted_filters: Mapping[str, Any] | None
    persisted_variables: None = None
    breakdown_colors: Sequence[Any] = ()
    data_color_theme_id: None = None
    tiles: Sequence[TileItem]


class TextBody(Fields):
    ignored_fields: ClassVar[frozenset[str] | None] = frozenset(
        ("id", "created_by", "last_modified_by", "last_modified_at", "team")
    )

    body: Annotated[str, Text(TILE_TEXT_MAX_CHARS)]


class TileBody(Fields):
    """A tile to change, with its `id`; a new one without. A new one has an `insight` with an id,
    or a `text` with a body. `deleted: true` removes the tile."""

    ignored_fields: ClassVar[frozenset[str] | None] = POSTHOG_TILE_FIELDS

    id: Id | None = None
    layouts: dict[str, Any] | None = None
    color: Annotated[str, Text(400)] | None = None
    text: dict[str, Any] | None = None
    insight: dict[str, Any] | None = None
    deleted: Boolean | None = None


class DashboardBody(Fields):
    """`filters` (date_from, date_to, properties, breakdown_filter) apply to all insights of the
    dashboard. `tiles` changes the given tiles and leaves others as they are. `delete_insights`
    with `deleted: true` also deletes the insights that no other dashboard shows."""

    ignored_fields: ClassVar[frozenset[str] | None] = POSTHOG_DASHBOARD_FIELDS

    name: Annotated[str, Text(NAME_MAX_CHARS, blank=True)] | None = None
    description: Annotated[str, Text(DESCRIPTION_MAX_CHARS, blank=True)] | None = None
    pinned: Boolean = OMITTED
    deleted: Boolean = OMITTED
    tags: Tags | None = None
    filters: dict[str, Any] | None = None
    restriction_level: Literal[21, 37] = OMITTED
    tiles: list[dict[str, Any]] | None = None
    delete_insights: Boolean | None = None
    variables: dict[str, Any] | None = None

    def to_edit(self) -> DashboardEdit:
        if self.variables:
            detail = "Variables are not supported. Use `filters`."
            raise Invalid(detail, attr="variables", code="not_supported")
        sent = {name: getattr(self, name) for name in self.model_fields_set & _OWN_FIELDS}
        for name in ("name", "description"):
            if name in sent:
                sent[name] = sent[name] or ""
        if "filters" in sent:
            sent["filters"] = sent["filters"] or {}
        if "tags" in sent:
            sent["tags"] = clean_tags(sent["tags"])
        if sent.get("deleted"):
            sent["pinned"] = False
        return DashboardEdit(
            fields=sent,
            tiles=[_parse_tile(each, f"tiles__{n}") for n, each in enumerate(self.tiles or ())],
            deletes_insights=bool(self.delete_insights and self.deleted),
        )


_OWN_FIELDS = {
    *("name", "description", "pinned", "deleted", "tags", "filters", "restriction_level"),
}


class NewDashboard(DashboardBody):
    """`use_dashboard` copies the tiles of another dashboard, with `duplicate_tiles` also its
    insights."""

    use_dashboard: Id | None = None
    duplicate_tiles: Boolean | None = None
    use_template: str | None = None


class TileToMove(Fields):
    id: Id


class TileMove(Fields):
    """A `tile` with its id, and the dashboard that it moves to."""

    tile: TileToMove
    toDashboard: Id


def _parse_tile(sent: Mapping[str, Any], attr: str) -> TileEdit:
    tile = validate_part(TileBody, sent, attr)
    fields: dict[str, Any] = {}
    if "layouts" in tile.model_fields_set:
        fields["layouts"] = tile.layouts or {}
        check_storable(fields["layouts"], f"{attr}__layouts")
        if len(jsonio.encode(fields["layouts"])) > MAX_LAYOUTS_BYTES:
            detail = f"The layouts of a tile have at most {MAX_LAYOUTS_BYTES} bytes."
            raise Invalid(detail, attr=f"{attr}__layouts")
    if "color" in tile.model_fields_set:
        fields["color"] = tile.color
    if tile.text is not None:
        fields["text"] = validate_part(TextBody, tile.text, f"{attr}__text").body
    if tile.id is not None:
        return TileEdit(id=TileId(tile.id), fields=fields, is_removed=bool(tile.deleted))
    insight_id = (tile.insight or {}).get("id")
    if tile.insight is not None and not _is_id(insight_id):
        raise Invalid("A valid integer is required.", attr=f"{attr}__insight__id")
    if (tile.insight is None) == (tile.text is None):
        detail = "A new tile has either an `insight` with an id or a `text` with a body."
        raise Invalid(detail, attr=attr, code="required")
    return TileEdit(
        id=None, fields=fields, insight_id=None if insight_id is None else InsightId(insight_id)
    )


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= INT64_MAX


def parse_dashboard_id(call: ProjectCall) -> DashboardId:
    text = call.path_param("dashboard_id", RESERVED)
    number = parse_positive(text) if text.isdecimal() else None
    if number is None or number > INT64_MAX:
        raise NotFound
    return DashboardId(number)


DASHBOARDS = Collection(name="dashboard", page=Page[DashboardBasics], item=DashboardItem)


class DashboardEndpoints:
    tag = "Dashboards"

    def __init__(
        self,
        activity: ActivityStore,
        dashboards: Dashboards,
        results: InsightResults,
        links: SharedLinkStore,
    ) -> None:
        self._activity = activity
        self._dashboards = dashboards
        self._results = results
        self._links = links

    @DASHBOARDS.list_endpoint(*LIST_PARAMETERS)
    async def list_dashboards(self, call: ProjectCall) -> Response:
        """List the project's dashboards without their tiles: pinned ones first, then by name."""
        window = call.window
        found, count = await self._dashboards.list_dashboards(
            call.project,
            DashboardFilter(
                search=parse_text(call.query_param("search"), "search").strip()[:200],
                pinned=parse_boolean(call.query_param("pinned"), "pinned"),
                created_by=parse_creator(call),
                limit=window.limit,
                offset=window.offset,
            ),
        )
        shared = await self._links.list_shared(call.project.id, [each.id for each in found])
        basics = [
            DashboardBasics(**_render_basics(call, each, is_shared=each.id in shared))
            for each in found
        ]
        return respond(call.page(count, basics))

    @DASHBOARDS.create_endpoint(NewDashboard, REFRESH)
    async def create_dashboard(self, call: ProjectCall) -> Response:
        """Create a dashboard, or copy one with `use_dashboard`."""
        refresh = parse_refresh(call)
        body = await call.body(NewDashboard)
        if body.use_template:
            detail = "Templates are not supported. Use `use_dashboard` to copy a dashboard."
            raise Invalid(detail, attr="use_template", code="not_supported")
        edit = await self._check(call, body)
        author = Author(actor=call.actor, now=call.now)
        if body.use_dashboard is None:
            made = await self._dashboards.create(call.project, edit, author)
        else:
            made = await self._dashboards.copy(
                call.project,
                DashboardId(body.use_dashboard),
                edit,
                author,
                copies_insights=bool(body.duplicate_tiles),
            )
        return await self._respond_with_tiles(call, made, refresh, status=201)

    @DASHBOARDS.retrieve_endpoint(REFRESH, FILTERS_OVERRIDE)
    async def retrieve_dashboard(self, call: ProjectCall) -> Response:
        """Retrieve a dashboard with its tiles and their results."""
        refresh = parse_refresh(call)
        found = await self._dashboards.find(call.project, parse_dashboard_id(call))
        override = await self._parse_override(call)
        return await self._respond_with_tiles(call, found, refresh, override)

    @DASHBOARDS.change_endpoint(DashboardBody, REFRESH)
    async def change_dashboard(self, call: ProjectCall) -> Response:
        """Update the given fields and tiles. `deleted: false` restores a deleted dashboard."""
        refresh = parse_refresh(call)
        id = parse_dashboard_id(call)
        await self._dashboards.find(call.project, id, deleted_too=True)
        edit = await self._check(call, await call.body(DashboardBody))
        author = Author(actor=call.actor, now=call.now)
        changed = await self._dashboards.change(call.project, id, edit, author)
        return await self._respond_with_tiles(call, changed, refresh)

    @DASHBOARDS.delete_endpoint()
    async def delete_dashboard(self, call: ProjectCall) -> Response:
        """Delete a dashboard. Its insights stay. `deleted: false` restores it."""
        found = await self._dashboards.find(call.project, parse_dashboard_id(call))
        edit = DashboardEdit(fields={"deleted": True, "pinned": False})
        author = Author(actor=call.actor, now=call.now)
        await self._dashboards.change(call.project, found.dashboard.id, edit, author)
        return no_content()

    @endpoint(
        "PATCH",
        *project_paths("dashboards/{dashboard_id}/move_tile/"),
        access=DASHBOARDS.write,
        response=DashboardItem,
        body=TileMove,
    )
    async def move_tile(self, call: ProjectCall) -> Response:
        """Move a tile to another dashboard. The response is the dashboard that it leaves."""
        found = await self._dashboards.find(call.project, parse_dashboard_id(call))
        body = await call.body(TileMove)
        changed = await self._dashboards.move_tile(
            call.project,
            found.dashboard.id,
            TileId(body.tile.id),
            DashboardId(body.toDashboard),
            Author(actor=call.actor, now=call.now),
        )
        return await self._respond_with_tiles(call, changed, Refresh.FORCE_CACHE)

    @activity_endpoint("dashboards/{dashboard_id}/activity/", DASHBOARDS.read)
    async def list_dashboard_activity(self, call: ProjectCall) -> Response:
        """List the changes made to a dashboard, newest first."""
        id = parse_dashboard_id(call)
        await self._dashboards.find(call.project, id, deleted_too=True)
        return await respond_with_activity(call, self._activity, SCOPE, str(id))

    @activity_endpoint("dashboards/activity/", DASHBOARDS.read)
    async def list_dashboards_activity(self, call: ProjectCall) -> Response:
        """List the changes made to all dashboards, newest first."""
        return await respond_with_activity(call, self._activity, SCOPE)

    async def _check(self, call: ProjectCall, body: DashboardBody) -> DashboardEdit:
        edit = body.to_edit()
        if "filters" in edit.fields:
            await self._dashboards.check_filters(call.project, edit.fields["filters"], call.now)
        return edit

    async def _parse_override(self, call: ProjectCall) -> Mapping[str, Any] | None:
        text = call.query_param("filters_override")
        if not text:
            return None
        try:
            filters = jsonio.parse(text.encode("utf-8", "surrogatepass"))
            if filters is None:
                return None
            await self._dashboards.check_filters(call.project, filters, call.now)
        except jsonio.JsonError as error:
            raise Invalid(str(error), attr="filters_override") from None
        except Invalid as error:
            attr = (error.attr or "").replace("filters", "filters_override", 1)
            raise Invalid(error.detail, attr=attr, code=error.code) from None
        return dict(filters)

    async def _respond_with_tiles(
        self,
        call: ProjectCall,
        found: DashboardWithTiles,
        refresh: Refresh,
        override: Mapping[str, Any] | None = None,
        *,
        status: int = 200,
    ) -> Response:
        own = found.dashboard.filters
        filters = own if override is None else override
        results = await call.while_connected(
            fetch_tile_results(self._results, call, found.tiles, filters, refresh)
        )
        shared = await self._links.list_shared(call.project.id, [found.dashboard.id])
        computed = [each.computed_at for each in results.values() if each.kept is not None]
        times = [each for each in computed if each is not None]
        item = DashboardItem(
            **_render_basics(call, found.dashboard, is_shared=bool(shared))
            | {"last_refresh": format_iso(min(times)) if times else None},
            filters=filters,
            persisted_filters=own or None,
            tiles=[
                _render_tile(call, tile, number, results.get(tile.tile.id))
                for number, tile in enumerate(found.tiles)
            ],
        )
        return respond(item, status)


async def fetch_tile_results(
    results: InsightResults,
    call: ProjectCall,
    tiles: Sequence[ShownTile],
    filters: Mapping[str, Any],
    refresh: Refresh,
) -> Mapping[TileId, InsightResult]:
    """Fetch the results of all tiles. Raises Unavailable if there is none, not even an old one,
    because the event store is away."""
    shown = [(tile.tile.id, tile.insight.insight) for tile in tiles if tile.insight is not None]
    queries = [build_runnable(insight, filters) for _, insight in shown]
    found = limit_results(await results.fetch(call.project, queries, refresh))
    errors = [each.error for each in found if each.kept is None]
    if (
        refresh is not Refresh.FORCE_CACHE
        and len(errors) == len(found)
        and errors
        and isinstance(errors[0], Unavailable)
    ):
        raise errors[0]
    return {id: result for (id, _), result in zip(shown, found, strict=True)}


def _render_basics(call: ProjectCall, dashboard: Dashboard, *, is_shared: bool) -> dict[str, Any]:
    return {
        "id": dashboard.id,
        "name": dashboard.name,
        "description": dashboard.description,
        "pinned": dashboard.pinned,
        "created_at": format_iso(dashboard.created_at),
        "created_by": render_user(call, dashboard.created_by),
        "is_shared": is_shared,
        "deleted": dashboard.deleted,
        "creation_mode": dashboard.creation_mode,
        "tags": dashboard.tags,
        "restriction_level": dashboard.restriction_level,
        "team_id": dashboard.project_id,
        "last_modified_at": format_iso(dashboard.last_modified_at),
        "last_modified_by": render_user(call, dashboard.last_modified_by),
    }


def _render_tile(
    call: ProjectCall, shown: ShownTile, order: int, result: InsightResult | None
) -> TileItem:
    tile = shown.tile
    has_result = result is not None and result.kept is not None
    insight = None if shown.insight is None else render_insight(call, shown.insight, result)
    return TileItem(
        id=tile.id,
        order=order,
        layouts=tile.layouts,
        color=tile.color,
        insight=insight,
        text=None if tile.text is None else _render_text(call, shown),
        last_refresh=insight.last_refresh if insight else None,
        is_cached=bool(has_result and result and result.is_cached),
    )


def _render_text(call: ProjectCall, shown: ShownTile) -> TextItem:
    tile = shown.tile
    return TextItem(
        id=tile.id,
        body=tile.text or "",
        created_by=render_user(call, tile.created_by),
        last_modified_by=render_user(call, tile.last_modified_by),
        last_modified_at=format_iso(tile.last_modified_at),
    )
