"""Insights and dashboards together, for documents that describe both."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from hedgerow.dashboards.model import SavedInsight
from hedgerow.dashboards.store import (
    DashboardDocumentStore,
    DashboardWrite,
    DashboardWriteContext,
    DashboardWriter,
    InsightWrite,
    StoredDashboards,
)
from hedgerow.projects.model import ProjectId
from hedgerow.storage.dashboards.dashboards import find_dashboard, write_dashboard
from hedgerow.storage.dashboards.insights import decode_insight, write_insight
from hedgerow.storage.engine.database import Database
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import dashboards, saved_insights


class SqlDashboardDocumentStore(DashboardDocumentStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_all(self, project_id: ProjectId) -> StoredDashboards:
        return await self._database.read_in_background(
            lambda connection: _read_all(connection, project_id)
        )

    async def write_all(
        self,
        project_id: ProjectId,
        work: Callable[[StoredDashboards, DashboardWriter], None],
        now: datetime,
    ) -> None:
        def change(connection: Connection) -> None:
            lock_project(connection, project_id)
            work(_read_all(connection, project_id), _Writer(connection, project_id, now))

        await self._database.write(change)


@dataclass(frozen=True, slots=True)
class _Writer(DashboardWriter):
    connection: Connection
    project_id: ProjectId
    now: datetime

    def write_insight(self, write: InsightWrite) -> SavedInsight:
        return write_insight(self.connection, write, self.now).insight

    def write_dashboard(self, decide: Callable[[DashboardWriteContext], DashboardWrite]) -> None:
        write_dashboard(self.connection, self.project_id, decide, self.now)


def _read_all(connection: Connection, project_id: ProjectId) -> StoredDashboards:
    insights = connection.execute(
        select(saved_insights).where(saved_insights.c.project_id == project_id)
    )
    ids = connection.execute(
        select(dashboards.c.id)
        .where((dashboards.c.project_id == project_id) & dashboards.c.deleted.is_(False))
        .order_by(dashboards.c.id)
    )
    found = (find_dashboard(connection, project_id, id) for id in ids.scalars().all())
    return StoredDashboards(
        insights={row.short_id: decode_insight(row) for row in insights},
        dashboards=[each for each in found if each is not None],
    )
