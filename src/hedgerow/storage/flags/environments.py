"""Changes of the flags and cohorts of several projects, in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from hedgerow.errors import Conflict
from hedgerow.flags.approvals.model import ChangeRequest, RequestState
from hedgerow.flags.environments.store import (
    ApprovedRequest,
    CohortWrite,
    EnvironmentStore,
    ProjectWriter,
)
from hedgerow.flags.model import Flag
from hedgerow.flags.store import FlagWrite
from hedgerow.persons.model import Cohort
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import generations
from hedgerow.storage.flags.approvals.approval_gate import WriteGate
from hedgerow.storage.flags.approvals.change_request_rows import end_request, find_request
from hedgerow.storage.flags.flags import FlagBatch, FlagIds, SqlFlagStore, flag_topic, store_flag
from hedgerow.storage.persons.behaviors import sync_behaviors
from hedgerow.storage.persons.cohorts import is_behavioral, write_cohort_row
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project

# For thousands of flags on a busy machine. Each statement is short.
TIMEOUT_S = 120.0


class SqlEnvironmentStore(EnvironmentStore):
    def __init__(self, flags: SqlFlagStore) -> None:
        self._flags = flags

    async def write_projects(
        self,
        project_ids: Sequence[ProjectId],
        work: Callable[[Mapping[ProjectId, ProjectWriter]], None],
        now: datetime,
        approval: ApprovedRequest | None = None,
    ) -> None:
        def change(connection: Connection, gate: WriteGate) -> None:
            for id in sorted(project_ids):
                lock_project(connection, id)
            request = None if approval is None else _find_approved(connection, approval)
            if request is not None:
                gate = gate.with_approved(request)
            # All processes lock in this order, so that none waits for another forever.
            ids = FlagIds(connection)
            changes = [
                _ProjectChange(connection, id, self._flags, gate, now, ids)
                for id in sorted(project_ids)
            ]
            work({each.id: each.writer for each in changes})
            for each in changes:
                each.finish()
            if request is not None:
                end_request(connection, request, RequestState.APPLIED, request.author, now)

        await self._flags.write_gated(change, timeout_s=TIMEOUT_S)


def _find_approved(connection: Connection, approval: ApprovedRequest) -> ChangeRequest:
    request = find_request(connection, approval.project_id, approval.id)
    if request is None or request.state is not RequestState.APPROVED:
        raise Conflict("The change request is not approved, or was applied already.")
    return request


class _ProjectChange:
    """The changes of one project, which it locks."""

    def __init__(
        self,
        connection: Connection,
        id: ProjectId,
        flags: SqlFlagStore,
        gate: WriteGate,
        now: datetime,
        ids: FlagIds,
    ) -> None:
        self.id = id
        self._connection = connection
        self._gate = gate
        self._now = now
        self._has_changed = False
        self._has_behaviors = False
        definitions = flags.lock_definitions(connection, id)
        self._batch = FlagBatch(connection, definitions.flags, now, ids)
        self.writer = ProjectWriter(
            definitions=definitions, store_flag=self._store, add_cohort=self._add_cohort
        )

    def _store(self, write: FlagWrite) -> Flag:
        flag, is_audited = store_flag(self._connection, write, self._now, self._gate, self._batch)
        self._has_changed |= is_audited
        return flag

    def _add_cohort(self, write: CohortWrite) -> Cohort:
        self._has_changed = True
        cohort = write_cohort_row(self._connection, write.cohort)
        self._has_behaviors |= is_behavioral(cohort)
        activity.record(self._connection, write.build_entry(cohort), self._now)
        return cohort

    def finish(self) -> None:
        self._batch.flush()
        if self._has_changed:
            generations.advance(self._connection, flag_topic(self.id))
        if self._has_behaviors:
            sync_behaviors(self._connection, self.id, self._now)
