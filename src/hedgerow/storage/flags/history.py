"""Flags, cohorts and changes of persons at an earlier time, from the activity log."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, func, select

from hedgerow.errors import Invalid
from hedgerow.events.deletion import SCOPE as EVENT_SCOPE
from hedgerow.flags.history.rewind import SCOPES, PastDefinitions, Rewinder
from hedgerow.flags.history.store import FlagHistoryStore, GroupState
from hedgerow.persons.admin_actions import SCOPE as PERSON_SCOPE
from hedgerow.persons.model import Cohort
from hedgerow.projects.activity import RecordedActivity
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags.flags import decode_flag
from hedgerow.storage.flags.ready_behaviors import read_ready
from hedgerow.storage.projects.activity import decode_entry
from hedgerow.storage.tables import activity, cohorts, flags, groups

PAGE_ENTRIES = 500
MAX_ENTRIES = 50_000
MAX_PERSON_CHANGES = 100
MAX_DELETIONS = 100
# Entries of concurrent changes can have ids in another order than their times.
MAX_DISORDER = timedelta(minutes=1)


class SqlFlagHistory(FlagHistoryStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def rewind(self, project_id: ProjectId, to: datetime) -> PastDefinitions:
        def run(connection: Connection) -> PastDefinitions:
            rewinder = Rewinder(
                to,
                {
                    row.id: decode_flag(row)
                    for row in connection.execute(
                        select(flags).where(flags.c.project_id == project_id)
                    )
                },
                {
                    row.id: Cohort(**row._mapping)
                    for row in connection.execute(
                        select(cohorts).where(cohorts.c.project_id == project_id)
                    )
                },
            )
            for each in _read_entries(connection, project_id, to - MAX_DISORDER):
                rewinder.undo(each)
            return replace(rewinder.finish(), behaviors=read_ready(connection, project_id))

        return await self._database.read_in_background(run)

    async def group(self, project_id: ProjectId, type_index: int, key: str) -> GroupState | None:
        wanted = select(groups.c.properties, groups.c.updated_at).where(
            (groups.c.project_id == project_id)
            & (groups.c.type_index == type_index)
            & (groups.c.key == key)
        )

        def run(connection: Connection) -> GroupState | None:
            row = connection.execute(wanted).one_or_none()
            return None if row is None else GroupState(**row._mapping)

        return await self._database.read(run)

    async def person_changes(
        self, project_id: ProjectId, uuids: Sequence[str]
    ) -> Sequence[RecordedActivity]:
        wanted = (
            select(activity)
            .where(
                (activity.c.scope == PERSON_SCOPE)
                & activity.c.item_id.in_(uuids)
                & (activity.c.project_id == project_id)
            )
            .order_by(activity.c.id.desc())
            .limit(MAX_PERSON_CHANGES)
        )
        return await self._database.read(
            lambda connection: [decode_entry(row) for row in connection.execute(wanted)]
        )

    async def count_deletions(self, project_id: ProjectId, since: datetime) -> int:
        some = (
            select(activity.c.id)
            .where(
                (activity.c.project_id == project_id)
                & activity.c.scope.in_((PERSON_SCOPE, EVENT_SCOPE))
                & (activity.c.activity == "deleted")
                & (activity.c.created_at > since)
            )
            .limit(MAX_DELETIONS)
        )
        count = select(func.count()).select_from(some.subquery())
        return await self._database.read_in_background(
            lambda connection: connection.execute(count).scalar_one()
        )


def _read_entries(
    connection: Connection, project_id: ProjectId, since: datetime
) -> Iterator[RecordedActivity]:
    """Yield the changes of flags and cohorts since then, newest first."""
    wanted = (
        select(activity)
        .where((activity.c.project_id == project_id) & activity.c.scope.in_(SCOPES))
        .order_by(activity.c.id.desc())
        .limit(PAGE_ENTRIES)
    )
    page = connection.execute(wanted).all()
    for _ in range(MAX_ENTRIES // PAGE_ENTRIES):
        for row in page:
            if row.created_at < since:
                return
            yield decode_entry(row)
        if len(page) < PAGE_ENTRIES:
            return
        page = connection.execute(wanted.where(activity.c.id < page[-1].id)).all()
    raise Invalid(
        f"More than {MAX_ENTRIES:,} changes of flags are recorded since then. Choose a later time.",
        attr="timestamp",
    )
