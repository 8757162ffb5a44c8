"""Links that show one insight or one dashboard without a key. A link is revoked at once by
disabling it, or by a new token."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.dashboards import dashboards, saved_insights
from hedgerow.dashboards.model import Dashboard, DashboardId, InsightId, SavedInsight, SharedLink
from hedgerow.dashboards.store import SharedLinkStore
from hedgerow.errors import NotFound
from hedgerow.lib.tokens import generate_token
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project

TOKEN_BITS = 180
MAX_TOKEN_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedObject:
    """The insight or the dashboard that a link shows."""

    insight: SavedInsight | None = None
    dashboard: Dashboard | None = None

    @property
    def ids(self) -> tuple[InsightId | None, DashboardId | None]:
        return (
            self.insight.id if self.insight else None,
            self.dashboard.id if self.dashboard else None,
        )


class Sharing:
    def __init__(self, store: SharedLinkStore) -> None:
        self._store = store

    async def find(self, project: Project, of: SharedObject, now: datetime) -> SharedLink:
        """Return the link of an object: one that does not work yet if it was never shared."""
        insight_id, dashboard_id = of.ids
        found = await self._store.link(project.id, insight_id=insight_id, dashboard_id=dashboard_id)
        return found or SharedLink(
            project_id=project.id,
            insight_id=insight_id,
            dashboard_id=dashboard_id,
            access_token="",
            enabled=False,
            settings={},
            created_at=now,
        )

    async def change(
        self,
        project: Project,
        of: SharedObject,
        fields: Mapping[str, Any],
        actor: Actor,
        now: datetime,
    ) -> SharedLink:
        """Enable or disable a link. `fields` are validated fields of SharedLink."""
        before = await self.find(project, of, now)
        after = replace(before, **fields)
        if not after.access_token and after != before:
            after = replace(after, access_token=_generate_token())
        if after == before:
            return before
        return await self._write(before, after, of, actor, now)

    async def replace_token(
        self, project: Project, of: SharedObject, actor: Actor, now: datetime
    ) -> SharedLink:
        """Give the object another link. The one that it had stops working."""
        before = await self.find(project, of, now)
        after = replace(before, access_token=_generate_token(), created_at=now)
        return await self._write(before, after, of, actor, now)

    async def resolve(self, access_token: str) -> SharedLink:
        """Return the link with this token, if it works."""
        is_possible = access_token.isascii() and access_token.isalnum()
        if not is_possible or len(access_token) > MAX_TOKEN_CHARS:
            raise NotFound
        found = await self._store.find_by_token(access_token)
        if found is None:
            raise NotFound
        return found

    async def _write(
        self,
        before: SharedLink,
        after: SharedLink,
        of: SharedObject,
        actor: Actor,
        now: datetime,
    ) -> SharedLink:
        entry = _build_entry(before, after, of, actor)
        await self._store.write_link(after, entry, now)
        return after


def _generate_token() -> str:
    return generate_token("", TOKEN_BITS)


def _build_entry(
    before: SharedLink, after: SharedLink, of: SharedObject, actor: Actor
) -> ActivityEntry:
    activity = "updated"
    if after.enabled != before.enabled:
        activity = "sharing enabled" if after.enabled else "sharing disabled"
    elif after.access_token != before.access_token:
        activity = "access token refreshed"
    scope = saved_insights.SCOPE if of.insight else dashboards.SCOPE
    named = of.insight or of.dashboard
    assert named is not None
    return ActivityEntry(
        scope=scope,
        item_id=str(named.id),
        item_name=named.name,
        activity=activity,
        actor=actor,
        project_id=after.project_id,
        changes=diff_fields(
            scope,
            {"enabled": before.enabled, "access_token": before.access_token},
            {"enabled": after.enabled, "access_token": after.access_token},
            secret=frozenset({"access_token"}),
        ),
    )
