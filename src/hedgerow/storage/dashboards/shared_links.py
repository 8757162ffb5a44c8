"""Links that show one insight or one dashboard without a key."""

from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import Connection, and_, delete, insert, or_, select

from hedgerow.dashboards.model import DashboardId, InsightId, SharedLink
from hedgerow.dashboards.store import SharedLinkStore
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.deletions import is_deleted
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import dashboards, saved_insights
from hedgerow.storage.tables import shared_links as table

_COLUMNS = [column for column in table.columns if column.name != "id"]


class SqlSharedLinkStore(SharedLinkStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def link(
        self,
        project_id: ProjectId,
        *,
        insight_id: InsightId | None = None,
        dashboard_id: DashboardId | None = None,
    ) -> SharedLink | None:
        of = and_(
            table.c.project_id == project_id,
            table.c.insight_id == insight_id,
            table.c.dashboard_id == dashboard_id,
        )

        def read(connection: Connection) -> SharedLink | None:
            row = connection.execute(select(*_COLUMNS).where(of)).one_or_none()
            return None if row is None else SharedLink(**row._mapping)

        return await self._database.read(read)

    async def list_shared(
        self, project_id: ProjectId, ids: Collection[DashboardId]
    ) -> frozenset[DashboardId]:
        shared = select(table.c.dashboard_id).where(
            (table.c.project_id == project_id)
            & table.c.enabled.is_(True)
            & table.c.dashboard_id.in_(list(ids))
        )
        return await self._database.read(
            lambda connection: frozenset(map(DashboardId, connection.execute(shared).scalars()))
        )

    async def find_by_token(self, access_token: str) -> SharedLink | None:
        is_shown = or_(saved_insights.c.deleted.is_(False), dashboards.c.deleted.is_(False))
        found = (
            select(*_COLUMNS)
            .outerjoin(saved_insights, saved_insights.c.id == table.c.insight_id)
            .outerjoin(dashboards, dashboards.c.id == table.c.dashboard_id)
            .where(table.c.access_token == access_token)
            .where(table.c.enabled.is_(True) & is_shown & ~is_deleted(table.c.project_id))
        )

        def read(connection: Connection) -> SharedLink | None:
            row = connection.execute(found).one_or_none()
            return None if row is None else SharedLink(**row._mapping)

        return await self._database.read(read)

    async def write_link(self, link: SharedLink, entry: ActivityEntry, now: datetime) -> None:
        of = and_(
            table.c.project_id == link.project_id,
            table.c.insight_id == link.insight_id,
            table.c.dashboard_id == link.dashboard_id,
        )
        values = asdict(link) | {"settings": dict(link.settings)}

        def change(connection: Connection) -> None:
            lock_project(connection, link.project_id)
            connection.execute(delete(table).where(of))
            connection.execute(insert(table), values)
            activity.record(connection, entry, now)

        await self._database.write(change)
