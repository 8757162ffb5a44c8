"""Experiments. An experiment and its flag are stored in one transaction."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, func, insert, select, update

from hedgerow.errors import Invalid
from hedgerow.experiments.model import (
    Conclusion,
    Experiment,
    ExperimentId,
    ExperimentStatus,
    ExperimentType,
)
from hedgerow.experiments.store import (
    ExperimentQuery,
    ExperimentStore,
    ExperimentWrite,
    ExperimentWriteContext,
)
from hedgerow.experiments.variants import translate_flag_error
from hedgerow.flags.model import Flag, FlagId
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.flags import owners
from hedgerow.storage.flags.approvals.approval_gate import WriteGate
from hedgerow.storage.flags.experiment_state import STATUS_CONDITIONS
from hedgerow.storage.flags.flags import (
    SqlFlagStore,
    find_flag,
    find_flags,
    flag_topic,
    parse_member,
    store_flag,
)
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import experiments as table
from hedgerow.storage.tables import flags

_CONCLUSIONS = frozenset(each.value for each in Conclusion)


class SqlExperimentStore(ExperimentStore):
    def __init__(self, database: Database, flags: SqlFlagStore) -> None:
        self._database = database
        self._flags = flags

    async def experiments(
        self, project_id: ProjectId, query: ExperimentQuery
    ) -> tuple[Sequence[tuple[Experiment, Flag]], int]:
        wanted = and_(*_build_conditions(project_id, query))
        page = select(table).where(wanted).order_by(_build_order(query), table.c.id.desc())

        def read(connection: Connection) -> tuple[list[tuple[Experiment, Flag]], int]:
            rows, total = read_page(connection, page, limit=query.limit, offset=query.offset)
            found = [_decode_experiment(row) for row in rows]
            own = find_flags(connection, project_id, {each.flag_id for each in found})
            # Flag rows are never deleted.
            return [(each, own[each.flag_id]) for each in found], total

        return await self._database.read(read)

    async def experiment(
        self, project_id: ProjectId, id: ExperimentId
    ) -> tuple[Experiment, Flag] | None:
        def read(connection: Connection) -> tuple[Experiment, Flag] | None:
            found = _find(connection, project_id, id)
            return None if found is None else (found, _read_flag(connection, found))

        return await self._database.read(read)

    async def list_ids_by_flag(
        self, project_id: ProjectId
    ) -> Mapping[FlagId, Sequence[ExperimentId]]:
        ids = select(table.c.flag_id, table.c.id).where(_is_live(project_id)).order_by(table.c.id)

        def read(connection: Connection) -> Mapping[FlagId, Sequence[ExperimentId]]:
            found = defaultdict[FlagId, list[ExperimentId]](list)
            for flag_id, id in connection.execute(ids):
                found[FlagId(flag_id)].append(ExperimentId(id))
            return found

        return await self._database.read(read)

    async def write_experiment(
        self,
        project_id: ProjectId,
        decide: Callable[[ExperimentWriteContext], ExperimentWrite],
        now: datetime,
    ) -> tuple[Experiment, Flag]:
        def change(connection: Connection, gate: WriteGate) -> tuple[Experiment, Flag]:
            write = decide(
                ExperimentWriteContext(
                    definitions=self._flags.lock_definitions(connection, project_id),
                    experiment=lambda id: _find(connection, project_id, id),
                    flag=lambda id: find_flag(connection, project_id, id),
                    count=_count(connection, project_id),
                )
            )
            experiment = write.experiment
            if not experiment.id:
                owners.check_not_owned_by_survey(connection, experiment.flag_id, "feature_flag_key")
            if write.flag is not None:
                try:
                    flag, _ = store_flag(connection, write.flag, now, gate)
                except Invalid as error:
                    raise translate_flag_error(error) from None
                experiment = replace(experiment, flag_id=flag.id)
                generations.advance(connection, flag_topic(project_id))
            if experiment.status is ExperimentStatus.RUNNING and not experiment.deleted:
                owners.check_no_active_bandit(connection, experiment.flag_id)
            experiment = write_experiment_row(connection, experiment)
            entry = write.build_entry(experiment)
            if entry is not None:
                activity.record(connection, entry, now)
            return experiment, _read_flag(connection, experiment)

        return await self._flags.write_gated(change)


def _is_live(project_id: ProjectId) -> ColumnElement[bool]:
    return (table.c.project_id == project_id) & table.c.deleted.is_(False)


def read_live_experiments(
    connection: Connection, project_id: ProjectId
) -> list[tuple[Experiment, Flag]]:
    """Return the experiments that are not deleted, with their flags."""
    rows = connection.execute(select(table).where(_is_live(project_id)).order_by(table.c.id))
    found = [_decode_experiment(row) for row in rows]
    own = find_flags(connection, project_id, {each.flag_id for each in found})
    return [(each, own[each.flag_id]) for each in found]


def _build_conditions(project_id: ProjectId, query: ExperimentQuery) -> list[ColumnElement[bool]]:
    found = [_is_live(project_id)]
    if query.search:
        needle = query.search.lower()
        found.append(func.lower(table.c.name).contains(needle, autoescape=True))
    if query.status is not None:
        found.append(STATUS_CONDITIONS[query.status])
    if query.is_on is not None:
        switched = (flags.c.project_id == project_id) & flags.c.active.is_(query.is_on)
        found.append(table.c.flag_id.in_(select(flags.c.id).where(switched)))
    if query.created_by is not None:
        found.append(table.c.created_by == query.created_by)
    if query.archived is not None:
        found.append(table.c.archived.is_(query.archived))
    if query.flag_id is not None:
        found.append(table.c.flag_id == query.flag_id)
    return found


def _build_order(query: ExperimentQuery) -> ColumnElement[Any]:
    column = table.c[query.order.removeprefix("-")]
    return (column.desc() if query.order.startswith("-") else column.asc()).nulls_last()


def _count(connection: Connection, project_id: ProjectId) -> int:
    own = select(func.count()).select_from(table).where(_is_live(project_id))
    return connection.execute(own).scalar_one()


def _find(connection: Connection, project_id: ProjectId, id: ExperimentId) -> Experiment | None:
    own = select(table).where((table.c.project_id == project_id) & (table.c.id == id))
    row = connection.execute(own).one_or_none()
    return None if row is None else _decode_experiment(row)


def write_experiment_row(connection: Connection, experiment: Experiment) -> Experiment:
    values = asdict(experiment) | {
        "type": experiment.type.value,
        "conclusion": experiment.conclusion or "",
        "holdout": experiment.holdout or {},
    }
    del values["id"]
    if experiment.id:
        connection.execute(update(table).where(table.c.id == experiment.id).values(**values))
        return experiment
    id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
    return replace(experiment, id=ExperimentId(id))


def _decode_experiment(row: Row[Any]) -> Experiment:
    """Unknown stored values, written by a newer version, must not break other experiments."""
    found = dict(row._mapping)
    for name in ("parameters", "exposure_criteria", "stats_config", "holdout", "rest"):
        found[name] = found[name] if isinstance(found[name], dict) else {}
    for name in ("metrics", "metrics_secondary"):
        found[name] = found[name] if isinstance(found[name], list) else []
    return Experiment(
        **{
            **found,
            "type": parse_member(ExperimentType, row.type, ExperimentType.PRODUCT),
            "conclusion": Conclusion(row.conclusion) if row.conclusion in _CONCLUSIONS else None,
            "holdout": found["holdout"] or None,
        }
    )


def _read_flag(connection: Connection, experiment: Experiment) -> Flag:
    flag = find_flag(connection, experiment.project_id, experiment.flag_id)
    assert flag is not None  # flag rows are never deleted
    return flag
