"""Insights and dashboards as code: export them, and apply a document.

    version: 1
    insights:
      - short_id: signups
        name: Sign-ups
        query: {kind: TrendsQuery, series: [{kind: EventsNode, event: signed up}]}
    dashboards:
      - name: Growth
        filters: {date_from: -30d}
        tiles:
          - insight: signups
            layouts: {sm: {x: 0, y: 0, w: 6, h: 5}}
          - text: Numbers without employees.

An insight is identified by its `short_id`, a dashboard by its name, a tile by its insight or its
text. A field that the document leaves out has its default; the tiles of a dashboard are those of
the document. What the document leaves out is not changed, or deleted if the caller prunes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hedgerow.dashboards import saved_insights
from hedgerow.dashboards.as_code_document import (
    VERSION,
    DashboardDocument,
    DashboardSpec,
    InsightSpec,
    build_dashboard_item,
    build_insight_item,
    build_tile_item,
    parse_document,
)
from hedgerow.dashboards.dashboards import (
    SCOPE,
    Author,
    DashboardEdit,
    Dashboards,
    TileEdit,
    audit_fields,
    build_change,
    build_dashboard,
    plan_tiles,
    record_creation,
)
from hedgerow.dashboards.model import (
    MAX_DASHBOARDS,
    Dashboard,
    DashboardWithTiles,
    InsightId,
    SavedInsight,
    ShownTile,
)
from hedgerow.dashboards.saved_insights import SavedInsights, build_insight
from hedgerow.dashboards.store import (
    DashboardDocumentStore,
    DashboardWrite,
    DashboardWriteContext,
    DashboardWriter,
    InsightWrite,
    StoredDashboards,
)
from hedgerow.errors import Conflict, Invalid
from hedgerow.lib import jsonio
from hedgerow.projects.activity import FieldChange, diff_fields
from hedgerow.projects.document import ErrorLocation
from hedgerow.projects.model import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightStep:
    """An insight before and after; `before` is None for a new one."""

    before: SavedInsight | None
    after: SavedInsight
    changes: Sequence[FieldChange]

    @property
    def label(self) -> str:
        return f"insight {self.after.short_id}"

    @property
    def is_deletion(self) -> bool:
        return self.after.deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardStep:
    """A dashboard before, and as the document describes it. It deletes without `spec`."""

    before: DashboardWithTiles | None
    spec: DashboardSpec | None
    changes: Sequence[FieldChange]

    @property
    def label(self) -> str:
        name = self.spec.name if self.spec else self.before and self.before.dashboard.name
        return f"dashboard {name}"

    @property
    def is_deletion(self) -> bool:
        return self.spec is None


Step = InsightStep | DashboardStep


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardPlan:
    """What a document changes in a project. `kept` are the labels of what it leaves out."""

    project: Project
    document: DashboardDocument
    is_pruning: bool
    insights: Sequence[InsightStep]
    dashboards: Sequence[DashboardStep]
    kept: Sequence[str]

    @property
    def steps(self) -> Sequence[Step]:
        return (*self.insights, *self.dashboards)

    def list_changes(self) -> list[Any]:
        return [(each.label, each.changes) for each in self.steps]


class DashboardsAsCode:
    def __init__(
        self, store: DashboardDocumentStore, insights: SavedInsights, dashboards: Dashboards
    ) -> None:
        self._store = store
        self._insights = insights
        self._dashboards = dashboards

    async def export(self, project: Project) -> dict[str, Any]:
        """Return the document of all dashboards, and of all insights that are saved or shown on
        one. Raises Invalid if two dashboards have the same name."""
        stored = await self._store.load_all(project.id)
        _index_dashboards(stored)
        insights = sorted(_list_insights(stored), key=lambda each: each.short_id)
        return {
            "version": VERSION,
            "insights": [build_insight_item(each) for each in insights],
            "dashboards": [
                build_dashboard_item(each)
                for each in sorted(stored.dashboards, key=lambda each: each.dashboard.name)
            ],
        }

    async def plan(
        self, project: Project, document: Any, author: Author, *, prune: bool = False
    ) -> DashboardPlan:
        """Plan the changes that the document requires. Invalid names the path of an error."""
        parsed = parse_document(document)
        for insight in parsed.insights:
            with ErrorLocation(insight.place):
                await self._insights.check_query(project, insight.fields["query"])
        for dashboard in parsed.dashboards:
            with ErrorLocation(dashboard.place):
                filters = dashboard.fields["filters"]
                await self._dashboards.check_filters(project, filters, author.now)
        stored = await self._store.load_all(project.id)
        return _build_plan(project, parsed, stored, author, prune=prune)

    async def apply(self, plan: DashboardPlan, author: Author) -> None:
        """Apply all changes, or none if they are no longer those of the plan."""

        def work(stored: StoredDashboards, writer: DashboardWriter) -> None:
            now = _build_plan(plan.project, plan.document, stored, author, prune=plan.is_pruning)
            if now.list_changes() != plan.list_changes():
                raise Conflict("The dashboards have changed since the plan was made. Plan again.")
            ids = {each.short_id: each.id for each in stored.insights.values()}
            deleted = [each for each in now.insights if each.after.deleted]
            for step in now.insights:
                if not step.after.deleted:
                    ids[step.after.short_id] = _write_insight(step, writer, author)
            for board in now.dashboards:
                writer.write_dashboard(partial(_build_write, plan.project, board, ids, author))
            for step in deleted:
                _write_insight(step, writer, author)

        await self._store.write_all(plan.project.id, work, author.now)


def _list_insights(stored: StoredDashboards) -> list[SavedInsight]:
    shown = {
        tile.insight.insight.short_id
        for each in stored.dashboards
        for tile in each.tiles
        if tile.insight is not None
    }
    return [
        each
        for each in stored.insights.values()
        if not each.deleted and (each.saved or each.short_id in shown)
    ]


def _index_dashboards(stored: StoredDashboards) -> dict[str, DashboardWithTiles]:
    found: dict[str, DashboardWithTiles] = {}
    for each in stored.dashboards:
        name = each.dashboard.name
        if name in found or not name:
            problem = (
                f'Several dashboards are named "{name}"' if name else "A dashboard has no name"
            )
            raise Invalid(
                f"{problem} (id {each.dashboard.id}). A file identifies a dashboard by its name: "
                "rename it first."
            )
        found[name] = each
    return found


def _build_plan(
    project: Project,
    parsed: DashboardDocument,
    stored: StoredDashboards,
    author: Author,
    *,
    prune: bool,
) -> DashboardPlan:
    present = _index_dashboards(stored)
    insights = [
        planned
        for spec in parsed.insights
        if (planned := _plan_insight(project, spec, stored, author)) is not None
    ]
    wanted = {each.short_id for each in parsed.insights}
    _check_tiles(parsed, stored)
    dashboards = [
        step
        for spec in parsed.dashboards
        if (step := _plan_dashboard(spec, present.get(spec.name))) is not None
    ]
    names = {each.name for each in parsed.dashboards}
    rest = [each for each in _list_insights(stored) if each.short_id not in wanted]
    others = [each for name, each in sorted(present.items()) if name not in names]
    kept = [f"insight {each.short_id}" for each in rest]
    kept += [f"dashboard {each.dashboard.name}" for each in others]
    if prune:
        kept = []
        insights += [_plan_deletion(each, author) for each in rest]
        dashboards += [_plan_dashboard_deletion(each) for each in others]
    plan = DashboardPlan(
        project=project,
        document=parsed,
        is_pruning=prune,
        insights=insights,
        dashboards=dashboards,
        kept=kept,
    )
    _check_limits(plan, stored)
    return plan


def _plan_insight(
    project: Project, spec: InsightSpec, stored: StoredDashboards, author: Author
) -> InsightStep | None:
    before = stored.insights.get(spec.short_id)
    start = before or replace(
        build_insight(project, author.actor, author.now), short_id=spec.short_id, saved=True
    )
    after = replace(start, **spec.fields, deleted=False)
    old = {} if before is None else saved_insights.audit_fields(before, ())
    changes = diff_fields(saved_insights.SCOPE, old, saved_insights.audit_fields(after, ()))
    if before is not None and not changes:
        return None
    after = replace(
        after,
        updated_at=author.now,
        last_modified_at=author.now,
        last_modified_by=author.name,
    )
    return InsightStep(before=before, after=after, changes=changes)


def _plan_deletion(insight: SavedInsight, author: Author) -> InsightStep:
    after = replace(insight, deleted=True, updated_at=author.now)
    changes = diff_fields(
        saved_insights.SCOPE,
        saved_insights.audit_fields(insight, ()),
        saved_insights.audit_fields(after, ()),
    )
    return InsightStep(before=insight, after=after, changes=changes)


def _plan_dashboard(spec: DashboardSpec, before: DashboardWithTiles | None) -> DashboardStep | None:
    old: dict[str, Any] = {}
    if before is not None:
        old = {name: audit_fields(before.dashboard)[name] for name in spec.fields}
        old["tiles"] = _sort_tiles([build_tile_item(each) for each in before.tiles])
    new = {**spec.fields, "name": spec.name, "tiles": _sort_tiles(spec.tiles)}
    if before is not None:
        old["name"] = spec.name
    changes = diff_fields(SCOPE, old, new)
    return DashboardStep(before=before, spec=spec, changes=changes) if changes else None


def _plan_dashboard_deletion(before: DashboardWithTiles) -> DashboardStep:
    changes = diff_fields(SCOPE, {"deleted": False}, {"deleted": True})
    return DashboardStep(before=before, spec=None, changes=changes)


def _sort_tiles(tiles: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Sort tiles in any order that does not depend on their ids: their places are in `layouts`."""
    return sorted(tiles, key=jsonio.encode_canonical)


def _check_tiles(parsed: DashboardDocument, stored: StoredDashboards) -> None:
    known = {each.short_id for each in parsed.insights} | {
        id for id, each in stored.insights.items() if not each.deleted
    }
    for dashboard in parsed.dashboards:
        for number, tile in enumerate(dashboard.tiles):
            if "insight" in tile and tile["insight"] not in known:
                raise Invalid(
                    f'There is no insight "{tile["insight"]}" in the file or in the project.',
                    attr=f"{dashboard.place}: tiles[{number}]",
                )


def _check_limits(plan: DashboardPlan, stored: StoredDashboards) -> None:
    live = sum(not each.deleted for each in stored.insights.values())
    added = sum(each.before is None or each.before.deleted for each in plan.insights)
    if added:
        saved_insights.check_number(live + added - 1)
    added = sum(each.before is None for each in plan.dashboards)
    if added and len(stored.dashboards) + added > MAX_DASHBOARDS:
        raise Invalid(f"A project can have at most {MAX_DASHBOARDS} dashboards.")


def _write_insight(step: InsightStep, writer: DashboardWriter, author: Author) -> InsightId:
    activity = "created" if step.before is None else "updated"
    if step.before is not None and step.before.deleted != step.after.deleted:
        activity = "deleted" if step.after.deleted else "restored"

    def build_entry(stored: SavedInsight) -> Any:
        before = {} if step.before is None else saved_insights.audit_fields(step.before, ())
        after = saved_insights.audit_fields(stored, ())
        return saved_insights.build_entry(activity, before, after, stored, author.actor)

    return writer.write_insight(InsightWrite(insight=step.after, build_entry=build_entry)).id


def _build_write(
    project: Project,
    step: DashboardStep,
    ids: Mapping[str, InsightId],
    author: Author,
    context: DashboardWriteContext,
) -> DashboardWrite:
    if step.spec is None:
        assert step.before is not None
        edit = DashboardEdit(fields={"deleted": True, "pinned": False})
        return build_change(step.before, edit, context, author)
    fields = {**step.spec.fields, "name": step.spec.name}
    shown = step.before.tiles if step.before else ()
    edit = DashboardEdit(fields=fields, tiles=_build_tile_edits(step.spec, shown, ids))
    if step.before is not None:
        return build_change(step.before, edit, context, author)
    dashboard: Dashboard = replace(build_dashboard(project, author), **fields)
    new, _, _ = plan_tiles(dashboard, (), edit.tiles, context, author)
    return DashboardWrite(dashboard=dashboard, new_tiles=new, build_entries=record_creation(author))


def _build_tile_edits(
    spec: DashboardSpec, shown: Sequence[ShownTile], ids: Mapping[str, InsightId]
) -> list[TileEdit]:
    """Match the tiles of the document with the present ones, by insight or text."""
    present = list(shown)
    edits = []
    for item in spec.tiles:
        fields = {"layouts": item.get("layouts", {}), "color": item.get("color")}
        match = next((each for each in present if _is_same(each, item)), None)
        if match is not None:
            present.remove(match)
            edits.append(TileEdit(id=match.tile.id, fields=fields))
        elif "insight" in item:
            edits.append(TileEdit(id=None, fields=fields, insight_id=ids[item["insight"]]))
        else:
            edits.append(TileEdit(id=None, fields={**fields, "text": item["text"]}))
    removed = [TileEdit(id=each.tile.id, fields={}, is_removed=True) for each in present]
    return [*removed, *edits]


def _is_same(shown: ShownTile, item: Mapping[str, Any]) -> bool:
    if shown.insight is not None:
        return shown.insight.insight.short_id == item.get("insight")
    return "text" in item and shown.tile.text == item["text"]
