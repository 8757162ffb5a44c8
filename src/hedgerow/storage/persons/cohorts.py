"""Cohorts and the members of static cohorts."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from itertools import islice

from sqlalchemy import Connection, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from hedgerow.flags.validate import referenced_cohort_ids
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.persons.store import CohortStore, FlagsUsingCohort
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk, generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.flags.flags import flag_topic
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import cohort_people, flags, person_distinct_ids
from hedgerow.storage.tables import cohorts as table

BATCH_SIZE = 500
MAX_ATTEMPTS = 3


class SqlCohortStore(CohortStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def cohorts(
        self, project_id: ProjectId, *, limit: int, offset: int, search: str = ""
    ) -> tuple[list[Cohort], int]:
        live = (table.c.project_id == project_id) & table.c.deleted.is_(False)
        if search:
            texts = (table.c.name, table.c.description)
            needle = search.lower()
            live &= or_(*(func.lower(each).contains(needle, autoescape=True) for each in texts))

        def run(connection: Connection) -> tuple[list[Cohort], int]:
            newest_first = select(table).where(live).order_by(table.c.id.desc())
            rows, total = read_page(connection, newest_first, limit=limit, offset=offset)
            return [Cohort(**row._mapping) for row in rows], total

        return await self._database.read(run)

    async def cohort(self, project_id: ProjectId, id: CohortId) -> Cohort | None:
        def run(connection: Connection) -> Cohort | None:
            own = (table.c.project_id == project_id) & (table.c.id == id)
            row = connection.execute(select(table).where(own)).one_or_none()
            return None if row is None else Cohort(**row._mapping)

        return await self._database.read(run)

    async def write_cohort(
        self,
        project_id: ProjectId,
        decide: Callable[[Mapping[CohortId, Cohort], FlagsUsingCohort], Cohort],
        build_entry: Callable[[Cohort | None, Cohort], ActivityEntry],
        now: datetime,
    ) -> Cohort:
        def change(connection: Connection) -> Cohort:
            lock_project(connection, project_id)
            live = (table.c.project_id == project_id) & table.c.deleted.is_(False)
            rows = connection.execute(select(table).where(live))
            present = {CohortId(row.id): Cohort(**row._mapping) for row in rows}
            wanted = decide(present, lambda id: _flags_using(connection, project_id, id))
            before = present.get(wanted.id)
            if wanted == before:
                return wanted
            values = asdict(wanted) | {"definition": dict(wanted.definition)}
            del values["id"]
            if before is None:
                id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
                wanted = replace(wanted, id=CohortId(id))
            else:
                connection.execute(update(table).where(table.c.id == wanted.id).values(**values))
            activity.record(connection, build_entry(before, wanted), now)
            generations.advance(connection, flag_topic(project_id))
            return wanted

        return await self._database.write(change)

    async def add_members(
        self, project_id: ProjectId, id: CohortId, distinct_ids: Sequence[str]
    ) -> int:
        ids = person_distinct_ids

        def change(connection: Connection) -> int:
            waiting = iter(dict.fromkeys(distinct_ids))
            while some := list(islice(waiting, BATCH_SIZE)):
                found = connection.execute(
                    select(ids.c.person_id)
                    .distinct()
                    .where((ids.c.project_id == project_id) & ids.c.distinct_id.in_(some))
                )
                rows = [{"person_id": row.person_id, "cohort_id": id} for row in found]
                bulk.insert_ignoring_conflicts(connection, cohort_people, rows)
            return _count_members(connection, [id])[id]

        for _ in range(MAX_ATTEMPTS - 1):
            # Retry if a person was deleted concurrently: the insert fails for all rows.
            with contextlib.suppress(IntegrityError):
                return await self._database.write(change)
        return await self._database.write(change)

    async def count_members(self, ids: Sequence[CohortId]) -> Mapping[CohortId, int]:
        return await self._database.read(lambda connection: _count_members(connection, ids))


def _count_members(connection: Connection, ids: Sequence[CohortId]) -> dict[CohortId, int]:
    if not ids:
        return {}
    of = cohort_people.c.cohort_id
    rows = connection.execute(
        select(of, func.count().label("number")).where(of.in_(ids)).group_by(of)
    )
    found = {row.cohort_id: row.number for row in rows}
    return {id: found.get(id, 0) for id in ids}


def _flags_using(connection: Connection, project_id: ProjectId, id: CohortId) -> list[str]:
    own = (flags.c.project_id == project_id) & flags.c.deleted.is_(False)
    rows = connection.execute(select(flags.c.key, flags.c.filters).where(own).order_by(flags.c.key))
    return [row.key for row in rows if id in referenced_cohort_ids(row.filters)]
