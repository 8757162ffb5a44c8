"""Experiments' SQL. An experiment and its flag are stored in one transaction."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, func, insert, select, update

from hedgerow.errors import Invalid
from hedgerow.experiments.model import Conclusion, Experiment, ExperimentId, Kind
from hedgerow.experiments.store import ExperimentQuery, ExperimentWrite, Surroundings
from hedgerow.experiments.variants import of_experiment
from hedgerow.flags.model import Flag, FlagId
from hedgerow.projects.model import ProjectId
from hedgerow.storage import activity, flag_owners, generations
from hedgerow.storage.database import Database
from hedgerow.storage.flag_experiments import OF_STATUS
from hedgerow.storage.flags import (
    FlagRecords,
    find_flag,
    find_flags,
    member,
    store_and_tell,
    topic_of,
)
from hedgerow.storage.tables import experiments as table
from hedgerow.storage.tables import flags

_CONCLUSIONS = frozenset(each.value for each in Conclusion)


class ExperimentRecords:
    def __init__(self, database: Database, flags: FlagRecords) -> None:
        self._database = database
        self._flags = flags

    async def experiments(
        self, project_id: ProjectId, query: ExperimentQuery
    ) -> tuple[Sequence[tuple[Experiment, Flag]], int]:
        wanted = and_(*_conditions(project_id, query))
        page = select(table).where(wanted).order_by(_order(query), table.c.id.desc())

        def read(connection: Connection) -> tuple[list[tuple[Experiment, Flag]], int]:
            count = select(func.count()).select_from(table).where(wanted)
            rows = connection.execute(page.limit(query.limit).offset(query.offset))
            found = [_experiment(row) for row in rows]
            own = find_flags(connection, project_id, {each.flag_id for each in found})
            # Rows of flags are never removed.
            pairs = [(each, own[each.flag_id]) for each in found]
            return pairs, connection.execute(count).scalar_one()

        return await self._database.read(read)

    async def experiment(
        self, project_id: ProjectId, id: ExperimentId
    ) -> tuple[Experiment, Flag] | None:
        def read(connection: Connection) -> tuple[Experiment, Flag] | None:
            found = _find(connection, project_id, id)
            return None if found is None else (found, _flag(connection, found))

        return await self._database.read(read)

    async def by_flag(self, project_id: ProjectId) -> Mapping[FlagId, Sequence[ExperimentId]]:
        ids = select(table.c.flag_id, table.c.id).where(_live(project_id)).order_by(table.c.id)

        def read(connection: Connection) -> Mapping[FlagId, Sequence[ExperimentId]]:
            found = defaultdict[FlagId, list[ExperimentId]](list)
            for flag_id, id in connection.execute(ids):
                found[FlagId(flag_id)].append(ExperimentId(id))
            return found

        return await self._database.read(read)

    async def write_experiment(
        self,
        project_id: ProjectId,
        decide: Callable[[Surroundings], ExperimentWrite],
        now: datetime,
    ) -> tuple[Experiment, Flag]:
        def change(connection: Connection) -> tuple[Experiment, Flag]:
            wish = decide(
                Surroundings(
                    definitions=self._flags.locked_definitions(connection, project_id),
                    experiment=lambda id: _find(connection, project_id, id),
                    flag=lambda id: find_flag(connection, project_id, id),
                    count=_count(connection, project_id),
                )
            )
            experiment = wish.experiment
            if not experiment.id:
                flag_owners.check_no_surveys(connection, experiment.flag_id, "feature_flag_key")
            if wish.flag is not None:
                try:
                    flag, _ = store_and_tell(connection, wish.flag, now)
                except Invalid as error:
                    raise of_experiment(error) from None
                experiment = replace(experiment, flag_id=flag.id)
                generations.advance(connection, topic_of(project_id))
            experiment = _put(connection, experiment)
            entry = wish.tell(experiment)
            if entry is not None:
                activity.record(connection, entry, now)
            return experiment, _flag(connection, experiment)

        return await self._database.write(change)


def _live(project_id: ProjectId) -> ColumnElement[bool]:
    return (table.c.project_id == project_id) & table.c.deleted.is_(False)


def _conditions(project_id: ProjectId, query: ExperimentQuery) -> list[ColumnElement[bool]]:
    found = [_live(project_id)]
    if query.search:
        needle = query.search.lower()
        found.append(func.lower(table.c.name).contains(needle, autoescape=True))
    if query.status is not None:
        found.append(OF_STATUS[query.status])
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


def _order(query: ExperimentQuery) -> ColumnElement[Any]:
    column = table.c[query.order.removeprefix("-")]
    return (column.desc() if query.order.startswith("-") else column.asc()).nulls_last()


def _count(connection: Connection, project_id: ProjectId) -> int:
    own = select(func.count()).select_from(table).where(_live(project_id))
    return connection.execute(own).scalar_one()


def _find(connection: Connection, project_id: ProjectId, id: ExperimentId) -> Experiment | None:
    own = select(table).where((table.c.project_id == project_id) & (table.c.id == id))
    row = connection.execute(own).one_or_none()
    return None if row is None else _experiment(row)


def _put(connection: Connection, experiment: Experiment) -> Experiment:
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


def _experiment(row: Row[Any]) -> Experiment:
    """What was stored and means nothing here may not take the project's others with it."""
    found = dict(row._mapping)
    for name in ("parameters", "exposure_criteria", "stats_config", "holdout", "rest"):
        found[name] = found[name] if isinstance(found[name], dict) else {}
    for name in ("metrics", "metrics_secondary"):
        found[name] = found[name] if isinstance(found[name], list) else []
    return Experiment(
        **{
            **found,
            "type": member(Kind, row.type, Kind.PRODUCT),
            "conclusion": Conclusion(row.conclusion) if row.conclusion in _CONCLUSIONS else None,
            "holdout": found["holdout"] or None,
        }
    )


def _flag(connection: Connection, experiment: Experiment) -> Flag:
    flag = find_flag(connection, experiment.project_id, experiment.flag_id)
    assert flag is not None  # rows of flags are never removed
    return flag
