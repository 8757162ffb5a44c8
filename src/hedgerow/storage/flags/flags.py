"""Feature flags. Changes to the flags of one project are serialized."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, insert, select, text, update

from hedgerow.flags.model import Bucketing, Flag, FlagDefinitions, FlagId, Runtime
from hedgerow.flags.store import FlagStore, FlagWrite
from hedgerow.persons.model import Cohort
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags import calls, experiment_state, owners
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import cohorts, group_types, projects
from hedgerow.storage.tables import flags as table

E = TypeVar("E", bound=StrEnum)

TOPIC = "flags:"
# With fewer flags, decoding all of them is fast enough.
DECODE_CACHE_MIN_FLAGS = 200

# A flag's id, version, time of change and time of last call. The times stay as the driver returns
# them: converting thousands of timestamps would dominate the cost.
FlagVersion = tuple[Any, ...]
_select_versions = text(
    "SELECT id, version, updated_at, last_called_at FROM flags"
    " WHERE project_id = :project AND NOT deleted ORDER BY id"
)


def flag_topic(project_id: ProjectId) -> str:
    """Return the topic that advances when anything changes that flag evaluation depends on."""
    return f"{TOPIC}{project_id}"


class SqlFlagStore(FlagStore):
    def __init__(self, database: Database) -> None:
        self._database = database
        self._decode_cache = FlagDecodeCache()

    async def generation(self, project_id: ProjectId) -> int:
        return await generations.fetch_generation(self._database, flag_topic(project_id))

    async def generations(self) -> Mapping[ProjectId, int]:
        return await generations.fetch_project_generations(self._database, TOPIC)

    async def definitions(self, project_id: ProjectId, timezone: str) -> FlagDefinitions:
        return await self._database.read_in_background(
            lambda connection: _read_definitions(
                connection, project_id, timezone, self._decode_cache
            )
        )

    async def flag(self, project_id: ProjectId, id: FlagId) -> Flag | None:
        return await self._database.read(lambda connection: find_flag(connection, project_id, id))

    async def deletion_blockers(self, project_id: ProjectId) -> Mapping[FlagId, str]:
        return await self._database.read(
            lambda connection: owners.list_deletion_blockers(connection, project_id)
        )

    async def call_counts(self, project_id: ProjectId, flag_key: str) -> Mapping[str, int]:
        return await self._database.read(
            lambda connection: calls.count_by_response(connection, project_id, flag_key)
        )

    async def write(
        self,
        project_id: ProjectId,
        decide: Callable[[FlagDefinitions, Callable[[FlagId], Flag | None]], FlagWrite],
        now: datetime,
    ) -> Flag:
        def change(connection: Connection) -> Flag:
            definitions = self.lock_definitions(connection, project_id)
            write = decide(definitions, lambda id: find_flag(connection, project_id, id))
            flag, is_audited = store_flag(connection, write, now)
            if is_audited:
                generations.advance(connection, flag_topic(project_id))
            return flag

        return await self._database.write(change)

    async def write_all(
        self,
        project_id: ProjectId,
        work: Callable[[FlagDefinitions, Callable[[FlagWrite], Flag]], None],
        now: datetime,
    ) -> None:
        def change(connection: Connection) -> None:
            any_audited = False

            def store(write: FlagWrite) -> Flag:
                nonlocal any_audited
                flag, is_audited = store_flag(connection, write, now)
                any_audited |= is_audited
                return flag

            work(self.lock_definitions(connection, project_id), store)
            if any_audited:
                generations.advance(connection, flag_topic(project_id))

        await self._database.write(change)

    def lock_definitions(self, connection: Connection, project_id: ProjectId) -> FlagDefinitions:
        lock_project(connection, project_id)
        zone = select(projects.c.timezone).where(projects.c.id == project_id)
        timezone = connection.execute(zone).scalar_one()
        return _read_definitions(connection, project_id, timezone, self._decode_cache)


class FlagDecodeCache:
    """Decoded flags by project. Decoding thousands because one changed would delay requests."""

    def __init__(self) -> None:
        self._flags: dict[ProjectId, dict[FlagVersion, Flag]] = {}

    def read_flags(self, connection: Connection, project_id: ProjectId) -> list[Flag]:
        marks = [
            tuple(row) for row in connection.execute(_select_versions, {"project": project_id})
        ]
        known = self._flags.get(project_id, {}) if len(marks) > DECODE_CACHE_MIN_FLAGS else {}
        changed = [mark[0] for mark in marks if mark not in known]
        wanted = (table.c.project_id == project_id) & ~table.c.deleted
        if len(changed) < len(marks):
            wanted &= table.c.id.in_(changed)
        rows = connection.execute(select(table).where(wanted)) if changed else ()
        read = {row.id: decode_flag(row) for row in rows}
        flags = {mark: read.get(mark[0]) or known[mark] for mark in marks}
        self._flags[project_id] = flags
        return list(flags.values())


def store_flag(connection: Connection, write: FlagWrite, now: datetime) -> tuple[Flag, bool]:
    if write.flag.id:
        before = find_flag(connection, write.flag.project_id, write.flag.id)
        owners.check_owners_unaffected(connection, before, write.flag)
        experiment_state.check_experiments_unaffected(connection, before, write.flag)
    flag = _write_row(connection, write.flag)
    entry = write.build_entry(flag)
    if entry is not None:
        activity.record(connection, entry, now)
    return flag, entry is not None


def _read_definitions(
    connection: Connection, project_id: ProjectId, timezone: str, decoded: FlagDecodeCache
) -> FlagDefinitions:
    kinds = connection.execute(
        select(group_types.c.name, group_types.c.index).where(
            group_types.c.project_id == project_id
        )
    )
    return FlagDefinitions(
        generation=generations.read_generation(connection, flag_topic(project_id)),
        flags=decoded.read_flags(connection, project_id),
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


def decode_flag(row: Row[Any]) -> Flag:
    return Flag(
        **{
            **row._mapping,
            "evaluation_runtime": parse_member(Runtime, row.evaluation_runtime, Runtime.ALL),
            "bucketing_identifier": parse_member(
                Bucketing, row.bucketing_identifier, Bucketing.DISTINCT_ID
            ),
            "evaluation_contexts": _parse_strings(row.evaluation_contexts),
            "tags": _parse_strings(row.tags),
        }
    )


# Unknown stored values, written by a newer version, must not break the project's other flags.


def parse_member(kind: type[E], value: str, default: E) -> E:
    return kind(value) if value in kind._value2member_map_ else default


def _parse_strings(value: Any) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def find_flag(connection: Connection, project_id: ProjectId, id: FlagId) -> Flag | None:
    row = connection.execute(
        select(table).where((table.c.project_id == project_id) & (table.c.id == id))
    ).one_or_none()
    return None if row is None else decode_flag(row)


def find_flags(
    connection: Connection, project_id: ProjectId, ids: Collection[FlagId]
) -> dict[FlagId, Flag]:
    """Return the existing ones, including deleted flags."""
    if not ids:
        return {}
    wanted = (table.c.project_id == project_id) & table.c.id.in_(ids)
    return {row.id: decode_flag(row) for row in connection.execute(select(table).where(wanted))}


def _write_row(connection: Connection, flag: Flag) -> Flag:
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
