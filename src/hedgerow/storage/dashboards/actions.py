"""Actions."""

from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from hedgerow.events.actions.model import Action, ActionId, ActionsById
from hedgerow.events.actions.store import ActionStore
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import actions as table


class SqlActionStore(ActionStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def actions(self, project_id: ProjectId) -> list[Action]:
        live = (table.c.project_id == project_id) & table.c.deleted.is_(False)

        def run(connection: Connection) -> list[Action]:
            rows = connection.execute(select(table).where(live).order_by(table.c.id.desc()))
            return [Action(**row._mapping) for row in rows]

        return await self._database.read(run)

    async def action(self, project_id: ProjectId, id: ActionId) -> Action | None:
        own = (table.c.project_id == project_id) & (table.c.id == id)

        def run(connection: Connection) -> Action | None:
            row = connection.execute(select(table).where(own)).one_or_none()
            return None if row is None else Action(**row._mapping)

        return await self._database.read(run)

    async def write_action(
        self,
        project_id: ProjectId,
        decide: Callable[[ActionsById], Action],
        build_entry: Callable[[Action | None, Action], ActivityEntry],
        now: datetime,
    ) -> Action:
        def change(connection: Connection) -> Action:
            lock_project(connection, project_id)
            rows = connection.execute(select(table).where(table.c.project_id == project_id))
            present = {ActionId(row.id): Action(**row._mapping) for row in rows}
            wanted = decide(present)
            before = present.get(wanted.id)
            if wanted == before:
                return wanted
            values = asdict(wanted)
            del values["id"]
            if before is None:
                id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
                wanted = replace(wanted, id=ActionId(id))
            else:
                connection.execute(update(table).where(table.c.id == wanted.id).values(**values))
            activity.record(connection, build_entry(before, wanted), now)
            return wanted

        return await self._database.write(change)
