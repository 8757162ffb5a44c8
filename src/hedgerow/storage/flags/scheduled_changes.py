"""Scheduled changes of flags, and their execution together with the change of the flag."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from hedgerow.flags.approvals.model import ChangeRequest, RequestState
from hedgerow.flags.approvals.schedules import is_approved
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.schedules.model import ScheduledChange, ScheduledChangeId
from hedgerow.flags.schedules.store import (
    Execution,
    ScheduleContext,
    ScheduledChangeFilter,
    ScheduledChangeStore,
    ScheduleWrite,
)
from hedgerow.projects.activity import ActivityEntry, Actor
from hedgerow.projects.model import ProjectId
from hedgerow.projects.recurrence import Frequency
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import AnyRow, Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.flags.approvals.approval_gate import WriteGate
from hedgerow.storage.flags.approvals.change_request_rows import end_request, find_request
from hedgerow.storage.flags.flags import SqlFlagStore, find_flag, flag_topic, store_flag
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import flags
from hedgerow.storage.tables import scheduled_changes as table

_any_waiting = AnyRow(table.c.executed_at.is_(None))


class SqlScheduledChangeStore(ScheduledChangeStore):
    def __init__(self, database: Database, flags: SqlFlagStore) -> None:
        self._database = database
        self._flags = flags

    async def scheduled_changes(
        self, project_id: ProjectId, wanted: ScheduledChangeFilter
    ) -> tuple[Sequence[ScheduledChange], int]:
        own = table.c.project_id == project_id
        if wanted.flag_id is not None:
            own &= table.c.flag_id == wanted.flag_id
        if wanted.search:
            found = func.lower(flags.c.key).contains(wanted.search.lower(), autoescape=True)
            named = select(flags.c.id).where((flags.c.project_id == project_id) & found)
            own &= table.c.flag_id.in_(named)
        if wanted.is_pending is not None:
            own &= table.c.executed_at.is_(None) if wanted.is_pending else _has_ended()
        page = select(table).where(own).order_by(table.c.scheduled_at, table.c.id)

        def read(connection: Connection) -> tuple[Sequence[ScheduledChange], int]:
            rows, total = read_page(connection, page, limit=wanted.limit, offset=wanted.offset)
            return [_decode(row) for row in rows], total

        return await self._database.read(read)

    async def flag_keys(
        self, project_id: ProjectId, ids: Collection[FlagId]
    ) -> Mapping[FlagId, str]:
        own = (flags.c.project_id == project_id) & flags.c.id.in_(ids)
        keys = select(flags.c.id, flags.c.key).where(own)
        return await self._database.read(
            lambda connection: {row.id: row.key for row in connection.execute(keys)}
        )

    async def scheduled_change(
        self, project_id: ProjectId, id: ScheduledChangeId
    ) -> ScheduledChange | None:
        return await self._database.read(
            lambda connection: find_scheduled_change(connection, project_id, id)
        )

    async def write(
        self,
        project_id: ProjectId,
        decide: Callable[[ScheduleContext], Sequence[ScheduleWrite]],
        now: datetime,
    ) -> Sequence[ScheduledChange]:
        def change(connection: Connection) -> list[ScheduledChange]:
            definitions = self._flags.lock_definitions(connection, project_id)
            context = _build_context(connection, project_id, definitions)
            writes = decide(context)
            before = [context.find(each.change.id) for each in writes]
            stored = [_store(connection, write, now) for write in writes]
            for old, new in zip(before, stored, strict=True):
                if old is not None and old.change_request_id != new.change_request_id:
                    ended = RequestState.WITHDRAWN
                    _end_unused_request(connection, old, ended, new.author, now)
            return stored

        return await self._database.write(change)

    async def delete(self, change: ScheduledChange, entry: ActivityEntry, now: datetime) -> bool:
        def run(connection: Connection) -> bool:
            if not connection.execute(delete(table).where(_is_unchanged(change))).rowcount:
                return False
            activity.record(connection, entry, now)
            _end_unused_request(connection, change, RequestState.WITHDRAWN, entry.actor, now)
            return True

        return await self._database.write(run)

    async def due(self, now: datetime, limit: int) -> Sequence[ScheduledChange]:
        if not await _any_waiting.is_in(self._database):
            return []
        is_due = table.c.executed_at.is_(None) & (table.c.scheduled_at <= now)
        order = table.c.scheduled_at, table.c.id
        turn = func.row_number().over(partition_by=table.c.project_id, order_by=order)
        first = select(table).where(is_due).order_by(turn, *order).limit(limit)
        return await self._database.read(
            lambda connection: [_decode(row) for row in connection.execute(first)]
        )

    async def execute(
        self,
        change: ScheduledChange,
        decide: Callable[[FlagDefinitions, Flag | None], Execution],
        now: datetime,
    ) -> bool:
        project_id = change.project_id

        def run(connection: Connection, gate: WriteGate) -> bool:
            # Another process waits here until this one has stored the outcome.
            definitions = self._flags.lock_definitions(connection, project_id)
            if find_scheduled_change(connection, project_id, change.id) != change:
                return False
            flag = find_flag(connection, project_id, change.flag_id)
            execution = decide(definitions, flag)
            request = _find_approval(connection, change, flag)
            own = gate if request is None else gate.with_approved(request)
            _, is_audited = store_flag(connection, execution.write, now, own)
            if is_audited:
                generations.advance(connection, flag_topic(project_id))
            _write_row(connection, execution.after)
            ended = RequestState.APPLIED if request else RequestState.WITHDRAWN
            _end_unused_request(connection, change, ended, change.author, now)
            return True

        return await self._flags.write_gated(run)

    async def save_failure(self, before: ScheduledChange, after: ScheduledChange) -> bool:
        values = _to_values(after)
        failed = update(table).where(_is_unchanged(before)).values(values)

        def run(connection: Connection) -> bool:
            if not connection.execute(failed).rowcount:
                return False
            ended, now = RequestState.WITHDRAWN, after.updated_at
            _end_unused_request(connection, before, ended, before.author, now)
            return True

        return await self._database.write(run)


def _find_approval(
    connection: Connection, change: ScheduledChange, flag: Flag | None
) -> ChangeRequest | None:
    """Return the request whose approvals hold for exactly this change of the flag as it is."""
    if change.change_request_id is None or flag is None:
        return None
    request = find_request(connection, change.project_id, change.change_request_id)
    return request if request and is_approved(request, change, flag) else None


def _end_unused_request(
    connection: Connection,
    change: ScheduledChange,
    state: RequestState,
    actor: Actor,
    now: datetime,
) -> None:
    """End the request of a change, unless it holds for others to come."""
    if change.change_request_id is None:
        return
    own = (table.c.project_id == change.project_id) & table.c.executed_at.is_(None)
    waiting = select(table.c.id).where(
        own & (table.c.change_request_id == change.change_request_id)
    )
    if connection.execute(waiting.limit(1)).first() is not None:
        return
    request = find_request(connection, change.project_id, change.change_request_id)
    if request is not None and request.state in (RequestState.PENDING, RequestState.APPROVED):
        end_request(connection, request, state, actor, now)


def _has_ended() -> ColumnElement[bool]:
    return table.c.executed_at.is_not(None)


def _is_unchanged(change: ScheduledChange) -> ColumnElement[bool]:
    return (table.c.id == change.id) & (table.c.updated_at == change.updated_at)


def _build_context(
    connection: Connection, project_id: ProjectId, definitions: FlagDefinitions
) -> ScheduleContext:
    pending = (table.c.project_id == project_id) & table.c.executed_at.is_(None)
    number = select(func.count()).select_from(table).where(pending)
    return ScheduleContext(
        find=lambda id: find_scheduled_change(connection, project_id, id),
        find_flag=lambda id: find_flag(connection, project_id, id),
        definitions=definitions,
        pending=connection.execute(number).scalar_one(),
    )


def _store(connection: Connection, write: ScheduleWrite, now: datetime) -> ScheduledChange:
    stored = _write_row(connection, write.change)
    if (entry := write.build_entry(stored)) is not None:
        activity.record(connection, entry, now)
    return stored


def find_scheduled_change(
    connection: Connection, project_id: ProjectId, id: ScheduledChangeId
) -> ScheduledChange | None:
    own = (table.c.project_id == project_id) & (table.c.id == id)
    row = connection.execute(select(table).where(own)).one_or_none()
    return None if row is None else _decode(row)


def _decode(row: Row[Any]) -> ScheduledChange:
    interval = row.recurrence_interval
    return ScheduledChange(
        **{
            **row._mapping,
            "recurrence_interval": None if interval is None else Frequency(interval),
            "author": Actor(**row.author),
        }
    )


def _to_values(change: ScheduledChange) -> dict[str, Any]:
    interval = change.recurrence_interval
    values = asdict(change) | {
        "payload": dict(change.payload),
        "recurrence_interval": None if interval is None else interval.value,
    }
    del values["id"]
    return values


def _write_row(connection: Connection, change: ScheduledChange) -> ScheduledChange:
    values = _to_values(change)
    if change.id:
        connection.execute(update(table).where(table.c.id == change.id).values(values))
        return change
    id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
    return replace(change, id=ScheduledChangeId(id))
