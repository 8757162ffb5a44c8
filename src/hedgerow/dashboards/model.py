"""Saved insights, dashboards, annotations and shared links."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

from hedgerow.projects.model import ProjectId

InsightId = NewType("InsightId", int)
DashboardId = NewType("DashboardId", int)
TileId = NewType("TileId", int)
AnnotationId = NewType("AnnotationId", int)

MAX_INSIGHTS = 10_000
MAX_DASHBOARDS = 2_000
MAX_TILES = 200
MAX_ANNOTATIONS = 100_000
NAME_MAX_CHARS = 400
DESCRIPTION_MAX_CHARS = 10_000
TILE_TEXT_MAX_CHARS = 4_000
TAG_MAX_CHARS = 255
MAX_TAGS = 100
MAX_LAYOUTS_BYTES = 4 << 10
# The levels of PostHog's `restriction_level`.
EVERYONE_CAN_EDIT = 21
ONLY_COLLABORATORS_CAN_EDIT = 37


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedInsight:
    """A query with a name. A new one has the id 0. `query` is as it was sent: a query kind, or a
    node such as InsightVizNode whose `source` is one."""

    id: InsightId
    project_id: ProjectId
    short_id: str
    name: str
    derived_name: str
    description: str
    query: Mapping[str, Any]
    favorited: bool
    saved: bool
    tags: Sequence[str]
    deleted: bool
    created_by: str
    created_at: datetime
    last_modified_by: str
    last_modified_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightTile:
    """A tile that shows an insight, seen from the insight."""

    id: TileId
    dashboard_id: DashboardId


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightWithTiles:
    """An insight, and the tiles that show it on dashboards that are not deleted."""

    insight: SavedInsight
    tiles: Sequence[InsightTile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A new one has the id 0. `filters` replace or narrow those of its insights."""

    id: DashboardId
    project_id: ProjectId
    name: str
    description: str
    pinned: bool
    deleted: bool
    tags: Sequence[str]
    filters: Mapping[str, Any]
    restriction_level: int
    creation_mode: str
    created_by: str
    created_at: datetime
    last_modified_by: str
    last_modified_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """An insight or a text on a dashboard. A new one has the id 0. `layouts` is the place on a
    screen of each size: {"sm": {"x": 0, "y": 0, "w": 6, "h": 5}}."""

    id: TileId
    project_id: ProjectId
    dashboard_id: DashboardId
    insight_id: InsightId | None
    text: str | None
    layouts: Mapping[str, Any]
    color: str | None
    created_by: str
    last_modified_by: str
    last_modified_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTile:
    """A tile with the insight that it shows."""

    tile: Tile
    insight: InsightWithTiles | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardWithTiles:
    """A dashboard and its tiles, in the order of their places, without deleted insights."""

    dashboard: Dashboard
    tiles: Sequence[ShownTile]


class AnnotationScope(StrEnum):
    """Where an annotation is shown."""

    INSIGHT = "dashboard_item"
    DASHBOARD = "dashboard"
    PROJECT = "project"
    ORGANIZATION = "organization"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A note at a point in time. A new one has the id 0."""

    id: AnnotationId
    project_id: ProjectId
    content: str
    date_marker: datetime | None
    scope: AnnotationScope
    creation_type: str
    insight_id: InsightId | None
    dashboard_id: DashboardId | None
    deleted: bool
    created_by: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLink:
    """A link that shows one insight or one dashboard to anyone who has it."""

    project_id: ProjectId
    insight_id: InsightId | None
    dashboard_id: DashboardId | None
    access_token: str
    enabled: bool
    settings: Mapping[str, Any]
    created_at: datetime
