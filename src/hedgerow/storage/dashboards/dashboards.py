"""Dashboards. A dashboard, its tiles and their new insights are stored in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select, update

from hedgerow.dashboards.model import (
    Dashboard,
    DashboardId,
    DashboardWithTiles,
    ShownTile,
    Tile,
    TileId,
)
from hedgerow.dashboards.store import (
    DashboardFilter,
    DashboardStore,
    DashboardWrite,
    DashboardWriteContext,
    NewTile,
)
from hedgerow.projects.model import ProjectId
from hedgerow.storage.dashboards.insights import (
    attach_tiles,
    decode_insight,
    find_insight,
    write_insight_row,
)
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import dashboard_tiles, saved_insights
from hedgerow.storage.tables import dashboards as table


class SqlDashboardStore(DashboardStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def dashboards(
        self, project_id: ProjectId, wanted: DashboardFilter
    ) -> tuple[Sequence[Dashboard], int]:
        page = (
            select(table)
            .where(*_build_conditions(project_id, wanted))
            .order_by(table.c.pinned.desc(), func.lower(table.c.name), table.c.id)
        )

        def read(connection: Connection) -> tuple[list[Dashboard], int]:
            rows, total = read_page(connection, page, limit=wanted.limit, offset=wanted.offset)
            return [Dashboard(**row._mapping) for row in rows], total

        return await self._database.read(read)

    async def dashboard(self, project_id: ProjectId, id: DashboardId) -> DashboardWithTiles | None:
        return await self._database.read(
            lambda connection: find_dashboard(connection, project_id, id)
        )

    async def write_dashboard(
        self,
        project_id: ProjectId,
        decide: Callable[[DashboardWriteContext], DashboardWrite],
        now: datetime,
    ) -> DashboardWithTiles:
        def change(connection: Connection) -> DashboardWithTiles:
            lock_project(connection, project_id)
            id = write_dashboard(connection, project_id, decide, now)
            found = find_dashboard(connection, project_id, id)
            assert found is not None
            return found

        return await self._database.write(change)


def write_dashboard(
    connection: Connection,
    project_id: ProjectId,
    decide: Callable[[DashboardWriteContext], DashboardWrite],
    now: datetime,
) -> DashboardId:
    """Store a dashboard, its tiles and its entries in the audit trail."""
    write = decide(_read_context(connection, project_id))
    dashboard = _write_dashboard(connection, write)
    for entry in write.build_entries(dashboard):
        activity.record(connection, entry, now)
    return dashboard.id


def _build_conditions(project_id: ProjectId, wanted: DashboardFilter) -> list[ColumnElement[bool]]:
    found = [table.c.project_id == project_id, table.c.deleted.is_(False)]
    if wanted.search:
        needle = wanted.search.lower()
        texts = (table.c.name, table.c.description)
        matches = [func.lower(text).contains(needle, autoescape=True) for text in texts]
        found.append(matches[0] | matches[1])
    if wanted.pinned is not None:
        found.append(table.c.pinned.is_(wanted.pinned))
    if wanted.created_by is not None:
        found.append(table.c.created_by == wanted.created_by)
    return found


def _read_context(connection: Connection, project_id: ProjectId) -> DashboardWriteContext:
    return DashboardWriteContext(
        find=lambda id: find_dashboard(connection, project_id, id),
        find_insight=lambda id: find_insight(connection, project_id, saved_insights.c.id == id),
        count=_count(connection, table, project_id),
        insight_count=_count(connection, saved_insights, project_id),
    )


def _count(connection: Connection, of: Table, project_id: ProjectId) -> int:
    live = (of.c.project_id == project_id) & of.c.deleted.is_(False)
    return connection.execute(select(func.count()).select_from(of).where(live)).scalar_one()


def _write_dashboard(connection: Connection, write: DashboardWrite) -> Dashboard:
    dashboard = write.dashboard
    values = _build_row(dashboard)
    if dashboard.id:
        connection.execute(update(table).where(table.c.id == dashboard.id).values(values))
    else:
        id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
        dashboard = replace(dashboard, id=DashboardId(id))
    for insight in write.insights:
        write_insight_row(connection, insight)
    tiles = dashboard_tiles
    if write.removed_tiles:
        connection.execute(delete(tiles).where(tiles.c.id.in_(write.removed_tiles)))
    for tile in write.changed_tiles:
        connection.execute(update(tiles).where(tiles.c.id == tile.id).values(_build_row(tile)))
    for new in write.new_tiles:
        _add_tile(connection, dashboard.id, new)
    return dashboard


def _add_tile(connection: Connection, dashboard_id: DashboardId, new: NewTile) -> None:
    tile = replace(new.tile, dashboard_id=dashboard_id)
    if new.insight is not None:
        tile = replace(tile, insight_id=write_insight_row(connection, new.insight).id)
    connection.execute(insert(dashboard_tiles), _build_row(tile))


def _build_row(of: Dashboard | Tile) -> dict[str, Any]:
    values = asdict(of)
    del values["id"]
    for name, value in values.items():
        if isinstance(value, Mapping):
            values[name] = dict(value)
        elif isinstance(value, tuple):
            values[name] = list(value)
    return values


def find_dashboard(
    connection: Connection, project_id: ProjectId, id: DashboardId
) -> DashboardWithTiles | None:
    own = select(table).where((table.c.project_id == project_id) & (table.c.id == id))
    row = connection.execute(own).one_or_none()
    if row is None:
        return None
    return DashboardWithTiles(
        dashboard=Dashboard(**row._mapping), tiles=_read_tiles(connection, project_id, id)
    )


def _read_tiles(
    connection: Connection, project_id: ProjectId, id: DashboardId
) -> Sequence[ShownTile]:
    of = dashboard_tiles
    own = (of.c.project_id == project_id) & (of.c.dashboard_id == id)
    found = [Tile(**row._mapping) for row in connection.execute(select(of).where(own))]
    ids = [tile.insight_id for tile in found if tile.insight_id is not None]
    shown = saved_insights.c.id.in_(ids) & saved_insights.c.deleted.is_(False)
    rows = connection.execute(select(saved_insights).where(shown)) if ids else ()
    insights = {
        each.insight.id: each
        for each in attach_tiles(connection, [decode_insight(row) for row in rows])
    }
    return [
        ShownTile(tile=tile, insight=None if tile.insight_id is None else insights[tile.insight_id])
        for tile in sorted(found, key=_get_place)
        if tile.insight_id is None or tile.insight_id in insights
    ]


def _get_place(tile: Tile) -> tuple[bool, float, float, TileId]:
    """From top to bottom, and tiles without a place last."""
    place = tile.layouts.get("sm")
    if not isinstance(place, dict):
        return True, 0.0, 0.0, tile.id
    return False, _read_number(place, "y"), _read_number(place, "x"), tile.id


def _read_number(place: Mapping[str, Any], name: str) -> float:
    value = place.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
