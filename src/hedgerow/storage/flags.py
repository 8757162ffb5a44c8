"""Flags' SQL. Changes of one project's flags run one after another."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, insert, select, text, update

from hedgerow.flags.model import Bucketing, Definitions, Flag, FlagId, Runtime
from hedgerow.flags.store import FlagWrite
from hedgerow.persons.model import Cohort
from hedgerow.projects.model import ProjectId
from hedgerow.storage import activity, flag_calls, flag_experiments, flag_owners, generations
from hedgerow.storage.database import Database
from hedgerow.storage.locks import lock_project
from hedgerow.storage.tables import cohorts, group_types, projects
from hedgerow.storage.tables import flags as table

E = TypeVar("E", bound=StrEnum)

TOPIC = "flags:"
# So few flags are read anew each time.
FEW = 200

# A flag's id, version and times of change and call, those as the driver gives them: making
# thousands of moments of them takes longer than all else.
Mark = tuple[Any, ...]
_marks = text(
    "SELECT id, version, updated_at, last_called_at FROM flags"
    " WHERE project_id = :project AND NOT deleted ORDER BY id"
)


def topic_of(project_id: ProjectId) -> str:
    """What moves when anything changes that decides what flags evaluate to."""
    return f"{TOPIC}{project_id}"


class FlagRecords:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._decoded = Decoded()

    async def generation(self, project_id: ProjectId) -> int:
        return await generations.number_of(self._database, topic_of(project_id))

    async def generations(self) -> Mapping[ProjectId, int]:
        return await generations.project_numbers(self._database, TOPIC)

    async def definitions(self, project_id: ProjectId, timezone: str) -> Definitions:
        return await self._database.read(
            lambda connection: _definitions(connection, project_id, timezone, self._decoded)
        )

    async def flag(self, project_id: ProjectId, id: FlagId) -> Flag | None:
        return await self._database.read(lambda connection: find_flag(connection, project_id, id))

    async def held(self, project_id: ProjectId) -> Mapping[FlagId, str]:
        return await self._database.read(
            lambda connection: flag_owners.reasons_to_keep(connection, project_id)
        )

    async def call_counts(self, project_id: ProjectId, flag_key: str) -> Mapping[str, int]:
        return await self._database.read(
            lambda connection: flag_calls.by_response(connection, project_id, flag_key)
        )

    async def write(
        self,
        project_id: ProjectId,
        decide: Callable[[Definitions, Callable[[FlagId], Flag | None]], FlagWrite],
        now: datetime,
    ) -> Flag:
        def change(connection: Connection) -> Flag:
            definitions = self.locked_definitions(connection, project_id)
            wish = decide(definitions, lambda id: find_flag(connection, project_id, id))
            flag, is_told = store_and_tell(connection, wish, now)
            if is_told:
                generations.advance(connection, topic_of(project_id))
            return flag

        return await self._database.write(change)

    async def write_all(
        self,
        project_id: ProjectId,
        work: Callable[[Definitions, Callable[[FlagWrite], Flag]], None],
        now: datetime,
    ) -> None:
        def change(connection: Connection) -> None:
            any_told = False

            def store(wish: FlagWrite) -> Flag:
                nonlocal any_told
                flag, is_told = store_and_tell(connection, wish, now)
                any_told |= is_told
                return flag

            work(self.locked_definitions(connection, project_id), store)
            if any_told:
                generations.advance(connection, topic_of(project_id))

        await self._database.write(change)

    def locked_definitions(self, connection: Connection, project_id: ProjectId) -> Definitions:
        lock_project(connection, project_id)
        zone = select(projects.c.timezone).where(projects.c.id == project_id)
        timezone = connection.execute(zone).scalar_one()
        return _definitions(connection, project_id, timezone, self._decoded)


class Decoded:
    """Flags as they were read last, by project. Reading thousands anew because one has changed
    would keep requests waiting."""

    def __init__(self) -> None:
        self._flags: dict[ProjectId, dict[Mark, Flag]] = {}

    def flags(self, connection: Connection, project_id: ProjectId) -> list[Flag]:
        marks = [tuple(row) for row in connection.execute(_marks, {"project": project_id})]
        known = self._flags.get(project_id, {}) if len(marks) > FEW else {}
        changed = [mark[0] for mark in marks if mark not in known]
        wanted = (table.c.project_id == project_id) & ~table.c.deleted
        if len(changed) < len(marks):
            wanted &= table.c.id.in_(changed)
        rows = connection.execute(select(table).where(wanted)) if changed else ()
        read = {row.id: _flag(row) for row in rows}
        flags = {mark: read.get(mark[0]) or known[mark] for mark in marks}
        self._flags[project_id] = flags
        return list(flags.values())


def store_and_tell(connection: Connection, wish: FlagWrite, now: datetime) -> tuple[Flag, bool]:
    if wish.flag.id:
        before = find_flag(connection, wish.flag.project_id, wish.flag.id)
        flag_owners.check_none_disturbed(connection, before, wish.flag)
        flag_experiments.check_none_disturbed(connection, before, wish.flag)
    flag = _store(connection, wish.flag)
    entry = wish.tell(flag)
    if entry is not None:
        activity.record(connection, entry, now)
    return flag, entry is not None


def _definitions(
    connection: Connection, project_id: ProjectId, timezone: str, decoded: Decoded
) -> Definitions:
    kinds = connection.execute(
        select(group_types.c.name, group_types.c.index).where(
            group_types.c.project_id == project_id
        )
    )
    return Definitions(
        generation=generations.current(connection, topic_of(project_id)),
        flags=decoded.flags(connection, project_id),
        cohorts=[
            Cohort(**row._mapping)
            for row in connection.execute(
                select(cohorts)
                .where((cohorts.c.project_id == project_id) & ~cohorts.c.deleted)
                .order_by(cohorts.c.id)
            )
        ],
        group_types=dict(kinds.all()),
        timezone=timezone,
    )


def _flag(row: Row[Any]) -> Flag:
    return Flag(
        **{
            **row._mapping,
            "evaluation_runtime": member(Runtime, row.evaluation_runtime, Runtime.ALL),
            "bucketing_identifier": member(
                Bucketing, row.bucketing_identifier, Bucketing.DISTINCT_ID
            ),
            "evaluation_contexts": _texts(row.evaluation_contexts),
            "tags": _texts(row.tags),
        }
    )


# What was stored and means nothing here may not take the project's other flags with it.


def member(kind: type[E], value: str, default: E) -> E:
    return kind(value) if value in kind._value2member_map_ else default


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def find_flag(connection: Connection, project_id: ProjectId, id: FlagId) -> Flag | None:
    row = connection.execute(
        select(table).where((table.c.project_id == project_id) & (table.c.id == id))
    ).one_or_none()
    return None if row is None else _flag(row)


def find_flags(
    connection: Connection, project_id: ProjectId, ids: Collection[FlagId]
) -> dict[FlagId, Flag]:
    """Those that there are, also deleted ones."""
    if not ids:
        return {}
    wanted = (table.c.project_id == project_id) & table.c.id.in_(ids)
    return {row.id: _flag(row) for row in connection.execute(select(table).where(wanted))}


def _store(connection: Connection, flag: Flag) -> Flag:
    values = asdict(flag) | {
        "filters": flag.filters,
        "evaluation_runtime": flag.evaluation_runtime.value,
        "bucketing_identifier": flag.bucketing_identifier.value,
        "evaluation_contexts": list(flag.evaluation_contexts),
        "tags": list(flag.tags),
    }
    del values["id"]
    if flag.id:
        connection.execute(update(table).where(table.c.id == flag.id).values(**values))
        return flag
    id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
    return replace(flag, id=FlagId(id))
