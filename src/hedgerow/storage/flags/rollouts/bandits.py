"""Bandits, their history, and their transitions together with the change of the flag."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from hedgerow.flags.approvals.model import ChangeRequest, RequestState, ResourceType
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId
from hedgerow.rollouts.bandits.approvals import is_approved
from hedgerow.rollouts.bandits.model import (
    MAX_ALLOCATIONS,
    MAX_INTERVAL_S,
    Allocation,
    AllocationKind,
    Bandit,
    BanditId,
    BanditState,
)
from hedgerow.rollouts.bandits.store import (
    BanditCheck,
    BanditContext,
    BanditFilter,
    BanditStore,
    BanditWrite,
    Decide,
)
from hedgerow.rollouts.bandits.transitions import describe_goal
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.flags import owners
from hedgerow.storage.flags.approvals.approval_gate import WriteGate
from hedgerow.storage.flags.approvals.change_request_rows import decode_requests, end_request
from hedgerow.storage.flags.flags import SqlFlagStore, find_flag, flag_topic, store_flag
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import bandit_allocations as allocations
from hedgerow.storage.tables import bandits as table
from hedgerow.storage.tables import change_requests, flags

# No bandit is claimed, or rests, for longer.
MAX_PAUSE = timedelta(seconds=MAX_INTERVAL_S + 3_600)
_ACTIVE = [state.value for state in BanditState if state.is_active]
_OPEN = [RequestState.PENDING.value, RequestState.APPROVED.value]


class SqlBanditStore(BanditStore):
    def __init__(self, database: Database, flags: SqlFlagStore) -> None:
        self._database = database
        self._flags = flags

    async def bandits(
        self, project_id: ProjectId, wanted: BanditFilter
    ) -> tuple[Sequence[Bandit], int]:
        own = table.c.project_id == project_id
        if wanted.flag_id is not None:
            own &= table.c.flag_id == wanted.flag_id
        if wanted.state is not None:
            own &= table.c.state == wanted.state.value
        if wanted.search:
            text = wanted.search.lower()
            has_key = func.lower(flags.c.key).contains(text, autoescape=True)
            named = select(flags.c.id).where((flags.c.project_id == project_id) & has_key)
            has_name = func.lower(table.c.name).contains(text, autoescape=True)
            own &= has_name | table.c.flag_id.in_(named)
        page = select(table).where(own).order_by(table.c.id.desc())

        def read(connection: Connection) -> tuple[Sequence[Bandit], int]:
            rows, total = read_page(connection, page, limit=wanted.limit, offset=wanted.offset)
            return [_decode(row) for row in rows], total

        return await self._database.read(read)

    async def bandit(self, project_id: ProjectId, id: BanditId) -> Bandit | None:
        return await self._database.read(lambda connection: _find(connection, project_id, id))

    async def flag(self, project_id: ProjectId, id: FlagId) -> Flag | None:
        return await self._flags.flag(project_id, id)

    async def flag_keys(
        self, project_id: ProjectId, ids: Collection[FlagId]
    ) -> Mapping[FlagId, str]:
        own = (flags.c.project_id == project_id) & flags.c.id.in_(ids)
        keys = select(flags.c.id, flags.c.key).where(own)
        return await self._database.read(
            lambda connection: {row.id: row.key for row in connection.execute(keys)}
        )

    async def allocations(
        self, bandit: Bandit, limit: int, offset: int
    ) -> tuple[Sequence[Allocation], int]:
        own = select(allocations).where(allocations.c.bandit_id == bandit.id)
        page = own.order_by(allocations.c.id.desc())

        def read(connection: Connection) -> tuple[Sequence[Allocation], int]:
            rows, total = read_page(connection, page, limit=limit, offset=offset)
            return [_decode_allocation(row) for row in rows], total

        return await self._database.read(read)

    async def create(
        self, project_id: ProjectId, decide: Callable[[BanditContext], BanditWrite], now: datetime
    ) -> Bandit:
        def run(connection: Connection) -> Bandit:
            definitions = self._flags.lock_definitions(connection, project_id)
            write = decide(_read_context(connection, project_id, definitions))
            return _store(connection, write, now)

        return await self._database.write(run)

    async def change(
        self, project_id: ProjectId, id: BanditId, decide: Decide, now: datetime
    ) -> Bandit | None:
        def run(connection: Connection, gate: WriteGate) -> Bandit | None:
            # Another process waits here until this one has stored the outcome.
            definitions = self._flags.lock_definitions(connection, project_id)
            bandit = _find(connection, project_id, id)
            if bandit is None:
                return None
            write = decide(_read_context(connection, project_id, definitions), bandit)
            if write is None:
                return None
            if write.beginning is not None or write.flag is not None:
                write = _pass_gate(connection, write, now, gate)
            _end_requests(connection, bandit, write, now)
            return _store(connection, write, now)

        return await self._flags.write_gated(run)

    async def claim_due(self, now: datetime, until: datetime) -> Bandit | None:
        # What is too far ahead was written before the clock was set back.
        ahead = now + MAX_PAUSE
        is_free = (
            table.c.claimed_until.is_(None)
            | (table.c.claimed_until <= now)
            | (table.c.claimed_until > ahead)
        )
        is_time = (table.c.next_check_at <= now) | (table.c.next_check_at > ahead)
        due = is_time & (table.c.state == BanditState.RUNNING.value) & is_free
        first = select(table.c.id).where(due).order_by(table.c.next_check_at).limit(1)
        # A process that waited for another's claim finds that the row is no longer free.
        claim = (
            update(table)
            .where(due & table.c.id.in_(first.scalar_subquery()))
            .values(claimed_until=until)
            .returning(table)
        )
        if not await self._database.read(lambda connection: connection.execute(first).first()):
            return None

        def run(connection: Connection) -> Bandit | None:
            row = connection.execute(claim).one_or_none()
            return None if row is None else _decode(row)

        return await self._database.write(run)

    async def save_check(self, bandit: Bandit, check: BanditCheck) -> None:
        allocation = check.allocation
        values = {
            "reason": check.reason,
            "variants_found": list(allocation.variants) or list(bandit.variants_found),
            "last_checked_at": allocation.created_at,
            "next_check_at": check.next_check_at,
            "claimed_until": None,
        }
        own = (table.c.id == bandit.id) & (table.c.version == bandit.version)

        def run(connection: Connection) -> None:
            if connection.execute(update(table).where(own).values(values)).rowcount:
                _add_allocation(connection, bandit.id, allocation)

        await self._database.write(run)


def _pass_gate(
    connection: Connection, write: BanditWrite, now: datetime, gate: WriteGate
) -> BanditWrite:
    """Write the flag if the bandit may. What a bandit will do cannot be measured before it begins,
    so that a policy by consequence requires an approval of the beginning."""
    bandit = write.bandit
    flag = find_flag(connection, bandit.project_id, bandit.flag_id)
    assert flag is not None
    request = _find_approved(connection, bandit, flag)
    own = gate if request is None else gate.with_approved(request)
    if write.beginning is not None:
        own.without_measure().check_flag(connection, *write.beginning, now)
        bandit = replace(bandit, change_request_id=None if request is None else request.id)
    if write.flag is not None:
        _, is_audited = store_flag(connection, write.flag, now, own)
        if is_audited:
            generations.advance(connection, flag_topic(bandit.project_id))
    return replace(write, bandit=bandit)


def _list_open_requests(connection: Connection, bandit: Bandit) -> list[ChangeRequest]:
    """Return the requests of a bandit that are pending or approved, newest first."""
    own = (
        (change_requests.c.project_id == bandit.project_id)
        & (change_requests.c.resource_type == ResourceType.BANDIT.value)
        & (change_requests.c.resource_id == str(bandit.id))
        & change_requests.c.state.in_(_OPEN)
    )
    newest = select(change_requests).where(own).order_by(change_requests.c.created_at.desc())
    return decode_requests(connection, connection.execute(newest).all())


def _find_approved(connection: Connection, bandit: Bandit, flag: Flag) -> ChangeRequest | None:
    """Return the request whose approvals hold for this bandit and the flag as it is."""
    found = _list_open_requests(connection, bandit)
    return next((each for each in found if is_approved(each, bandit, flag)), None)


def _end_requests(
    connection: Connection, before: Bandit, write: BanditWrite, now: datetime
) -> None:
    """End the requests of a bandit that has ended, or that is to do something else."""
    after = write.bandit
    is_over = write.is_deleted or after.state is BanditState.STOPPED
    if not is_over and describe_goal(before) == describe_goal(after):
        return
    for request in _list_open_requests(connection, before):
        is_used = request.id == before.change_request_id
        state = RequestState.APPLIED if is_used else RequestState.WITHDRAWN
        end_request(connection, request, state, after.author, now)


def _read_context(
    connection: Connection, project_id: ProjectId, definitions: FlagDefinitions
) -> BanditContext:
    own = table.c.project_id == project_id
    active = select(table.c.id, table.c.flag_id).where(own & table.c.state.in_(_ACTIVE))
    count = select(func.count()).select_from(table).where(own)
    return BanditContext(
        definitions=definitions,
        find_flag=lambda id: find_flag(connection, project_id, id),
        find_other_user=lambda id: (
            owners.find_running_experiment(connection, id)
            or owners.find_active_plan(connection, id)
        ),
        active={row.id: row.flag_id for row in connection.execute(active)},
        count=connection.execute(count).scalar_one(),
    )


def _store(connection: Connection, write: BanditWrite, now: datetime) -> Bandit:
    bandit = write.bandit
    if write.is_deleted:
        connection.execute(delete(allocations).where(allocations.c.bandit_id == bandit.id))
        connection.execute(delete(table).where(table.c.id == bandit.id))
    else:
        bandit = _write_row(connection, bandit)
    if write.allocation is not None:
        _add_allocation(connection, bandit.id, write.allocation)
    if (entry := write.build_entry(bandit)) is not None:
        activity.record(connection, entry, now)
    return bandit


def _write_row(connection: Connection, bandit: Bandit) -> Bandit:
    values = _to_values(bandit)
    if bandit.id:
        connection.execute(update(table).where(table.c.id == bandit.id).values(values))
        return bandit
    id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
    return replace(bandit, id=BanditId(id))


def _add_allocation(connection: Connection, id: BanditId, allocation: Allocation) -> None:
    """Add an entry to the history and delete the oldest ones."""
    values = {
        "bandit_id": id,
        "kind": allocation.kind.value,
        "created_at": allocation.created_at,
        "why": allocation.why,
        "variants": list(allocation.variants),
    }
    connection.execute(insert(allocations), values)
    own: ColumnElement[bool] = allocations.c.bandit_id == id
    newest = select(allocations.c.id).where(own).order_by(allocations.c.id.desc())
    last = newest.offset(MAX_ALLOCATIONS).limit(1).scalar_subquery()
    connection.execute(delete(allocations).where(own & (allocations.c.id <= last)))


def _find(connection: Connection, project_id: ProjectId, id: BanditId) -> Bandit | None:
    own = (table.c.project_id == project_id) & (table.c.id == id)
    row = connection.execute(select(table).where(own)).one_or_none()
    return None if row is None else _decode(row)


def _decode(row: Row[Any]) -> Bandit:
    values = dict(row._mapping)
    del values["claimed_until"]
    interval_s = values.pop("interval_s")
    return Bandit(
        **values
        | {
            "interval": timedelta(seconds=interval_s),
            "state": BanditState(row.state),
            "split": dict(row.split),
            "author": Actor(**row.author),
        }
    )


def _to_values(bandit: Bandit) -> dict[str, Any]:
    values = asdict(bandit) | {
        "interval_s": int(bandit.interval.total_seconds()),
        "state": bandit.state.value,
        "split": [list(each) for each in bandit.split.items()],
        "variants_found": list(bandit.variants_found),
        "claimed_until": None,
    }
    del values["id"], values["interval"]
    return values


def _decode_allocation(row: Row[Any]) -> Allocation:
    return Allocation(
        kind=AllocationKind(row.kind), created_at=row.created_at, why=row.why, variants=row.variants
    )
