"""Holdouts of experiments. A change is stored together with the experiments and their flags."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from hedgerow.experiments.holdouts import (
    Holdout,
    HoldoutContext,
    HoldoutId,
    HoldoutStore,
    HoldoutWrite,
)
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags.approvals.approval_gate import WriteGate
from hedgerow.storage.flags.experiments import read_live_experiments, write_experiment_row
from hedgerow.storage.flags.flags import SqlFlagStore, flag_topic, store_flag
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import experiment_holdouts as table


class SqlHoldoutStore(HoldoutStore):
    def __init__(self, database: Database, flags: SqlFlagStore) -> None:
        self._database = database
        self._flags = flags

    async def holdouts(self, project_id: ProjectId) -> Sequence[Holdout]:
        return await self._database.read(lambda connection: _read_all(connection, project_id))

    async def write(
        self,
        project_id: ProjectId,
        decide: Callable[[HoldoutContext], HoldoutWrite],
        now: datetime,
    ) -> Holdout:
        def change(connection: Connection, gate: WriteGate) -> Holdout:
            definitions = self._flags.lock_definitions(connection, project_id)
            write = decide(
                HoldoutContext(
                    definitions=definitions,
                    holdouts={each.id: each for each in _read_all(connection, project_id)},
                    experiments=read_live_experiments(connection, project_id),
                )
            )
            for flag in write.flags:
                store_flag(connection, flag, now, gate)
            if write.flags:
                generations.advance(connection, flag_topic(project_id))
            for experiment in write.experiments:
                write_experiment_row(connection, experiment)
            stored = _write_row(connection, write)
            if (entry := write.build_entry(stored)) is not None:
                activity.record(connection, entry, now)
            return stored

        return await self._flags.write_gated(change)


def _read_all(connection: Connection, project_id: ProjectId) -> list[Holdout]:
    own = select(table).where(table.c.project_id == project_id).order_by(table.c.id.desc())
    return [Holdout(**row._mapping) for row in connection.execute(own)]


def _write_row(connection: Connection, write: HoldoutWrite) -> Holdout:
    holdout = write.holdout
    own = table.c.id == holdout.id
    if write.is_deleted:
        connection.execute(delete(table).where(own))
        return holdout
    values = asdict(holdout)
    del values["id"]
    if holdout.id:
        connection.execute(update(table).where(own).values(values))
        return holdout
    id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
    return replace(holdout, id=HoldoutId(id))
