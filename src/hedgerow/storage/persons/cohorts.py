"""Cohorts and the members of static cohorts."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from itertools import islice

from sqlalchemy import Connection, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from hedgerow.flags.approvals.model import ApprovalRequired
from hedgerow.flags.model import Flag, FlagDefinitions
from hedgerow.flags.validate import referenced_cohort_ids
from hedgerow.lib.clock import utc_now
from hedgerow.persons.behaviors.filters import iterate_behavioral_filters
from hedgerow.persons.cohort_graph import CohortGraph, collect_definitions
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.persons.store import CohortStore, FlagsUsingCohort
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk, generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.flags.approvals.approval_gate import WriteGate, read_policies_in_force
from hedgerow.storage.flags.flags import SqlFlagStore, flag_topic
from hedgerow.storage.persons.behaviors import sync_behaviors
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import cohort_people, flags, person_distinct_ids
from hedgerow.storage.tables import cohorts as table

BATCH_SIZE = 500
MEMBERS_REQUIRE = (
    "Flags use this cohort, so that new members require approval: {}. A change request cannot hold "
    "a list of persons: create another cohort with them, and request to use it in the flag."
)
MAX_ATTEMPTS = 3


class SqlCohortStore(CohortStore):
    def __init__(self, database: Database, flags: SqlFlagStore | None = None) -> None:
        self._database = database
        self._flags = flags or SqlFlagStore(database)

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

        # All of a project may have several megabytes.
        return await self._database.read_in_background(run)

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
        def change(connection: Connection, gate: WriteGate) -> Cohort:
            lock_project(connection, project_id)
            live = (table.c.project_id == project_id) & table.c.deleted.is_(False)
            rows = connection.execute(select(table).where(live))
            present = {CohortId(row.id): Cohort(**row._mapping) for row in rows}
            wanted = decide(present, lambda id: _flags_using(connection, project_id, id))
            before = present.get(wanted.id)
            if wanted == before:
                return wanted
            if before is not None and wanted.definition != before.definition:
                self._check_gate(connection, gate, before, wanted, now)
            wanted = write_cohort_row(connection, wanted)
            activity.record(connection, build_entry(before, wanted), now)
            generations.advance(connection, flag_topic(project_id))
            if any(is_behavioral(each) for each in (before, wanted)):
                sync_behaviors(connection, project_id, now)
            return wanted

        return await self._flags.write_gated(change)

    def _check_gate(
        self,
        connection: Connection,
        gate: WriteGate,
        before: Cohort,
        after: Cohort,
        now: datetime,
    ) -> None:
        """Raise ApprovalRequired if the cohort decides who gets a flag whose changes require
        approval."""
        if not read_policies_in_force(connection, after.project_id):
            return
        definitions = self._flags.lock_definitions(connection, after.project_id)
        flags = flags_using_cohort(definitions, after.id)
        gate.admit_cohort(connection, before, after, flags, now)

    async def add_members(
        self, project_id: ProjectId, id: CohortId, distinct_ids: Sequence[str]
    ) -> int:
        ids = person_distinct_ids

        def change(connection: Connection, gate: WriteGate) -> int:
            self._check_members(connection, gate, project_id, id)
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
                return await self._flags.write_gated(change)
        return await self._flags.write_gated(change)

    def _check_members(
        self, connection: Connection, gate: WriteGate, project_id: ProjectId, id: CohortId
    ) -> None:
        """New members of a cohort get the flags that use it. How many is not measured."""
        own = (table.c.project_id == project_id) & (table.c.id == id)
        row = connection.execute(select(table).where(own)).one_or_none()
        if row is None:
            return
        cohort = Cohort(**row._mapping)
        try:
            self._check_gate(connection, gate.without_measure(), cohort, cohort, utc_now())
        except ApprovalRequired as error:
            needed = "; ".join(each.describe() for each in error.required)
            raise ApprovalRequired(error.required, MEMBERS_REQUIRE.format(needed)) from None

    async def count_members(self, ids: Sequence[CohortId]) -> Mapping[CohortId, int]:
        return await self._database.read(lambda connection: _count_members(connection, ids))


def is_behavioral(cohort: Cohort | None) -> bool:
    return cohort is not None and any(iterate_behavioral_filters(cohort.definition))


def _count_members(connection: Connection, ids: Sequence[CohortId]) -> dict[CohortId, int]:
    if not ids:
        return {}
    of = cohort_people.c.cohort_id
    rows = connection.execute(
        select(of, func.count().label("number")).where(of.in_(ids)).group_by(of)
    )
    found = {row.cohort_id: row.number for row in rows}
    return {id: found.get(id, 0) for id in ids}


def write_cohort_row(connection: Connection, cohort: Cohort) -> Cohort:
    """Store a cohort; a new one gets its id."""
    values = asdict(cohort) | {"definition": dict(cohort.definition)}
    del values["id"]
    if cohort.id:
        connection.execute(update(table).where(table.c.id == cohort.id).values(**values))
        return cohort
    id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
    return replace(cohort, id=CohortId(id))


def flags_using_cohort(definitions: FlagDefinitions, id: CohortId) -> list[Flag]:
    """Return the flags that use a cohort, directly or through other cohorts."""
    graph = CohortGraph(collect_definitions(definitions.cohorts))
    ids = {id, *graph.find_users(id)}
    return [
        flag
        for flag in definitions.flags
        if not ids.isdisjoint(referenced_cohort_ids(flag.filters))
    ]


def _flags_using(connection: Connection, project_id: ProjectId, id: CohortId) -> list[str]:
    own = (flags.c.project_id == project_id) & flags.c.deleted.is_(False)
    rows = connection.execute(select(flags.c.key, flags.c.filters).where(own).order_by(flags.c.key))
    return [row.key for row in rows if id in referenced_cohort_ids(row.filters)]
