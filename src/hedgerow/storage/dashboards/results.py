"""Kept results of insights, and the queue of those to compute."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    bindparam,
    delete,
    func,
    insert,
    select,
    text,
    update,
)

from hedgerow.dashboards.result_store import (
    MAX_BYTES,
    MAX_PROJECT_BYTES,
    MAX_PROJECT_RESULTS,
    MAX_WAITING,
    MAX_WAITING_PER_PROJECT,
    RETENTION,
    Computation,
    NewResult,
    ReadState,
    ResultRow,
    ResultStore,
)
from hedgerow.errors import Throttled
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import AnyRow, Database, PreparedQuery
from hedgerow.storage.engine.generations import event_topic
from hedgerow.storage.engine.row_claims import is_free
from hedgerow.storage.flags.flags import flag_topic
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import insight_results as table

RETRY_AFTER_S = 5
# How many of the results that were used longest ago are looked at to make room.
EVICTION_PAGE = 200
# After so many failures in a row, a result is computed on request only.
MAX_FAILURES = 5

_fetch_state = PreparedQuery(
    text(
        "SELECT (SELECT number FROM generations WHERE topic = :events),"
        " (SELECT number FROM generations WHERE topic = :flags),"
        " EXISTS (SELECT 1 FROM inbox) OR EXISTS (SELECT 1 FROM ready_events)"
        " OR EXISTS (SELECT 1 FROM mirror_queue WHERE kind <> 'mark')"
    ).bindparams(bindparam("events"), bindparam("flags"))
)
_any_wanted = AnyRow(table.c.wanted_at.is_not(None))
_ROW = (
    table.c.key,
    table.c.state,
    table.c.computed_at,
    table.c.used_at,
    table.c.wanted_at,
    table.c.claimed_until,
    table.c.failures,
    table.c.error,
)


async def _has_none() -> bool:
    return False


class SqlResultStore(ResultStore):
    """`has_unprocessed` tells whether accepted events wait outside the database."""

    def __init__(
        self, database: Database, has_unprocessed: Callable[[], Awaitable[bool]] = _has_none
    ) -> None:
        self._database = database
        self._has_unprocessed = has_unprocessed

    async def fetch_state(self, project_id: ProjectId) -> ReadState:
        topics = {"events": event_topic(project_id), "flags": flag_topic(project_id)}
        is_waiting = await self._has_unprocessed()
        ((events, flags, is_pending),) = await self._database.fetch(_fetch_state, topics)
        return ReadState(
            text=f"{events or 0}.{flags or 0}", is_settled=not (is_pending or is_waiting)
        )

    async def find(
        self, project_id: ProjectId, keys: Collection[str], *, with_result: bool
    ) -> Mapping[str, ResultRow]:
        return await self._database.read(
            lambda connection: _find(connection, project_id, keys, with_result=with_result)
        )

    async def request(
        self,
        project_id: ProjectId,
        queries: Mapping[str, Mapping[str, Any]],
        now: datetime,
        *,
        unless_since: datetime | None = None,
    ) -> Mapping[str, ResultRow]:
        def change(connection: Connection) -> Mapping[str, ResultRow]:
            lock_project(connection, project_id)
            found = _find(connection, project_id, list(queries), with_result=False)
            done = {
                key
                for key, row in found.items()
                if row.wanted_at is not None or row.is_computed_since(unless_since)
            }
            added = [key for key in queries if key not in done]
            if added:
                _check_capacity(connection, project_id, len(added))
                _add_wanted(connection, project_id, {key: queries[key] for key in added}, now)
            return found

        return await self._database.write(change)

    async def claim(
        self, busy: Collection[ProjectId], last: ProjectId, now: datetime, until: datetime
    ) -> Computation | None:
        if not await _any_wanted.is_in(self._database):
            return None
        free = table.c.wanted_at.is_not(None) & is_free(
            table.c.claimed_until, now, until + (until - now)
        )
        of_others = free & table.c.project_id.not_in(list(busy))

        def peek(connection: Connection) -> bool:
            return (
                connection.execute(select(table.c.key).where(of_others).limit(1)).scalar()
                is not None
            )

        def change(connection: Connection) -> Computation | None:
            project_id = _find_next_project(connection, of_others, last)
            if project_id is None:
                return None
            oldest = (
                select(table.c.key)
                .where(free & (table.c.project_id == project_id))
                .order_by(table.c.wanted_at)
                .limit(1)
                .scalar_subquery()
            )
            # The conditions again: another process may have claimed it since.
            claimed = (
                update(table)
                .where(free & (table.c.project_id == project_id) & (table.c.key == oldest))
                .values(claimed_until=until)
                .returning(table.c.key, table.c.query)
            )
            row = connection.execute(claimed).one_or_none()
            if row is None:
                return None
            return Computation(
                project_id=project_id, key=row.key, query=row.query, claimed_until=until
            )

        # Most of the time nothing waits, and a write costs more.
        return await self._database.write(change) if await self._database.read(peek) else None

    async def save(self, of: Computation, new: NewResult, now: datetime) -> None:
        values = {
            "result": new.result,
            "result_bytes": len(new.result),
            "state": new.state,
            "computed_at": new.computed_at,
            "wanted_at": None,
            "claimed_until": None,
            "failures": 0,
            "error": "",
        }

        def change(connection: Connection) -> None:
            if connection.execute(update(table).where(_is_held(of)).values(values)).rowcount:
                _make_room(connection, of.project_id, keep=of.key)

        await self._database.write(change)

    async def record_failure(self, of: Computation, error: str) -> None:
        values = {
            "failures": table.c.failures + 1,
            "error": error,
            "wanted_at": None,
            "claimed_until": None,
        }
        failed = update(table).where(_is_held(of)).values(values)
        await self._database.write(lambda connection: connection.execute(failed))

    async def release(self, of: Computation) -> None:
        released = update(table).where(_is_held(of)).values(claimed_until=None)
        await self._database.write(lambda connection: connection.execute(released))

    async def mark_used(self, project_id: ProjectId, keys: Sequence[str], now: datetime) -> None:
        used = update(table).where(_is(project_id, keys)).values(used_at=now)
        await self._database.write(lambda connection: connection.execute(used))

    async def list_outdated(
        self, *, used_since: datetime, computed_before: datetime, limit: int
    ) -> Sequence[tuple[ProjectId, str, Mapping[str, Any], str]]:
        turn = func.row_number().over(partition_by=table.c.project_id, order_by=table.c.computed_at)
        wanted = (
            select(table.c.project_id, table.c.key, table.c.query, table.c.state)
            .where(
                (table.c.used_at >= used_since)
                & (table.c.computed_at < computed_before)
                & table.c.wanted_at.is_(None)
                & (table.c.failures < MAX_FAILURES)
            )
            .order_by(turn, table.c.computed_at)
            .limit(limit)
        )

        def read(connection: Connection) -> list[tuple[ProjectId, str, Mapping[str, Any], str]]:
            rows = connection.execute(wanted)
            return [(ProjectId(row.project_id), row.key, row.query, row.state) for row in rows]

        return await self._database.read(read)

    async def delete_unused(self, now: datetime) -> None:
        def change(connection: Connection) -> None:
            old = (table.c.used_at < now - RETENTION) & table.c.wanted_at.is_(None)
            connection.execute(delete(table).where(old))
            excess = connection.execute(select(func.sum(table.c.result_bytes))).scalar() or 0
            _delete_oldest(connection, table.c.result_bytes > 0, int(excess) - MAX_BYTES)

        await self._database.write(change)


def forget_results(connection: Connection, project_ids: Sequence[ProjectId]) -> None:
    """Delete the results of projects, because they may contain what was deleted since. Those to
    compute stay in the queue, and those that are being computed are computed again."""
    own = table.c.project_id.in_(project_ids)
    connection.execute(delete(table).where(own & table.c.wanted_at.is_(None)))
    nothing = {"result": None, "result_bytes": 0, "state": "", "computed_at": None}
    connection.execute(update(table).where(own).values(nothing | {"claimed_until": None}))


def _is(project_id: ProjectId, keys: Collection[str]) -> ColumnElement[bool]:
    return (table.c.project_id == project_id) & table.c.key.in_(list(keys))


def _is_held(of: Computation) -> ColumnElement[bool]:
    """Build the condition that a computation was neither claimed again nor outdated by a
    deletion."""
    return _is(of.project_id, [of.key]) & (table.c.claimed_until == of.claimed_until)


def _find(
    connection: Connection, project_id: ProjectId, keys: Collection[str], *, with_result: bool
) -> dict[str, ResultRow]:
    columns = (*_ROW, table.c.result) if with_result else _ROW
    rows = connection.execute(select(*columns).where(_is(project_id, keys)))
    return {row.key: _decode(row) for row in rows}


def _decode(row: Row[Any]) -> ResultRow:
    return ResultRow(**row._mapping)


def _check_capacity(connection: Connection, project_id: ProjectId, number: int) -> None:
    waiting = select(func.count()).select_from(table).where(table.c.wanted_at.is_not(None))
    own = connection.execute(waiting.where(table.c.project_id == project_id)).scalar_one()
    if own + number > MAX_WAITING_PER_PROJECT:
        raise Throttled(RETRY_AFTER_S)
    if connection.execute(waiting).scalar_one() + number > MAX_WAITING:
        raise Throttled(RETRY_AFTER_S)


def _add_wanted(
    connection: Connection,
    project_id: ProjectId,
    queries: Mapping[str, Mapping[str, Any]],
    now: datetime,
) -> None:
    values = {"wanted_at": now, "claimed_until": None}
    own = _is(project_id, list(queries))
    present = set(
        connection.execute(update(table).where(own).values(values).returning(table.c.key)).scalars()
    )
    rows = [
        {
            "project_id": project_id,
            "key": key,
            "state": "",
            "result_bytes": 0,
            "used_at": now,
            "wanted_at": now,
            "failures": 0,
            "error": "",
            "query": dict(query),
        }
        for key, query in queries.items()
        if key not in present
    ]
    if rows:
        connection.execute(insert(table), rows)


def _find_next_project(
    connection: Connection, free: ColumnElement[bool], last: ProjectId
) -> ProjectId | None:
    """Projects take turns in the order of their ids."""
    ids = select(func.min(table.c.project_id)).where(free)
    found = connection.execute(ids.where(table.c.project_id > last)).scalar()
    if found is None:
        found = connection.execute(ids).scalar()
    return None if found is None else ProjectId(found)


def _make_room(connection: Connection, project_id: ProjectId, keep: str) -> None:
    own = table.c.project_id == project_id
    size, number = connection.execute(
        select(func.sum(table.c.result_bytes), func.count()).where(own)
    ).one()
    others = own & (table.c.key != keep) & table.c.wanted_at.is_(None)
    _delete_oldest(connection, others, int(size or 0) - MAX_PROJECT_BYTES)
    excess = number - MAX_PROJECT_RESULTS
    if excess > 0:
        oldest = select(table.c.key).where(others).order_by(table.c.used_at).limit(excess)
        connection.execute(delete(table).where(own & table.c.key.in_(oldest)))


def _delete_oldest(
    connection: Connection, condition: ColumnElement[bool], excess_bytes: int
) -> None:
    """Delete the results that were used longest ago, until so many bytes are free."""
    while excess_bytes > 0:
        oldest = (
            select(table.c.project_id, table.c.key, table.c.result_bytes)
            .where(condition)
            .order_by(table.c.used_at)
            .limit(EVICTION_PAGE)
        )
        rows = connection.execute(oldest).all()
        if not rows:
            return
        for row in rows:
            if excess_bytes <= 0:
                return
            connection.execute(delete(table).where(_is(row.project_id, [row.key])))
            excess_bytes -= row.result_bytes
