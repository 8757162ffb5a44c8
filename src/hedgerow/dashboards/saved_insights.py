"""Operations on saved insights: create, change, delete, restore."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from hedgerow.dashboards.model import (
    MAX_INSIGHTS,
    MAX_TILES,
    DashboardId,
    InsightId,
    InsightWithTiles,
    SavedInsight,
)
from hedgerow.dashboards.results import InsightResults
from hedgerow.dashboards.saved_query import apply_filters, locate_error, parse_node
from hedgerow.dashboards.store import (
    InsightFilter,
    InsightStore,
    InsightWrite,
    InsightWriteContext,
)
from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.flags import describe_actor
from hedgerow.lib import jsonio
from hedgerow.lib.tokens import BASE62
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project
from hedgerow.projects.validation import check_storable

SCOPE = "Insight"
SHORT_ID_CHARS = 8
MAX_QUERY_BYTES = 128 << 10
# Fields whose change does not make another insight of it.
_UNMODIFYING = {"favorited"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightEdit:
    """A change of an insight. `fields` are validated fields of SavedInsight, except for the query.
    `dashboards` are all that shall show it, None for no change."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    dashboards: Sequence[DashboardId] | None = None


class SavedInsights:
    def __init__(self, store: InsightStore, results: InsightResults) -> None:
        self._store = store
        self._results = results

    async def list_insights(
        self, project: Project, wanted: InsightFilter
    ) -> tuple[Sequence[InsightWithTiles], int]:
        return await self._store.insights(project.id, wanted)

    async def find(
        self, project: Project, id: str, *, deleted_too: bool = False
    ) -> InsightWithTiles:
        """Find an insight by its id or short id."""
        found = await self._find(project, id)
        if found is None or (found.insight.deleted and not deleted_too):
            raise NotFound
        return found

    async def _find(self, project: Project, id: str) -> InsightWithTiles | None:
        if "\x00" in id or not id.isascii():
            return None
        found = None
        if id.isdecimal() and len(id) <= 18:
            found = await self._store.insight(project.id, InsightId(int(id)))
        return found or await self._store.find_by_short_id(project.id, id)

    async def create(
        self, project: Project, edit: InsightEdit, actor: Actor, now: datetime
    ) -> InsightWithTiles:
        await self.check_query(project, edit.fields.get("query"))
        new = replace(build_insight(project, actor, now), **edit.fields)

        def decide(context: InsightWriteContext) -> InsightWrite:
            check_number(context.count)
            _check_dashboards(edit.dashboards or (), (), context)
            return InsightWrite(
                insight=new,
                dashboards=edit.dashboards,
                build_entry=lambda stored: build_entry(
                    "created", {}, audit_fields(stored, edit.dashboards or ()), stored, actor
                ),
            )

        return await self._store.write_insight(project.id, decide, now)

    async def change(
        self, project: Project, id: InsightId, edit: InsightEdit, actor: Actor, now: datetime
    ) -> InsightWithTiles:
        if "query" in edit.fields:
            await self.check_query(project, edit.fields["query"])

        def decide(context: InsightWriteContext) -> InsightWrite:
            found = context.find(id)
            if found is None:
                raise NotFound
            return _build_change(found, edit, context, actor, now)

        return await self._store.write_insight(project.id, decide, now)

    async def check_query(self, project: Project, query: Any) -> None:
        """Raise Invalid for a query that cannot be run."""
        if not isinstance(query, dict) or not query:
            detail = "Expected a query such as a TrendsQuery, or a node that shows one."
            raise Invalid(detail, attr="query", code="required")
        check_storable(query, "query")
        if len(jsonio.encode(query)) > MAX_QUERY_BYTES:
            raise Invalid(f"A query has at most {MAX_QUERY_BYTES} bytes.", attr="query")
        source = parse_node(query)
        try:
            await self._results.validate(project, source)
        except Invalid as error:
            raise locate_error(error, query) from None


def build_runnable(insight: SavedInsight, filters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the query to run for an insight, on a dashboard with these filters."""
    return apply_filters(parse_node(insight.query), filters)


def generate_short_id() -> str:
    return "".join(secrets.choice(BASE62) for _ in range(SHORT_ID_CHARS))


def build_insight(project: Project, actor: Actor, now: datetime) -> SavedInsight:
    return SavedInsight(
        id=InsightId(0),
        project_id=project.id,
        short_id=generate_short_id(),
        name="",
        derived_name="",
        description="",
        query={},
        favorited=False,
        saved=False,
        tags=(),
        deleted=False,
        created_by=describe_actor(actor),
        created_at=now,
        last_modified_by=describe_actor(actor),
        last_modified_at=now,
        updated_at=now,
    )


def check_number(count: int) -> None:
    if count >= MAX_INSIGHTS:
        raise Invalid(f"A project can have at most {MAX_INSIGHTS} insights.")


def _check_dashboards(
    wanted: Sequence[DashboardId], before: Sequence[DashboardId], context: InsightWriteContext
) -> None:
    for id in wanted:
        if id not in context.dashboards:
            detail = f'Invalid pk "{id}" - object does not exist.'
            raise Invalid(detail, attr="dashboards", code="does_not_exist")
        if id not in before and context.dashboards[id] >= MAX_TILES:
            raise Invalid(f"A dashboard can have at most {MAX_TILES} tiles.", attr="dashboards")


def _build_change(
    found: InsightWithTiles,
    edit: InsightEdit,
    context: InsightWriteContext,
    actor: Actor,
    now: datetime,
) -> InsightWrite:
    before, shown = found.insight, [tile.dashboard_id for tile in found.tiles]
    after = replace(before, **edit.fields)
    wanted = shown if edit.dashboards is None else list(edit.dashboards)
    _check_dashboards(wanted, shown, context)
    activity = "updated"
    if after.deleted != before.deleted:
        activity = "deleted" if after.deleted else "restored"
        if not after.deleted:
            check_number(context.count)
    entry = build_entry(
        activity, audit_fields(before, shown), audit_fields(after, wanted), after, actor
    )
    changed = {change.field for change in entry.changes}
    if changed or after.saved != before.saved:
        after = replace(after, updated_at=now)
    if changed - _UNMODIFYING:
        after = replace(after, last_modified_at=now, last_modified_by=describe_actor(actor))
    return InsightWrite(
        insight=after,
        dashboards=edit.dashboards,
        build_entry=lambda _: entry if entry.changes else None,
    )


def build_entry(
    activity: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    insight: SavedInsight,
    actor: Actor,
) -> ActivityEntry:
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(insight.id),
        item_name=insight.name or insight.derived_name,
        activity=activity,
        actor=actor,
        project_id=insight.project_id,
        changes=diff_fields(SCOPE, before, after),
        detail={"short_id": insight.short_id},
    )


def audit_fields(insight: SavedInsight, shown: Sequence[DashboardId]) -> Mapping[str, Any]:
    return {
        "name": insight.name,
        "derived_name": insight.derived_name,
        "description": insight.description,
        "query": insight.query,
        "favorited": insight.favorited,
        "tags": list(insight.tags),
        "deleted": insight.deleted,
        "dashboards": sorted(shown),
    }
