"""Storage of saved insights, dashboards, annotations and links, in `storage/dashboards/`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.dashboards.model import (
    Annotation,
    AnnotationId,
    AnnotationScope,
    Dashboard,
    DashboardId,
    DashboardWithTiles,
    InsightId,
    InsightWithTiles,
    SavedInsight,
    SharedLink,
    Tile,
    TileId,
)
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId

# The fields that a list of insights can be ordered by.
INSIGHT_ORDERS = ("name", "created_at", "last_modified_at", "updated_at", "id")
LAST_MODIFIED_FIRST = "-last_modified_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightFilter:
    """Which insights to list; None means any. Deleted ones are never listed. `order` is one of
    INSIGHT_ORDERS, with a leading hyphen for descending order. `tags`: those with one of them.
    `query_kind` is the kind of the query, or of the one that a node shows. `dashboard_ids`: those
    that all of them show."""

    search: str = ""
    saved: bool | None = None
    favorited: bool | None = None
    tags: Sequence[str] = ()
    query_kind: str | None = None
    short_id: str | None = None
    created_by: str | None = None
    dashboard_ids: Sequence[DashboardId] = ()
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardFilter:
    """Which dashboards to list; None means any. Deleted ones are never listed."""

    search: str = ""
    pinned: bool | None = None
    created_by: str | None = None
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTile:
    """A tile to add. `insight` is a new insight that it shows."""

    tile: Tile
    insight: SavedInsight | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardWrite:
    """A dashboard to store, with its new, changed and removed tiles. Tiles with another
    `dashboard_id` move there. `insights` are changed ones. `build_entries` gets the stored
    dashboard."""

    dashboard: Dashboard
    new_tiles: Sequence[NewTile] = ()
    changed_tiles: Sequence[Tile] = ()
    removed_tiles: Sequence[TileId] = ()
    insights: Sequence[SavedInsight] = ()
    build_entries: Callable[[Dashboard], Sequence[ActivityEntry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardWriteContext:
    """The stored state that a change is based on. Both functions also find deleted objects."""

    find: Callable[[DashboardId], DashboardWithTiles | None]
    find_insight: Callable[[InsightId], InsightWithTiles | None]
    count: int
    insight_count: int


class DashboardStore(Protocol):
    async def dashboards(
        self, project_id: ProjectId, wanted: DashboardFilter
    ) -> tuple[Sequence[Dashboard], int]:
        """Return one page of dashboards, pinned ones first, and the total number."""
        ...

    async def dashboard(self, project_id: ProjectId, id: DashboardId) -> DashboardWithTiles | None:
        """Return a dashboard, also a deleted one."""
        ...

    async def write_dashboard(
        self,
        project_id: ProjectId,
        decide: Callable[[DashboardWriteContext], DashboardWrite],
        now: datetime,
    ) -> DashboardWithTiles: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDashboards:
    """The insights of a project by short id, with deleted ones, and its dashboards, without."""

    insights: Mapping[str, SavedInsight]
    dashboards: Sequence[DashboardWithTiles]


class DashboardWriter(Protocol):
    def write_insight(self, write: InsightWrite) -> SavedInsight:
        """Store an insight, and return it with its id."""
        ...

    def write_dashboard(self, decide: Callable[[DashboardWriteContext], DashboardWrite]) -> None:
        """Store a dashboard, which can show insights that were stored before."""
        ...


class DashboardDocumentStore(Protocol):
    """Insights and dashboards together."""

    async def load_all(self, project_id: ProjectId) -> StoredDashboards: ...

    async def write_all(
        self,
        project_id: ProjectId,
        work: Callable[[StoredDashboards, DashboardWriter], None],
        now: datetime,
    ) -> None:
        """Let `work` store several objects, all or none, while the project is locked."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationFilter:
    """Which annotations to list; None means any. Deleted ones are never listed."""

    search: str = ""
    scope: AnnotationScope | None = None
    after: datetime | None = None
    before: datetime | None = None
    insight_id: InsightId | None = None
    dashboard_id: DashboardId | None = None
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationWrite:
    annotation: Annotation
    build_entry: Callable[[Annotation], ActivityEntry | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationWriteContext:
    """The stored state that a change is based on. `find` also finds deleted annotations."""

    find: Callable[[AnnotationId], Annotation | None]
    has_insight: Callable[[InsightId], bool]
    has_dashboard: Callable[[DashboardId], bool]
    count: int


class AnnotationStore(Protocol):
    async def annotations(
        self, project_id: ProjectId, wanted: AnnotationFilter
    ) -> tuple[Sequence[Annotation], int]:
        """Return one page of the annotations of the project, and of the organization, newest
        first, and the total number."""
        ...

    async def annotation(self, project_id: ProjectId, id: AnnotationId) -> Annotation | None:
        """Return an annotation, also a deleted one."""
        ...

    async def write_annotation(
        self,
        project_id: ProjectId,
        decide: Callable[[AnnotationWriteContext], AnnotationWrite],
        now: datetime,
    ) -> Annotation: ...


class SharedLinkStore(Protocol):
    async def link(
        self,
        project_id: ProjectId,
        *,
        insight_id: InsightId | None = None,
        dashboard_id: DashboardId | None = None,
    ) -> SharedLink | None:
        """Return the link of one insight or one dashboard."""
        ...

    async def list_shared(
        self, project_id: ProjectId, ids: Collection[DashboardId]
    ) -> frozenset[DashboardId]:
        """Return which of the dashboards have a link that works."""
        ...

    async def find_by_token(self, access_token: str) -> SharedLink | None:
        """Return an enabled link of an object and a project that are not deleted."""
        ...

    async def write_link(self, link: SharedLink, entry: ActivityEntry, now: datetime) -> None:
        """Store the link of an object, in place of the one that it had."""
        ...
