"""The gate in front of every write of a flag, or of a cohort that flags use: without the approvals
that the policies of the project require, the write is refused.

It is here, and not in endpoints or services, so that nothing that writes a flag can pass it by.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, select

from hedgerow.flags.approvals.consequence import Measurement, MeasurementKey, MeasurementNeeded
from hedgerow.flags.approvals.model import (
    ActionKey,
    ApprovalPolicy,
    ApprovalRequired,
    ApproverConfig,
    ChangeRequest,
    PolicyConditions,
    RequiredApproval,
)
from hedgerow.flags.approvals.permit import BreakGlass, current_break_glass
from hedgerow.flags.approvals.policies import (
    GatedEdit,
    build_protection,
    covers,
    covers_everything,
    describe_cohort_edit,
    describe_dependency_edit,
    describe_flag_edit,
    find_unmet,
    loses_tag,
    require,
)
from hedgerow.flags.model import Flag
from hedgerow.flags.validate import FlagDependencies
from hedgerow.persons.model import Cohort
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags.approvals.unapproved_changes import (
    ReplacedVersion,
    count_change,
    describe_replaced_cohort,
    describe_replaced_flag,
    list_counted,
    select_used,
)
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import approval_policies as table
from hedgerow.storage.tables import environments

T = TypeVar("T")

# A transaction that writes more flags under policies by consequence needs approval.
MAX_MEASUREMENTS = 20
BREAK_GLASS = "break_glass"
PROTECTION_ENDS = (
    "The environment {} is protected. To end that, break the glass with a reason: as an owner with "
    "the header X-Break-Glass, on the command line with --break-glass."
)

Measure = Callable[[Measurement], Awaitable[float | None]]
ListFlags = Callable[[Connection, ProjectId], Sequence[Flag]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedObject:
    """What is written, for the activity log."""

    scope: str
    id: str
    name: str
    project_id: ProjectId


class FlagUsers:
    """Which flags of a project depend on which."""

    def __init__(self, flags: Sequence[Flag]) -> None:
        self._flags = {flag.id: flag for flag in flags}
        self._dependencies = FlagDependencies(flags)

    def list_users(self, flags: Sequence[Flag]) -> list[Flag]:
        """Return the flags that depend on one of these, and are none of them."""
        own = {flag.id for flag in flags}
        found = self._dependencies.find_dependants(own) - own
        return [self._flags[id] for id in sorted(found)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteGate:
    """The gate of one transaction. `request` is the change request whose votes count. `measured`
    has the consequences that were measured before, None for those that cannot be. `list_flags`
    reads the flags of a project, among which are those that depend on a changed one."""

    permit: BreakGlass | None = None
    request: ChangeRequest | None = None
    measured: Mapping[MeasurementKey, float | None]
    list_flags: ListFlags
    can_measure: bool = True
    # Thousands of flags may be written in one transaction.
    _policies: dict[ProjectId, list[ApprovalPolicy]] = field(default_factory=dict)
    _users: dict[ProjectId, FlagUsers] = field(default_factory=dict)

    def with_request(self, request: ChangeRequest | None) -> "WriteGate":
        return replace(self, request=request)

    def with_approved(self, request: ChangeRequest) -> "WriteGate":
        """Return the gate for a request that was approved before, or for which the glass was
        broken."""
        reason, actor = request.result.get(BREAK_GLASS), request.applied_by
        if not reason or actor is None:
            return self.with_request(request)
        return replace(self, permit=BreakGlass(reason=reason, actor=actor))

    def without_measure(self) -> "WriteGate":
        """Return the gate for a change whose consequence cannot be measured."""
        return replace(self, measured={}, can_measure=False)

    def admit_flag(
        self, connection: Connection, before: Flag | None, after: Flag, now: datetime
    ) -> None:
        """Raise ApprovalRequired if the write of a flag lacks approvals. Otherwise, it counts with
        later ones."""
        required = self.check_flag(connection, before, after, now)
        edit = describe_flag_edit(before, after)
        if edit is not None and not edit.is_neutral:
            self._count(connection, describe_replaced_flag(before, after), required, now)

    def check_flag(
        self, connection: Connection, before: Flag | None, after: Flag, now: datetime
    ) -> Sequence[RequiredApproval]:
        """Raise ApprovalRequired if a change of a flag lacks approvals. Return those that it
        needs."""
        required = self.require_for_flag(connection, before, after, now)
        written = GatedObject(
            scope="FeatureFlag",
            id=str(after.id) if after.id else "",
            name=after.key,
            project_id=after.project_id,
        )
        self._check(connection, required, written, now)
        return required

    def admit_cohort(
        self,
        connection: Connection,
        before: Cohort,
        after: Cohort,
        flags: Sequence[Flag],
        now: datetime,
    ) -> None:
        """Raise ApprovalRequired if the write of a cohort that these flags use lacks approvals.
        Otherwise, it counts with later ones."""
        required = self.check_cohort(connection, after, flags, now)
        if flags:
            self._count(connection, describe_replaced_cohort(before), required, now)

    def check_cohort(
        self, connection: Connection, cohort: Cohort, flags: Sequence[Flag], now: datetime
    ) -> Sequence[RequiredApproval]:
        """Raise ApprovalRequired if a flag uses the cohort, and changing the flag so would lack
        approvals. Return those that it needs."""
        required = self.require_for_cohort(connection, cohort, flags, now)
        written = GatedObject(
            scope="Cohort", id=str(cohort.id), name=cohort.name, project_id=cohort.project_id
        )
        self._check(connection, required, written, now)
        return required

    def check_policy(self, connection: Connection, policy: ApprovalPolicy, now: datetime) -> None:
        written = GatedObject(
            scope="ApprovalPolicy",
            id=policy.id,
            name=policy.action_key.value,
            project_id=policy.project_id,
        )
        self._check(connection, require_for_policy(policy), written, now)

    def check_protection(
        self, connection: Connection, project_id: ProjectId, name: str, now: datetime
    ) -> None:
        """Raise ApprovalRequired if an environment would lose its protection. No request can hold
        that, so that only a break-glass permit allows it."""
        required = [require(build_protection(project_id), None)]
        if self.permit is None:
            raise ApprovalRequired(required, PROTECTION_ENDS.format(name))
        written = GatedObject(scope="Project", id=str(project_id), name=name, project_id=project_id)
        activity.record(connection, _build_entry(self.permit, required, written), now)

    def require_for_flag(
        self, connection: Connection, before: Flag | None, after: Flag, now: datetime
    ) -> list[RequiredApproval]:
        """Return what a change of a flag needs. It changes the flags that depend on it, too."""
        edit = describe_flag_edit(before, after)
        if edit is None or not self._read_policies(connection, after.project_id):
            return []
        found = {each.policy_id: each for each in self._require(connection, edit, now)}
        if before is not None and not edit.is_neutral:
            for user in self._list_users(connection, [before]):
                dependency = describe_dependency_edit(user)
                for each in self._require(connection, dependency, now, dependency=after):
                    reason = f"{each.reason}; the flag {user.key} depends on it"
                    found.setdefault(each.policy_id, replace(each, reason=reason))
        return list(found.values())

    def require_for_cohort(
        self, connection: Connection, cohort: Cohort, flags: Sequence[Flag], now: datetime
    ) -> list[RequiredApproval]:
        """Return what a change of a cohort needs that these flags use."""
        if not self._read_policies(connection, cohort.project_id):
            return []
        found: dict[str, RequiredApproval] = {}
        for flag in (*flags, *self._list_users(connection, flags)):
            edit = describe_cohort_edit(flag)
            for each in self._require(connection, edit, now, cohort=cohort):
                reason = f"{each.reason}; the flag {flag.key} uses the cohort"
                found.setdefault(each.policy_id, replace(each, reason=reason))
        return list(found.values())

    def _read_policies(
        self, connection: Connection, project_id: ProjectId
    ) -> Sequence[ApprovalPolicy]:
        if project_id not in self._policies:
            self._policies[project_id] = read_policies_in_force(connection, project_id)
        return self._policies[project_id]

    def _list_users(self, connection: Connection, flags: Sequence[Flag]) -> list[Flag]:
        if not flags:
            return []
        project_id = flags[0].project_id
        if project_id not in self._users:
            self._users[project_id] = FlagUsers(self.list_flags(connection, project_id))
        return self._users[project_id].list_users(flags)

    def _require(
        self,
        connection: Connection,
        edit: GatedEdit,
        now: datetime,
        *,
        cohort: Cohort | None = None,
        dependency: Flag | None = None,
    ) -> list[RequiredApproval]:
        required = []
        for policy in self._read_policies(connection, edit.after.project_id):
            if not covers(policy, edit):
                continue
            conditions = policy.conditions
            if conditions.changed_percent is None or loses_tag(edit, conditions.tags):
                required.append(require(policy, None))
                continue
            if edit.is_neutral:
                continue
            measurement = Measurement(
                before=edit.before,
                after=edit.after,
                properties=conditions.properties,
                cohort=cohort,
                dependency=dependency,
            )
            share = self._measure(measurement) if edit.is_measurable else None
            total = None
            if _is_within(share, policy):
                total = self._rewind(connection, policy, measurement, now)
                share = share if total is None else self._measure(total)
            if not _is_within(share, policy):
                required.append(require(policy, share, is_total=total is not None))
        return required

    def _rewind(
        self,
        connection: Connection,
        policy: ApprovalPolicy,
        measurement: Measurement,
        now: datetime,
    ) -> Measurement | None:
        """Return the change together with the earlier ones that count for a policy, None without
        any."""
        before, after = measurement.before, measurement.after
        versions = list_counted(connection, after.project_id, policy.id, now)
        own = next((each for each in versions if each.is_of(after)), None)
        if own is not None:
            before = own.rebuild_flag(after, after.id)
        others = [each for each in versions if not each.is_of(after)]
        flags = self.list_flags(connection, after.project_id) if others else ()
        users = [each for each in (before, after) if each is not None]
        earlier = select_used(others, users, flags)
        if own is None and not earlier:
            return None
        return replace(measurement, before=before, earlier=earlier)

    def _count(
        self,
        connection: Connection,
        version: ReplacedVersion,
        required: Sequence[RequiredApproval],
        now: datetime,
    ) -> None:
        policies = self._read_policies(connection, version.project_id)
        ids = {each.id for each in policies if each.conditions.changed_percent is not None}
        if ids:
            approved = ids.intersection(each.policy_id for each in required)
            count_change(connection, version, ids, approved, now)

    def _measure(self, measurement: Measurement) -> float | None:
        """Return the share of persons that a change affects, None if it is not known."""
        key = measurement.key
        if key not in self.measured and self.can_measure:
            raise MeasurementNeeded(measurement)
        return self.measured.get(key)

    def _check(
        self,
        connection: Connection,
        required: Sequence[RequiredApproval],
        written: GatedObject,
        now: datetime,
    ) -> None:
        request = self.request
        votes, author = (request.votes, request.author_uuid) if request else ((), "")
        if not find_unmet(required, votes, author):
            return
        if self.permit is None:
            raise ApprovalRequired(required)
        activity.record(connection, _build_entry(self.permit, required, written), now)


def _is_within(share: float | None, policy: ApprovalPolicy) -> bool:
    limit = policy.conditions.changed_percent
    return share is not None and limit is not None and share <= limit


def require_for_policy(policy: ApprovalPolicy) -> list[RequiredApproval]:
    """A policy that is not in force can be changed freely."""
    return [require(policy, None)] if policy.enabled else []


async def run_gated(
    database: Database,
    change: Callable[[Connection, WriteGate], T],
    measure: Measure | None,
    list_flags: ListFlags,
    timeout_s: float | None = None,
) -> T:
    """Run a transaction with a gate. If a policy depends on the number of persons who would get
    another value, they are counted outside of the transaction, which then runs again."""
    permit = current_break_glass.get()
    measured: dict[MeasurementKey, float | None] = {}
    while True:
        gate = WriteGate(
            permit=permit,
            measured=dict(measured),
            list_flags=list_flags,
            can_measure=measure is not None and len(measured) < MAX_MEASUREMENTS,
        )
        try:
            return await database.write(partial(_call, change, gate), timeout_s)
        except MeasurementNeeded as needed:
            assert measure is not None
            measured[needed.measurement.key] = await measure(needed.measurement)


def _call(
    change: Callable[[Connection, WriteGate], T], gate: WriteGate, connection: Connection
) -> T:
    # A transaction may run again, and read other policies.
    return change(connection, replace(gate, _policies={}, _users={}))


def _build_entry(
    permit: BreakGlass, required: Sequence[RequiredApproval], written: GatedObject
) -> ActivityEntry:
    return ActivityEntry(
        scope=written.scope,
        item_id=written.id,
        item_name=written.name,
        activity=BREAK_GLASS,
        actor=permit.actor,
        project_id=written.project_id,
        detail={
            "reason": permit.reason,
            "missing_approvals": [each.describe() for each in required],
        },
    )


def is_protected_environment(connection: Connection, project_id: ProjectId) -> bool:
    """Whether the project is a protected environment of a product."""
    own = select(environments.c.is_protected).where(environments.c.project_id == project_id)
    return bool(connection.execute(own).scalar())


def read_policies_in_force(connection: Connection, project_id: ProjectId) -> list[ApprovalPolicy]:
    """Return the policies that changes of flags must meet. In a protected environment each change
    needs an approval, even without a policy."""
    is_protected = is_protected_environment(connection, project_id)
    policies = [
        each
        for each in read_policies(connection, project_id, enabled_only=True)
        if is_protected or not each.conditions.protected
    ]
    if is_protected and not any(map(covers_everything, policies)):
        policies.append(build_protection(project_id))
    return policies


def read_policies(
    connection: Connection, project_id: ProjectId, *, enabled_only: bool = False
) -> list[ApprovalPolicy]:
    """Return the policies of a project, newest first."""
    own = table.c.project_id == project_id
    if enabled_only:
        own &= table.c.enabled
    rows = connection.execute(
        select(table).where(own).order_by(table.c.created_at.desc(), table.c.id)
    )
    return [_decode_policy(row) for row in rows]


def _decode_policy(row: Row[Any]) -> ApprovalPolicy:
    """A policy of an unknown kind, written by a newer version, holds for every change."""
    known = row.action_key in ActionKey._value2member_map_
    return ApprovalPolicy(
        id=row.id,
        project_id=ProjectId(row.project_id),
        action_key=ActionKey(row.action_key) if known else ActionKey.ANY,
        conditions=_decode_conditions(row.conditions) if known else PolicyConditions(),
        approvers=ApproverConfig(**row.approvers),
        expires_after=timedelta(seconds=row.expires_after_s),
        enabled=row.enabled,
        version=row.version,
        created_by=row.created_by,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _decode_conditions(stored: Mapping[str, Any]) -> PolicyConditions:
    """With a condition of a newer version, the policy always holds."""
    if not stored.keys() <= set(PolicyConditions.__slots__):
        return PolicyConditions()
    return PolicyConditions(**stored)


def encode_policy(policy: ApprovalPolicy) -> dict[str, Any]:
    conditions, approvers = asdict(policy.conditions), asdict(policy.approvers)
    return {
        "id": policy.id,
        "project_id": policy.project_id,
        "action_key": policy.action_key.value,
        "conditions": conditions | {name: list(conditions[name]) for name in _LISTS},
        "approvers": approvers
        | {"users": list(approvers["users"]), "roles": list(approvers["roles"])},
        "expires_after_s": int(policy.expires_after.total_seconds()),
        "enabled": policy.enabled,
        "version": policy.version,
        "created_by": policy.created_by,
        "created_at": policy.created_at,
        "updated_at": policy.updated_at,
    }


_LISTS = ("tags", "fields", "properties")
