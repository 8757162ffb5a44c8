"""Feature flags. Changes to the flags of one project are serialized."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, bindparam, func, insert, select, text, update

from hedgerow.flags.approvals.consequence import Measurement, measure_change
from hedgerow.flags.evaluation.what_if import FlagVersionComparer
from hedgerow.flags.model import Bucketing, Flag, FlagDefinitions, FlagId, Runtime
from hedgerow.flags.store import FlagStore, FlagWrite
from hedgerow.lib.clock import utc_now
from hedgerow.persons.model import Cohort
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags import calls, experiment_state, owners, ready_behaviors
from hedgerow.storage.flags.approvals.approval_gate import WriteGate, run_gated
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import cohorts, group_types, projects
from hedgerow.storage.tables import flags as table

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

TOPIC = "flags:"
# Not `asdict`, which copies the filters, value by value.
_COLUMNS = tuple(each.name for each in fields(Flag) if each.name != "id")
# On PostgreSQL, other requests go on only while a statement runs.
MAX_BATCH_FLAGS = 50

# A flag's id, version, time of change and time of last call. The times stay as the driver returns
# them: converting thousands of timestamps would dominate the cost.
FlagVersion = tuple[Any, ...]
_select_versions = text(
    "SELECT id, version, updated_at, last_called_at FROM flags"
    " WHERE project_id = :project AND NOT deleted ORDER BY id"
)


_reserve = text(
    "SELECT nextval(pg_get_serial_sequence('flags', 'id')) FROM generate_series(1, :count)"
)
_update_by_id = (
    update(table)
    .where(table.c.id == bindparam("changed_id"))
    .values({name: bindparam(name) for name in _COLUMNS})
)


def flag_topic(project_id: ProjectId) -> str:
    """Return the topic that advances when anything changes that flag evaluation depends on."""
    return f"{TOPIC}{project_id}"


class SqlFlagStore(FlagStore):
    """Without `comparer`, no consequence of a change can be measured, so that a policy that depends
    on it always requires approval."""

    def __init__(self, database: Database, comparer: FlagVersionComparer | None = None) -> None:
        self._database = database
        self._comparer = comparer
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
        def change(connection: Connection, gate: WriteGate) -> Flag:
            definitions = self.lock_definitions(connection, project_id)
            write = decide(definitions, lambda id: find_flag(connection, project_id, id))
            flag, is_audited = store_flag(connection, write, now, gate)
            if is_audited:
                generations.advance(connection, flag_topic(project_id))
            return flag

        return await self.write_gated(change)

    async def write_gated(
        self, change: Callable[[Connection, WriteGate], T], timeout_s: float | None = None
    ) -> T:
        """Run a transaction that writes flags or cohorts. Raises ApprovalRequired if a write lacks
        approvals."""
        measure = None if self._comparer is None else self._measure
        list_flags = self._decode_cache.read_flags
        return await run_gated(self._database, change, measure, list_flags, timeout_s)

    async def _measure(self, measurement: Measurement) -> float | None:
        assert self._comparer is not None
        project_id = measurement.after.project_id
        definitions = await self._database.read_in_background(
            lambda connection: _read_definitions(
                connection, project_id, _read_timezone(connection, project_id), self._decode_cache
            )
        )
        return await measure_change(self._comparer, definitions, measurement, utc_now())

    async def write_all(
        self,
        project_id: ProjectId,
        work: Callable[[FlagDefinitions, Callable[[FlagWrite], Flag]], None],
        now: datetime,
    ) -> None:
        def change(connection: Connection, gate: WriteGate) -> None:
            any_audited = False

            def store(write: FlagWrite) -> Flag:
                nonlocal any_audited
                flag, is_audited = store_flag(connection, write, now, gate)
                any_audited |= is_audited
                return flag

            work(self.lock_definitions(connection, project_id), store)
            if any_audited:
                generations.advance(connection, flag_topic(project_id))

        await self.write_gated(change)

    def lock_definitions(self, connection: Connection, project_id: ProjectId) -> FlagDefinitions:
        lock_project(connection, project_id)
        timezone = _read_timezone(connection, project_id)
        return _read_definitions(connection, project_id, timezone, self._decode_cache)


def _read_timezone(connection: Connection, project_id: ProjectId) -> str:
    zone = select(projects.c.timezone).where(projects.c.id == project_id)
    timezone: str = connection.execute(zone).scalar_one()
    return timezone


class FlagDecodeCache:
    """Decoded flags by project. Reading all of them because one changed would delay requests, and
    the change: a hundred take twice as long as one."""

    def __init__(self) -> None:
        self._flags: dict[ProjectId, dict[FlagVersion, Flag]] = {}

    def read_flags(self, connection: Connection, project_id: ProjectId) -> list[Flag]:
        marks = [
            tuple(row) for row in connection.execute(_select_versions, {"project": project_id})
        ]
        known = self._flags.get(project_id, {})
        changed = [mark[0] for mark in marks if mark not in known]
        wanted = (table.c.project_id == project_id) & ~table.c.deleted
        if len(changed) < len(marks):
            wanted &= table.c.id.in_(changed)
        rows = connection.execute(select(table).where(wanted)) if changed else ()
        read = {row.id: decode_flag(row) for row in rows}
        flags = {mark: read.get(mark[0]) or known[mark] for mark in marks}
        self._flags[project_id] = flags
        return list(flags.values())


class FlagBatch:
    """Collects the changes of many flags of one project, so that they take few statements.
    `present` are its flags as they are stored. All batches of a transaction share `ids`. Call
    `flush` at the end of the transaction."""

    def __init__(
        self, connection: Connection, present: Iterable[Flag], now: datetime, ids: "FlagIds"
    ) -> None:
        self._connection = connection
        self._ids = ids
        self._now = now
        self._present = {flag.id: flag for flag in present}
        self._new_rows: list[dict[str, Any]] = []
        self._rows: list[dict[str, Any]] = []
        self._entries: list[ActivityEntry] = []

    def find(self, id: FlagId) -> Flag | None:
        return self._present.get(id)

    def write_row(self, flag: Flag) -> Flag:
        if not flag.id:
            flag = replace(flag, id=self._ids.take())
            self._new_rows.append({**_to_values(flag), "id": flag.id})
            return flag
        self._rows.append({**_to_values(flag), "changed_id": flag.id})
        return flag

    def record(self, entry: ActivityEntry) -> None:
        self._entries.append(entry)
        if len(self._entries) >= MAX_BATCH_FLAGS:
            self.flush()

    def flush(self) -> None:
        if self._new_rows:
            self._connection.execute(insert(table), self._new_rows)
            self._new_rows = []
        if self._rows:
            self._connection.execute(_update_by_id, self._rows)
        activity.record_all(self._connection, self._entries, self._now)
        self._rows, self._entries = [], []


class FlagIds:
    """Ids of new flags before they are stored: others may refer to them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._free: list[FlagId] = []
        self._last = 0

    def take(self) -> FlagId:
        if not self._free:
            self._free = self._reserve(MAX_BATCH_FLAGS)
        self._last = self._free.pop(0)
        return FlagId(self._last)

    def _reserve(self, count: int) -> list[FlagId]:
        if self._connection.dialect.name == "postgresql":
            reserved = self._connection.execute(_reserve, {"count": count}).scalars()
            return [FlagId(id) for id in reserved]
        stored = self._connection.execute(select(func.max(table.c.id))).scalar() or 0
        last = max(stored, self._last)
        return [FlagId(last + number) for number in range(1, count + 1)]


def store_flag(
    connection: Connection,
    write: FlagWrite,
    now: datetime,
    gate: WriteGate,
    batch: FlagBatch | None = None,
) -> tuple[Flag, bool]:
    """Store a flag and its activity entry. Every write of a flag comes through here, and none
    without a gate. Raises AppError before anything is written. With a batch, it is stored when the
    batch is flushed."""
    before = None
    if write.flag.id:
        find = batch.find if batch else partial(find_flag, connection, write.flag.project_id)
        before = find(write.flag.id)
        owners.check_owners_unaffected(connection, before, write.flag)
        experiment_state.check_experiments_unaffected(connection, before, write.flag)
    gate.admit_flag(connection, before, write.flag, now)
    flag = batch.write_row(write.flag) if batch else _write_row(connection, write.flag)
    entry = write.build_entry(flag)
    if entry is not None and batch:
        batch.record(entry)
    elif entry is not None:
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
        behaviors=ready_behaviors.read_ready(connection, project_id),
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
            "owners": _parse_strings(row.owners),
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


def _to_values(flag: Flag) -> dict[str, Any]:
    return {name: getattr(flag, name) for name in _COLUMNS} | {
        "evaluation_runtime": flag.evaluation_runtime.value,
        "bucketing_identifier": flag.bucketing_identifier.value,
        "evaluation_contexts": list(flag.evaluation_contexts),
        "tags": list(flag.tags),
        "owners": list(flag.owners),
    }


def _write_row(connection: Connection, flag: Flag) -> Flag:
    values = _to_values(flag)
    if flag.id:
        connection.execute(update(table).where(table.c.id == flag.id).values(**values))
        return flag
    id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
    return replace(flag, id=FlagId(id))
