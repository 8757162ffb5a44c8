"""Bandits, their history, and their transitions together with the change of the flag."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from hedgerow.flags.approvals.model import ChangeRequest, RequestState, ResourceType
from hedgerow.flags.model import Flag, FlagDefinitions
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
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags import owners
from hedgerow.storage.flags.approvals.approval_gate import WriteGate
from hedgerow.storage.flags.approvals.change_request_rows import decode_requests, end_request
from hedgerow.storage.flags.flags import SqlFlagStore, find_flag
from hedgerow.storage.flags.rollouts.guided_flags import (
    GuideTables,
    SqlGuideStore,
    write_guided_flag,
)
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import bandit_allocations as allocations
from hedgerow.storage.tables import bandits as table
from hedgerow.storage.tables import change_requests

# No bandit is claimed, or rests, for longer.
MAX_PAUSE = timedelta(seconds=MAX_INTERVAL_S + 3_600)
_OPEN = [RequestState.PENDING.value, RequestState.APPROVED.value]


class SqlBanditStore(SqlGuideStore[Bandit, Allocation], BanditStore):
    def __init__(self, database: Database, flags: SqlFlagStore) -> None:
        super().__init__(database, flags, _TABLES)

    async def bandits(
        self, project_id: ProjectId, wanted: BanditFilter
    ) -> tuple[Sequence[Bandit], int]:
        return await self._list(project_id, wanted)

    async def bandit(self, project_id: ProjectId, id: BanditId) -> Bandit | None:
        return await self._find(project_id, id)

    async def allocations(
        self, bandit: Bandit, limit: int, offset: int
    ) -> tuple[Sequence[Allocation], int]:
        return await self._list_entries(bandit.id, limit, offset)

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
            bandit = _TABLES.find(connection, project_id, id)
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

    async def save_check(self, bandit: Bandit, check: BanditCheck) -> None:
        allocation = check.allocation
        values = {
            "reason": check.reason,
            "variants_found": list(allocation.variants) or list(bandit.variants_found),
            "last_checked_at": allocation.created_at,
            "next_check_at": check.next_check_at,
        }

        def run(connection: Connection) -> None:
            if _TABLES.save_check(connection, bandit, values):
                _TABLES.add_entry(connection, bandit.id, allocation)

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
    write_guided_flag(connection, write.flag, now, own)
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
    return BanditContext(
        definitions=definitions,
        find_flag=lambda id: find_flag(connection, project_id, id),
        find_other_user=lambda id: (
            owners.find_running_experiment(connection, id)
            or owners.find_active_plan(connection, id)
        ),
        active=_TABLES.list_active(connection, project_id),
        count=_TABLES.count(connection, project_id),
    )


def _store(connection: Connection, write: BanditWrite, now: datetime) -> Bandit:
    bandit: Bandit = _TABLES.store(
        connection, write.bandit, write.allocation, is_deleted=write.is_deleted
    )
    if (entry := write.build_entry(bandit)) is not None:
        activity.record(connection, entry, now)
    return bandit


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
    }
    del values["interval"]
    return values


def _decode_allocation(row: Row[Any]) -> Allocation:
    return Allocation(
        kind=AllocationKind(row.kind), created_at=row.created_at, why=row.why, variants=row.variants
    )


def _encode_allocation(allocation: Allocation) -> dict[str, Any]:
    return asdict(allocation) | {
        "kind": allocation.kind.value,
        "variants": list(allocation.variants),
    }


_TABLES = GuideTables(
    table=table,
    history=allocations,
    parent=allocations.c.bandit_id,
    max_entries=MAX_ALLOCATIONS,
    max_pause=MAX_PAUSE,
    active_states=[state.value for state in BanditState if state.is_active],
    decode=_decode,
    encode=_to_values,
    decode_entry=_decode_allocation,
    encode_entry=_encode_allocation,
)
