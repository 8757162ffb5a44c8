"""Actions."""

from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from hedgerow.events.actions.model import Action, ActionId, ActionsById
from hedgerow.events.actions.store import ActionStore
from hedgerow.flags.approvals.model import ApprovalRequired
from hedgerow.persons.behaviors.filters import list_action_keys
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags.approvals.approval_gate import WriteGate, read_policies_in_force
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.persons.behaviors import sync_actions
from hedgerow.storage.persons.cohorts import flags_using_cohort
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import actions as table

ACTION_REQUIRES = (
    "A cohort that flags use counts this action, so that another definition requires approval: {}. "
    "A change request cannot hold an action: create another one, and request to use it in the "
    "cohort."
)


class SqlActionStore(ActionStore):
    def __init__(self, database: Database) -> None:
        self._database = database
        # Without a comparer: a policy that depends on the number of persons requires approval.
        self._flags = SqlFlagStore(database)

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
        def change(connection: Connection, gate: WriteGate) -> Action:
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
                self._check_gate(connection, gate, before, wanted, now)
                connection.execute(update(table).where(table.c.id == wanted.id).values(**values))
            activity.record(connection, build_entry(before, wanted), now)
            if before is not None:
                sync_actions(connection, project_id, now)
                generations.advance_events(connection, [project_id])
            return wanted

        return await self._flags.write_gated(change)

    def _check_gate(
        self, connection: Connection, gate: WriteGate, before: Action, after: Action, now: datetime
    ) -> None:
        """Raise ApprovalRequired if a cohort counts the action, and flags whose changes require
        approval use the cohort. How many persons it affects is not measured."""
        is_same = before.steps == after.steps and before.deleted == after.deleted
        if is_same or not read_policies_in_force(connection, after.project_id):
            return
        definitions = self._flags.lock_definitions(connection, after.project_id)
        for cohort in definitions.cohorts:
            if str(after.id) not in list_action_keys(cohort.definition):
                continue
            try:
                flags = flags_using_cohort(definitions, cohort.id)
                gate.without_measure().check_cohort(connection, cohort, flags, now)
            except ApprovalRequired as error:
                needed = "; ".join(each.describe() for each in error.required)
                raise ApprovalRequired(error.required, ACTION_REQUIRES.format(needed)) from None
