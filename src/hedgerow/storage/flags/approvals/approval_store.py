"""Approval policies and change requests. A request is applied in the transaction of its last
approval."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from hedgerow.flags.approvals.model import (
    ApprovalPolicy,
    ChangeRequest,
    RequestComment,
    RequestState,
    RequiredApproval,
    Vote,
)
from hedgerow.flags.approvals.store import (
    ApprovalStore,
    ApprovalTransaction,
    ChangeRequestFilter,
)
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.schedules.model import ScheduledChange, ScheduledChangeId
from hedgerow.flags.store import FlagWrite
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.activity import ActivityEntry, Actor
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.flags.approvals.approval_gate import (
    WriteGate,
    encode_policy,
    read_policies,
    require_for_policy,
)
from hedgerow.storage.flags.approvals.change_request_rows import (
    decode_request,
    decode_requests,
    find_request,
    save_request,
)
from hedgerow.storage.flags.flags import SqlFlagStore, find_flag, flag_topic, store_flag
from hedgerow.storage.flags.scheduled_changes import find_scheduled_change
from hedgerow.storage.persons.behaviors import sync_behaviors
from hedgerow.storage.persons.cohorts import (
    flags_using_cohort,
    is_behavioral,
    write_cohort_row,
)
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import (
    approval_policies,
    change_request_comments,
    change_request_votes,
    scheduled_changes,
)
from hedgerow.storage.tables import change_requests as table

T = TypeVar("T")


class SqlApprovalStore(ApprovalStore):
    def __init__(self, database: Database, flags: SqlFlagStore) -> None:
        self._database = database
        self._flags = flags

    async def policies(self, project_id: ProjectId) -> Sequence[ApprovalPolicy]:
        return await self._database.read(lambda connection: read_policies(connection, project_id))

    async def requests(
        self, project_id: ProjectId, wanted: ChangeRequestFilter, now: datetime
    ) -> tuple[Sequence[ChangeRequest], int]:
        where = _build_filter(project_id, wanted, now)
        page = select(table).where(where).order_by(table.c.created_at.desc(), table.c.id)

        def read(connection: Connection) -> tuple[Sequence[ChangeRequest], int]:
            rows, total = read_page(connection, page, limit=wanted.limit, offset=wanted.offset)
            return decode_requests(connection, rows), total

        return await self._database.read(read)

    async def request(self, project_id: ProjectId, id: str) -> ChangeRequest | None:
        return await self._database.read(
            lambda connection: find_request(connection, project_id, id)
        )

    async def save_what_if(self, request: ChangeRequest) -> None:
        figures = None if request.what_if is None else dict(request.what_if)
        changed = update(table).where(table.c.id == request.id).values(what_if=figures)
        await self._database.write(lambda connection: connection.execute(changed).rowcount)

    async def write(
        self,
        project_id: ProjectId,
        work: Callable[[ApprovalTransaction], T],
        actor: Actor,
        now: datetime,
    ) -> T:
        def change(connection: Connection, gate: WriteGate) -> T:
            definitions = self._flags.lock_definitions(connection, project_id)
            return work(_Transaction(connection, gate, project_id, definitions, now))

        return await self._flags.write_gated(change)


class _Transaction(ApprovalTransaction):
    def __init__(
        self,
        connection: Connection,
        gate: WriteGate,
        project_id: ProjectId,
        definitions: FlagDefinitions,
        now: datetime,
    ) -> None:
        self._connection = connection
        self._gate = gate
        self._project_id = project_id
        self._definitions = definitions
        self._now = now

    @property
    def definitions(self) -> FlagDefinitions:
        return self._definitions

    def find_flag(self, id: FlagId) -> Flag | None:
        return find_flag(self._connection, self._project_id, id)

    def find_cohort(self, id: CohortId) -> Cohort | None:
        return next((each for each in self._definitions.cohorts if each.id == id), None)

    def find_request(self, id: str) -> ChangeRequest | None:
        return find_request(self._connection, self._project_id, id)

    def list_pending(self) -> Sequence[ChangeRequest]:
        own = (table.c.project_id == self._project_id) & (
            table.c.state == RequestState.PENDING.value
        )
        return [decode_request(row) for row in self._connection.execute(select(table).where(own))]

    def save_request(self, request: ChangeRequest) -> None:
        save_request(self._connection, request)

    def find_scheduled_change(self, id: ScheduledChangeId) -> ScheduledChange | None:
        return find_scheduled_change(self._connection, self._project_id, id)

    def link_scheduled_changes(
        self, ids: Sequence[ScheduledChangeId], request: ChangeRequest
    ) -> None:
        own = (scheduled_changes.c.project_id == self._project_id) & scheduled_changes.c.id.in_(ids)
        linked = update(scheduled_changes).where(own).values(change_request_id=request.id)
        self._connection.execute(linked)

    def check_flag(self, before: Flag, after: Flag, request: ChangeRequest) -> None:
        gate = self._gate.with_request(request)
        gate.check_flag(self._connection, before, after, self._now)

    def add_vote(self, request: ChangeRequest, vote: Vote) -> None:
        values = asdict(vote) | {"request_id": request.id, "user_uuid": vote.voter.uuid}
        self._connection.execute(insert(change_request_votes), values)

    def add_comment(self, request: ChangeRequest, comment: RequestComment) -> None:
        values = asdict(comment) | {"request_id": request.id}
        self._connection.execute(insert(change_request_comments), values)

    def record(self, entry: ActivityEntry) -> None:
        activity.record(self._connection, entry, self._now)

    def list_policies(self) -> Sequence[ApprovalPolicy]:
        return read_policies(self._connection, self._project_id)

    def require_for_flag(self, before: Flag | None, after: Flag) -> Sequence[RequiredApproval]:
        return self._gate.require_for_flag(self._connection, before, after, self._now)

    def require_for_cohort(self, before: Cohort, after: Cohort) -> Sequence[RequiredApproval]:
        if after.definition == before.definition:
            return ()
        flags = flags_using_cohort(self._definitions, before.id)
        return self._gate.require_for_cohort(self._connection, after, flags, self._now)

    def require_for_policy(self, policy: ApprovalPolicy) -> Sequence[RequiredApproval]:
        return require_for_policy(policy)

    def store_flag(self, write: FlagWrite, request: ChangeRequest) -> Flag:
        gate = self._gate.with_request(request)
        flag, is_audited = store_flag(self._connection, write, self._now, gate)
        if is_audited:
            generations.advance(self._connection, flag_topic(self._project_id))
        return flag

    def store_cohort(
        self, before: Cohort, after: Cohort, entry: ActivityEntry, request: ChangeRequest
    ) -> None:
        if after == before:
            return
        if after.definition != before.definition:
            flags = flags_using_cohort(self._definitions, before.id)
            gate = self._gate.with_request(request)
            gate.admit_cohort(self._connection, before, after, flags, self._now)
        write_cohort_row(self._connection, after)
        if is_behavioral(before) or is_behavioral(after):
            sync_behaviors(self._connection, self._project_id, self._now)
        self.record(entry)
        generations.advance(self._connection, flag_topic(self._project_id))

    def store_policy(
        self,
        before: ApprovalPolicy | None,
        after: ApprovalPolicy | None,
        entry: ActivityEntry,
        request: ChangeRequest | None,
    ) -> None:
        own = approval_policies.c.id == (before.id if before else "")
        if before is not None:
            gate = self._gate.with_request(request)
            gate.check_policy(self._connection, before, self._now)
        if after is None:
            self._connection.execute(delete(approval_policies).where(own))
        elif before is None:
            self._connection.execute(insert(approval_policies), encode_policy(after))
        else:
            values = encode_policy(after)
            self._connection.execute(update(approval_policies).where(own).values(values))
        self.record(entry)


def _build_filter(
    project_id: ProjectId, wanted: ChangeRequestFilter, now: datetime
) -> ColumnElement[bool]:
    where = table.c.project_id == project_id
    if wanted.states is not None:
        where &= _has_state(wanted.states, now)
    for column, value in (
        (table.c.resource_type, wanted.resource_type and wanted.resource_type.value),
        (table.c.resource_id, wanted.resource_id),
        (table.c.author_uuid, wanted.author_uuid),
    ):
        if value is not None:
            where &= column == value
    if wanted.search:
        needle = wanted.search.lower()
        where &= func.lower(table.c.resource_name).contains(needle, autoescape=True)
    return where


def _has_state(states: Collection[RequestState], now: datetime) -> ColumnElement[bool]:
    """A pending request is expired when its time is over."""
    others = [each.value for each in states if each is not RequestState.PENDING]
    is_in: ColumnElement[bool] = table.c.state.in_(others)
    is_pending = table.c.state == RequestState.PENDING.value
    if RequestState.PENDING in states:
        is_in |= is_pending & (table.c.expires_at > now)
    if RequestState.EXPIRED in states:
        is_in |= is_pending & (table.c.expires_at <= now)
    return is_in
