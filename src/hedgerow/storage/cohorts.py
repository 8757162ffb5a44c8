"""Cohorts' SQL."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from itertools import islice

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import IntegrityError

from hedgerow.flags.rules import needed_cohorts
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.persons.store import Askers
from hedgerow.projects.activity import Entry
from hedgerow.projects.model import ProjectId
from hedgerow.storage import activity, generations
from hedgerow.storage.database import Database
from hedgerow.storage.flags import topic_of
from hedgerow.storage.tables import cohort_people, flags, person_distinct_ids, projects
from hedgerow.storage.tables import cohorts as table

AT_ONCE = 500
TRIES = 3


class CohortRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def cohorts(
        self, project_id: ProjectId, *, limit: int, offset: int
    ) -> tuple[list[Cohort], int]:
        live = (table.c.project_id == project_id) & table.c.deleted.is_(False)

        def run(connection: Connection) -> tuple[list[Cohort], int]:
            count = connection.execute(
                select(func.count()).select_from(table).where(live)
            ).scalar_one()
            page = select(table).where(live).order_by(table.c.id.desc()).limit(limit).offset(offset)
            return [Cohort(**row._mapping) for row in connection.execute(page)], count

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
        decide: Callable[[Mapping[CohortId, Cohort], Askers], Cohort],
        tell: Callable[[Cohort | None, Cohort], Entry],
        now: datetime,
    ) -> Cohort:
        def change(connection: Connection) -> Cohort:
            lock = select(projects.c.id).where(projects.c.id == project_id).with_for_update()
            connection.execute(lock)
            live = (table.c.project_id == project_id) & table.c.deleted.is_(False)
            rows = connection.execute(select(table).where(live))
            present = {CohortId(row.id): Cohort(**row._mapping) for row in rows}
            wanted = decide(present, lambda id: _flags_asking_for(connection, project_id, id))
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
            activity.record(connection, tell(before, wanted), now)
            generations.advance(connection, topic_of(project_id))
            return wanted

        return await self._database.write(change)

    async def add_members(
        self, project_id: ProjectId, id: CohortId, distinct_ids: Sequence[str]
    ) -> int:
        ids = person_distinct_ids

        def change(connection: Connection) -> int:
            is_postgres = connection.dialect.name == "postgresql"
            into = (postgres_insert if is_postgres else sqlite_insert)(cohort_people)
            waiting = iter(dict.fromkeys(distinct_ids))
            while some := list(islice(waiting, AT_ONCE)):
                found = connection.execute(
                    select(ids.c.person_id)
                    .distinct()
                    .where((ids.c.project_id == project_id) & ids.c.distinct_id.in_(some))
                )
                rows = [{"person_id": row.person_id, "cohort_id": id} for row in found]
                if rows:
                    connection.execute(into.on_conflict_do_nothing(), rows)
            return _members(connection, [id])[id]

        for _ in range(TRIES - 1):
            # A person who is deleted meanwhile takes the others with them.
            with contextlib.suppress(IntegrityError):
                return await self._database.write(change)
        return await self._database.write(change)

    async def members(self, ids: Sequence[CohortId]) -> Mapping[CohortId, int]:
        return await self._database.read(lambda connection: _members(connection, ids))


def _members(connection: Connection, ids: Sequence[CohortId]) -> dict[CohortId, int]:
    if not ids:
        return {}
    of = cohort_people.c.cohort_id
    rows = connection.execute(
        select(of, func.count().label("number")).where(of.in_(ids)).group_by(of)
    )
    found = {row.cohort_id: row.number for row in rows}
    return {id: found.get(id, 0) for id in ids}


def _flags_asking_for(connection: Connection, project_id: ProjectId, id: CohortId) -> list[str]:
    own = (flags.c.project_id == project_id) & flags.c.deleted.is_(False)
    rows = connection.execute(select(flags.c.key, flags.c.filters).where(own).order_by(flags.c.key))
    return [row.key for row in rows if id in needed_cohorts(row.filters)]
