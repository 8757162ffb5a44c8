"""Storage of saved insights and dashboards, implemented in `storage/dashboards/`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.dashboards.model import (
    DashboardId,
    InsightId,
    InsightWithTiles,
    SavedInsight,
)
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId

# The fields that a list of insights can be ordered by.
INSIGHT_ORDERS = ("name", "created_at", "last_modified_at", "updated_at", "id")
LAST_MODIFIED_FIRST = "-last_modified_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightFilter:
    """Which insights to list; None means any. Deleted ones are never listed. `order` is one of
    INSIGHT_ORDERS, with a leading hyphen for descending order."""

    search: str = ""
    saved: bool | None = None
    favorited: bool | None = None
    short_id: str | None = None
    created_by: str | None = None
    dashboard_id: DashboardId | None = None
    order: str = LAST_MODIFIED_FIRST
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightWrite:
    """An insight to store. `dashboards` are all that shall show it, None for no change.
    `build_entry` gets the stored insight; None for a change that is not recorded."""

    insight: SavedInsight
    dashboards: Sequence[DashboardId] | None = None
    build_entry: Callable[[SavedInsight], ActivityEntry | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightWriteContext:
    """The stored state that a change is based on. `find` also finds deleted insights.
    `dashboards` are the ids of those that are not deleted, with the number of their tiles."""

    find: Callable[[InsightId], InsightWithTiles | None]
    count: int
    dashboards: Mapping[DashboardId, int]


class InsightStore(Protocol):
    async def insights(
        self, project_id: ProjectId, wanted: InsightFilter
    ) -> tuple[Sequence[InsightWithTiles], int]:
        """Return one page of insights, and the total number."""
        ...

    async def insight(self, project_id: ProjectId, id: InsightId) -> InsightWithTiles | None:
        """Return an insight, also a deleted one."""
        ...

    async def find_by_short_id(
        self, project_id: ProjectId, short_id: str
    ) -> InsightWithTiles | None:
        """Return an insight, also a deleted one."""
        ...

    async def write_insight(
        self,
        project_id: ProjectId,
        decide: Callable[[InsightWriteContext], InsightWrite],
        now: datetime,
    ) -> InsightWithTiles: ...
