"""Operations on dashboards and their tiles: create, change, copy, move, delete."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from hedgerow.dashboards import saved_insights
from hedgerow.dashboards.model import (
    EVERYONE_CAN_EDIT,
    MAX_DASHBOARDS,
    MAX_TILES,
    Dashboard,
    DashboardId,
    DashboardWithTiles,
    InsightId,
    SavedInsight,
    ShownTile,
    Tile,
    TileId,
)
from hedgerow.dashboards.results import InsightResults
from hedgerow.dashboards.saved_query import FILTERS, apply_filters
from hedgerow.dashboards.store import (
    DashboardFilter,
    DashboardStore,
    DashboardWrite,
    DashboardWriteContext,
    NewTile,
)
from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.flags import describe_actor
from hedgerow.lib import jsonio
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project
from hedgerow.projects.validation import (
    check_known_fields,
    check_storable,
    parse_date_parameter,
)

SCOPE = "Dashboard"
MAX_FILTERS_BYTES = 64 << 10
# A query that can have every filter of a dashboard.
_PROBE = {"kind": "TrendsQuery", "series": [{"kind": "EventsNode", "event": "a"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class TileEdit:
    """A change of a tile, or a new one without `id`: then with `insight_id` or `text`. `fields`
    are validated fields of Tile."""

    id: TileId | None
    fields: Mapping[str, Any]
    insight_id: InsightId | None = None
    is_removed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardEdit:
    """A change of a dashboard. `fields` are validated fields of Dashboard. `deletes_insights`
    also deletes the insights that no other dashboard shows."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    tiles: Sequence[TileEdit] = ()
    deletes_insights: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who changes something, and when."""

    actor: Actor
    now: datetime

    @property
    def name(self) -> str:
        return describe_actor(self.actor)


class Dashboards:
    def __init__(self, store: DashboardStore, results: InsightResults) -> None:
        self._store = store
        self._results = results

    async def list_dashboards(
        self, project: Project, wanted: DashboardFilter
    ) -> tuple[Sequence[Dashboard], int]:
        return await self._store.dashboards(project.id, wanted)

    async def find(
        self, project: Project, id: DashboardId, *, deleted_too: bool = False
    ) -> DashboardWithTiles:
        found = await self._store.dashboard(project.id, id)
        if found is None or (found.dashboard.deleted and not deleted_too):
            raise NotFound
        return found

    async def check_filters(self, project: Project, filters: Any, now: datetime) -> None:
        """Raise Invalid for filters that no insight could have."""
        if not isinstance(filters, dict):
            raise Invalid("Expected an object such as {date_from, properties}.", attr="filters")
        check_storable(filters, "filters")
        check_known_fields(filters, FILTERS, "filters")
        if len(jsonio.encode(filters)) > MAX_FILTERS_BYTES:
            raise Invalid(f"Filters have at most {MAX_FILTERS_BYTES} bytes.", attr="filters")
        for name in ("date_from", "date_to"):
            text = filters.get(name)
            if text is not None and not isinstance(text, str):
                raise Invalid("Not a valid string.", attr=f"filters.{name}")
            if text and text != "all":
                parse_date_parameter(text, now, ZoneInfo(project.timezone), f"filters.{name}")
        if not isinstance(filters.get("properties") or [], list):
            raise Invalid("Expected a list of property filters.", attr="filters.properties")
        try:
            await self._results.validate(project, apply_filters(_PROBE, filters))
        except Invalid as error:
            place = (error.attr or "").replace("query__", "filters.", 1)
            raise Invalid(error.detail, attr=place or "filters", code=error.code) from None

    async def create(
        self, project: Project, edit: DashboardEdit, author: Author
    ) -> DashboardWithTiles:
        def decide(context: DashboardWriteContext) -> DashboardWrite:
            _check_number(context)
            dashboard = replace(build_dashboard(project, author), **edit.fields)
            new, _, _ = plan_tiles(dashboard, (), edit.tiles, context, author)
            return DashboardWrite(
                dashboard=dashboard, new_tiles=new, build_entries=record_creation(author)
            )

        return await self._store.write_dashboard(project.id, decide, author.now)

    async def copy(
        self,
        project: Project,
        id: DashboardId,
        edit: DashboardEdit,
        author: Author,
        *,
        copies_insights: bool,
    ) -> DashboardWithTiles:
        """Create a dashboard with the tiles of another one, of the same insights or of copies."""

        def decide(context: DashboardWriteContext) -> DashboardWrite:
            _check_number(context)
            found = context.find(id)
            if found is None or found.dashboard.deleted:
                detail = "Dashboard not found."
                raise Invalid(detail, attr="use_dashboard", code="does_not_exist")
            dashboard = replace(
                build_dashboard(project, author),
                **{
                    "description": found.dashboard.description,
                    "filters": found.dashboard.filters,
                    "tags": found.dashboard.tags,
                    "creation_mode": "duplicate",
                    **edit.fields,
                },
            )
            tiles = [
                _copy_tile(each, author, copies_insights=copies_insights) for each in found.tiles
            ]
            number = sum(each.insight is not None for each in tiles)
            saved_insights.check_number(context.insight_count + number - 1)
            return DashboardWrite(
                dashboard=dashboard, new_tiles=tiles, build_entries=record_creation(author)
            )

        return await self._store.write_dashboard(project.id, decide, author.now)

    async def change(
        self, project: Project, id: DashboardId, edit: DashboardEdit, author: Author
    ) -> DashboardWithTiles:
        def decide(context: DashboardWriteContext) -> DashboardWrite:
            found = context.find(id)
            if found is None:
                raise NotFound
            return build_change(found, edit, context, author)

        return await self._store.write_dashboard(project.id, decide, author.now)

    async def move_tile(
        self, project: Project, id: DashboardId, tile_id: TileId, to: DashboardId, author: Author
    ) -> DashboardWithTiles:
        """Move a tile to another dashboard, and return the one that it leaves."""

        def decide(context: DashboardWriteContext) -> DashboardWrite:
            found, target = context.find(id), context.find(to)
            if found is None:
                raise NotFound
            if target is None or target.dashboard.deleted:
                raise Invalid("Dashboard not found.", attr="toDashboard", code="does_not_exist")
            tile = _find_tile(found.tiles, tile_id, "tile")
            _check_move(tile, target)
            return DashboardWrite(
                dashboard=found.dashboard,
                changed_tiles=[replace(tile, dashboard_id=to)],
                build_entries=lambda stored: [
                    _build_tiles_entry(stored, author, {"tile_moved_to": to}),
                    _build_tiles_entry(target.dashboard, author, {"tile_moved_from": id}),
                ],
            )

        return await self._store.write_dashboard(project.id, decide, author.now)


def _check_number(context: DashboardWriteContext) -> None:
    if context.count >= MAX_DASHBOARDS:
        raise Invalid(f"A project can have at most {MAX_DASHBOARDS} dashboards.")


def build_dashboard(project: Project, author: Author) -> Dashboard:
    return Dashboard(
        id=DashboardId(0),
        project_id=project.id,
        name="",
        description="",
        pinned=False,
        deleted=False,
        tags=(),
        filters={},
        restriction_level=EVERYONE_CAN_EDIT,
        creation_mode="default",
        created_by=author.name,
        created_at=author.now,
        last_modified_by=author.name,
        last_modified_at=author.now,
    )


def _build_tile(dashboard: Dashboard, author: Author) -> Tile:
    return Tile(
        id=TileId(0),
        project_id=dashboard.project_id,
        dashboard_id=dashboard.id,
        insight_id=None,
        text=None,
        layouts={},
        color=None,
        created_by=author.name,
        last_modified_by=author.name,
        last_modified_at=author.now,
    )


def _copy_tile(shown: ShownTile, author: Author, *, copies_insights: bool) -> NewTile:
    tile = replace(
        shown.tile, id=TileId(0), last_modified_by=author.name, last_modified_at=author.now
    )
    if shown.insight is None or not copies_insights:
        return NewTile(tile=tile)
    before = shown.insight.insight
    copied = replace(
        before,
        id=InsightId(0),
        short_id=saved_insights.generate_short_id(),
        name=f"{before.name} (Copy)" if before.name else "",
        favorited=False,
        created_by=author.name,
        created_at=author.now,
        last_modified_by=author.name,
        last_modified_at=author.now,
        updated_at=author.now,
    )
    return NewTile(tile=tile, insight=copied)


def build_change(
    found: DashboardWithTiles, edit: DashboardEdit, context: DashboardWriteContext, author: Author
) -> DashboardWrite:
    before = found.dashboard
    after = replace(before, **edit.fields)
    if before.deleted and not after.deleted:
        _check_number(context)
    new, changed, removed = plan_tiles(after, found.tiles, edit.tiles, context, author)
    changes = diff_fields(SCOPE, audit_fields(before), audit_fields(after))
    gone = _list_deleted_insights(found, author) if edit.deletes_insights else []
    if changes or new or changed or removed:
        after = replace(after, last_modified_by=author.name, last_modified_at=author.now)
    numbers = {
        "tiles_added": len(new),
        "tiles_changed": len(changed),
        "tiles_removed": len(removed),
    }
    detail = {name: number for name, number in numbers.items() if number}
    activity = "updated"
    if after.deleted != before.deleted:
        activity = "deleted" if after.deleted else "restored"

    def build_entries(stored: Dashboard) -> list[ActivityEntry]:
        entries = [_build_insight_deletion(each, author) for each in gone]
        if changes or detail:
            entries.append(
                replace(_build_entry(activity, stored, author), changes=changes, detail=detail)
            )
        return entries

    return DashboardWrite(
        dashboard=after,
        new_tiles=new,
        changed_tiles=changed,
        removed_tiles=removed,
        insights=gone,
        build_entries=build_entries,
    )


def _list_deleted_insights(found: DashboardWithTiles, author: Author) -> list[SavedInsight]:
    """Return the insights that only this dashboard shows, marked as deleted."""
    return [
        replace(each.insight.insight, deleted=True, updated_at=author.now)
        for each in found.tiles
        if each.insight is not None
        and all(tile.dashboard_id == found.dashboard.id for tile in each.insight.tiles)
    ]


def _build_insight_deletion(insight: SavedInsight, author: Author) -> ActivityEntry:
    before = {"deleted": False}
    return saved_insights.build_entry("deleted", before, {"deleted": True}, insight, author.actor)


def plan_tiles(
    dashboard: Dashboard,
    shown: Sequence[ShownTile],
    edits: Sequence[TileEdit],
    context: DashboardWriteContext,
    author: Author,
) -> tuple[list[NewTile], list[Tile], list[TileId]]:
    """Return the tiles to add, to change and to remove."""
    new: list[NewTile] = []
    changed: list[Tile] = []
    removed: list[TileId] = []
    present = {each.tile.insight_id for each in shown if each.tile.insight_id is not None}
    for number, edit in enumerate(edits):
        attr = f"tiles__{number}"
        if edit.id is None:
            tile = replace(_build_tile(dashboard, author), **edit.fields)
            if edit.insight_id is not None:
                _check_insight(edit.insight_id, present, context, attr)
                present.add(edit.insight_id)
                tile = replace(tile, insight_id=edit.insight_id)
            new.append(NewTile(tile=tile))
            continue
        before = _find_tile(shown, edit.id, f"{attr}__id")
        if edit.is_removed:
            removed.append(edit.id)
        elif (after := replace(before, **edit.fields)) != before:
            if before.insight_id is not None and after.text is not None:
                detail = "This tile shows an insight. Add another tile for the text."
                raise Invalid(detail, attr=f"{attr}__text")
            changed.append(
                replace(after, last_modified_by=author.name, last_modified_at=author.now)
            )
    if len(shown) + len(new) - len(removed) > MAX_TILES:
        raise Invalid(f"A dashboard can have at most {MAX_TILES} tiles.", attr="tiles")
    return new, changed, removed


def _check_insight(
    id: InsightId, present: set[InsightId], context: DashboardWriteContext, attr: str
) -> None:
    found = context.find_insight(id)
    if found is None or found.insight.deleted:
        detail = f'Invalid pk "{id}" - object does not exist.'
        raise Invalid(detail, attr=f"{attr}__insight", code="does_not_exist")
    if id in present:
        detail = "The dashboard already shows this insight."
        raise Invalid(detail, attr=f"{attr}__insight", code="unique")


def _find_tile(shown: Sequence[ShownTile], id: TileId, attr: str) -> Tile:
    for each in shown:
        if each.tile.id == id:
            return each.tile
    raise Invalid("The dashboard has no such tile.", attr=attr, code="does_not_exist")


def _check_move(tile: Tile, target: DashboardWithTiles) -> None:
    if len(target.tiles) >= MAX_TILES:
        raise Invalid(f"A dashboard can have at most {MAX_TILES} tiles.", attr="toDashboard")
    others = {each.tile.insight_id for each in target.tiles}
    if tile.insight_id is not None and tile.insight_id in others:
        detail = "The dashboard already shows this insight."
        raise Invalid(detail, attr="toDashboard", code="unique")


def record_creation(author: Author) -> Callable[[Dashboard], Sequence[ActivityEntry]]:
    def build(stored: Dashboard) -> Sequence[ActivityEntry]:
        entry = _build_entry("created", stored, author)
        return [replace(entry, changes=diff_fields(SCOPE, {}, audit_fields(stored)))]

    return build


def _build_tiles_entry(
    dashboard: Dashboard, author: Author, detail: Mapping[str, Any]
) -> ActivityEntry:
    return replace(_build_entry("updated", dashboard, author), detail=detail)


def _build_entry(activity: str, dashboard: Dashboard, author: Author) -> ActivityEntry:
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(dashboard.id),
        item_name=dashboard.name,
        activity=activity,
        actor=author.actor,
        project_id=dashboard.project_id,
    )


def audit_fields(dashboard: Dashboard) -> Mapping[str, Any]:
    return {
        "name": dashboard.name,
        "description": dashboard.description,
        "pinned": dashboard.pinned,
        "tags": list(dashboard.tags),
        "filters": dashboard.filters,
        "restriction_level": dashboard.restriction_level,
        "deleted": dashboard.deleted,
    }
