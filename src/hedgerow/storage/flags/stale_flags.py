"""Flags that were reported as stale."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select

from hedgerow.flags.model import Flag
from hedgerow.flags.stale_flags import Decide, StaleFlagStore
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags.flags import decode_flag
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import flags
from hedgerow.storage.tables import stale_flags as table


class SqlStaleFlagStore(StaleFlagStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_projects(self, unused_since: datetime) -> Sequence[ProjectId]:
        unreported = select(flags.c.project_id).where(_may_become_stale(unused_since))
        reported = select(table.c.project_id)
        return await self._database.read_in_background(
            lambda connection: [
                ProjectId(id)
                for id in connection.execute(unreported.union(reported).order_by("project_id"))
                .scalars()
                .all()
            ]
        )

    async def report(
        self, project_id: ProjectId, unused_since: datetime, decide: Decide, now: datetime
    ) -> None:
        if not await self._has_changes(project_id, unused_since, decide):
            return

        def change(connection: Connection) -> None:
            lock_project(connection, project_id)
            changes = decide(_read_flags(connection, project_id, unused_since))
            if changes.fresh:
                ids = [flag.id for flag in changes.fresh]
                connection.execute(delete(table).where(table.c.flag_id.in_(ids)))
            rows = [
                {"flag_id": flag.id, "project_id": project_id, "created_at": now}
                for flag, _ in changes.stale
            ]
            if rows:
                connection.execute(insert(table), rows)
            activity.record_all(connection, [entry for _, entry in changes.stale], now)

        await self._database.write(change)

    async def _has_changes(
        self, project_id: ProjectId, unused_since: datetime, decide: Decide
    ) -> bool:
        changes = await self._database.read_in_background(
            lambda connection: decide(_read_flags(connection, project_id, unused_since))
        )
        return bool(changes.stale or changes.fresh)


def _is_reported() -> ColumnElement[bool]:
    return flags.c.id.in_(select(table.c.flag_id))


def _may_become_stale(unused_since: datetime) -> ColumnElement[bool]:
    last_use = func.coalesce(flags.c.last_called_at, flags.c.created_at)
    return (
        flags.c.active.is_(True)
        & flags.c.deleted.is_(False)
        & (last_use <= unused_since)
        & ~_is_reported()
    )


def _read_flags(
    connection: Connection, project_id: ProjectId, unused_since: datetime
) -> list[tuple[Flag, bool]]:
    own = flags.c.project_id == project_id
    reported = select(flags).where(own & _is_reported()).order_by(flags.c.id)
    others = select(flags).where(own & _may_become_stale(unused_since)).order_by(flags.c.id)
    return [
        *((decode_flag(row), True) for row in connection.execute(reported)),
        *((decode_flag(row), False) for row in connection.execute(others)),
    ]
