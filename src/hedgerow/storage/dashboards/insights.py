"""Saved insights. Which dashboards show an insight is stored in the same transaction."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Text,
    and_,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from hedgerow.dashboards.model import (
    DashboardId,
    InsightId,
    InsightTile,
    InsightWithTiles,
    SavedInsight,
    TileId,
)
from hedgerow.dashboards.store import (
    InsightFilter,
    InsightStore,
    InsightWrite,
    InsightWriteContext,
)
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import dashboard_tiles as tiles
from hedgerow.storage.tables import dashboards
from hedgerow.storage.tables import saved_insights as table


class SqlInsightStore(InsightStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def insights(
        self, project_id: ProjectId, wanted: InsightFilter
    ) -> tuple[Sequence[InsightWithTiles], int]:
        conditions = and_(*_build_conditions(project_id, wanted))
        page = select(table).where(conditions).order_by(_build_order(wanted), table.c.id.desc())

        def read(connection: Connection) -> tuple[Sequence[InsightWithTiles], int]:
            rows, total = read_page(connection, page, limit=wanted.limit, offset=wanted.offset)
            return attach_tiles(connection, [decode_insight(row) for row in rows]), total

        return await self._database.read(read)

    async def insight(self, project_id: ProjectId, id: InsightId) -> InsightWithTiles | None:
        return await self._database.read(
            lambda connection: find_insight(connection, project_id, table.c.id == id)
        )

    async def find_by_short_id(
        self, project_id: ProjectId, short_id: str
    ) -> InsightWithTiles | None:
        return await self._database.read(
            lambda connection: find_insight(connection, project_id, table.c.short_id == short_id)
        )

    async def write_insight(
        self,
        project_id: ProjectId,
        decide: Callable[[InsightWriteContext], InsightWrite],
        now: datetime,
    ) -> InsightWithTiles:
        def change(connection: Connection) -> InsightWithTiles:
            lock_project(connection, project_id)
            return write_insight(connection, decide(_read_context(connection, project_id)), now)

        return await self._database.write(change)


def _read_context(connection: Connection, project_id: ProjectId) -> InsightWriteContext:
    live = (table.c.project_id == project_id) & table.c.deleted.is_(False)
    return InsightWriteContext(
        find=lambda id: find_insight(connection, project_id, table.c.id == id),
        count=connection.execute(select(func.count()).select_from(table).where(live)).scalar_one(),
        dashboards=_count_tiles(connection, project_id),
    )


def _count_tiles(connection: Connection, project_id: ProjectId) -> dict[DashboardId, int]:
    live = (dashboards.c.project_id == project_id) & dashboards.c.deleted.is_(False)
    ids = [row.id for row in connection.execute(select(dashboards.c.id).where(live))]
    own = select(tiles.c.dashboard_id).where(tiles.c.project_id == project_id)
    numbers = Counter(row.dashboard_id for row in connection.execute(own))
    return {DashboardId(id): numbers[id] for id in ids}


def write_insight(connection: Connection, write: InsightWrite, now: datetime) -> InsightWithTiles:
    """Store an insight, its tiles and its entry in the audit trail."""
    insight = write_insight_row(connection, write.insight)
    if write.dashboards is not None:
        _write_tiles(connection, insight, write.dashboards, now)
    entry = write.build_entry(insight)
    if entry is not None:
        activity.record(connection, entry, now)
    [found] = attach_tiles(connection, [insight])
    return found


def find_insight(
    connection: Connection, project_id: ProjectId, condition: ColumnElement[bool]
) -> InsightWithTiles | None:
    own = select(table).where((table.c.project_id == project_id) & condition)
    row = connection.execute(own).one_or_none()
    if row is None:
        return None
    [found] = attach_tiles(connection, [decode_insight(row)])
    return found


def decode_insight(row: Row[Any]) -> SavedInsight:
    return SavedInsight(**row._mapping)


def _build_conditions(project_id: ProjectId, wanted: InsightFilter) -> list[ColumnElement[bool]]:
    found = [table.c.project_id == project_id, table.c.deleted.is_(False)]
    if wanted.search:
        needle = wanted.search.lower()
        texts = (table.c.name, table.c.derived_name, table.c.description)
        matches = [func.lower(text).contains(needle, autoescape=True) for text in texts]
        found.append(matches[0] | matches[1] | matches[2])
    if wanted.saved is not None:
        found.append(table.c.saved.is_(wanted.saved))
    if wanted.favorited is not None:
        found.append(table.c.favorited.is_(wanted.favorited))
    if wanted.tags:
        found.append(or_(*(_has_tag(tag) for tag in wanted.tags)))
    if wanted.query_kind is not None:
        kinds = (table.c.query["kind"], table.c.query["source"]["kind"])
        found.append(or_(*(kind.as_string() == wanted.query_kind for kind in kinds)))
    if wanted.short_id is not None:
        found.append(table.c.short_id == wanted.short_id)
    if wanted.created_by is not None:
        found.append(table.c.created_by == wanted.created_by)
    for id in wanted.dashboard_ids:
        shown = (tiles.c.project_id == project_id) & (tiles.c.dashboard_id == id)
        found.append(table.c.id.in_(select(tiles.c.insight_id).where(shown)))
    return found


def _has_tag(tag: str) -> ColumnElement[bool]:
    """SQLite stores characters beyond ASCII escaped, PostgreSQL as they are. Not with LIKE, which
    ignores case on SQLite."""
    stored = cast(table.c.tags, Text)
    texts = {json.dumps(tag, ensure_ascii=is_escaped) for is_escaped in (True, False)}
    return or_(*(func.replace(stored, each, "") != stored for each in sorted(texts)))


def _build_order(wanted: InsightFilter) -> ColumnElement[Any]:
    column = table.c[wanted.order.removeprefix("-")]
    return column.desc() if wanted.order.startswith("-") else column.asc()


def write_insight_row(connection: Connection, insight: SavedInsight) -> SavedInsight:
    values = asdict(insight) | {"query": dict(insight.query), "tags": list(insight.tags)}
    del values["id"]
    if insight.id:
        connection.execute(update(table).where(table.c.id == insight.id).values(**values))
        return insight
    id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
    return replace(insight, id=InsightId(id))


def _write_tiles(
    connection: Connection, insight: SavedInsight, wanted: Sequence[DashboardId], now: datetime
) -> None:
    """Add the insight to the dashboards that do not show it, and remove it from all others."""
    own = tiles.c.insight_id == insight.id
    shown = {row.dashboard_id for row in connection.execute(select(tiles).where(own))}
    connection.execute(delete(tiles).where(own & tiles.c.dashboard_id.not_in(wanted)))
    added: list[dict[str, Any]] = [
        {
            "project_id": insight.project_id,
            "dashboard_id": id,
            "insight_id": insight.id,
            "text": None,
            "layouts": {},
            "color": None,
            "created_by": insight.last_modified_by,
            "last_modified_by": insight.last_modified_by,
            "last_modified_at": now,
        }
        for id in dict.fromkeys(wanted)
        if id not in shown
    ]
    if added:
        connection.execute(insert(tiles), added)


def attach_tiles(
    connection: Connection, insights: Sequence[SavedInsight]
) -> Sequence[InsightWithTiles]:
    found = defaultdict[int, list[InsightTile]](list)
    ids = [insight.id for insight in insights]
    shown = (
        select(tiles.c.id, tiles.c.insight_id, tiles.c.dashboard_id)
        .join(dashboards, dashboards.c.id == tiles.c.dashboard_id)
        .where(tiles.c.insight_id.in_(ids) & dashboards.c.deleted.is_(False))
        .order_by(tiles.c.id)
    )
    for row in connection.execute(shown) if ids else ():
        tile = InsightTile(id=TileId(row.id), dashboard_id=DashboardId(row.dashboard_id))
        found[row.insight_id].append(tile)
    return [InsightWithTiles(insight=each, tiles=found[each.id]) for each in insights]
