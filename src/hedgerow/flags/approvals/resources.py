"""The objects that a change request can change: flags, cohorts, and the policies themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from hedgerow.errors import Conflict, Invalid, NotFound
from hedgerow.flags.approvals.model import (
    ActionKey,
    ApprovalPolicy,
    ApproverConfig,
    ChangeRequest,
    PolicyConditions,
    ProposedChange,
    RequestState,
    RequiredApproval,
)
from hedgerow.flags.approvals.store import ApprovalTransaction
from hedgerow.flags.edits import (
    EditBase,
    FlagFields,
    apply_fields,
    drop_unchanged_filters,
    public_value,
    rebase_edit,
    to_json_value,
)
from hedgerow.flags.flags import Authorship, build_change, build_flag_entry, new_flag
from hedgerow.flags.model import Bucketing, Flag, FlagId, Runtime
from hedgerow.flags.payloads import encrypt_payloads
from hedgerow.flags.store import FlagWrite
from hedgerow.lib import jsonio
from hedgerow.lib.encryption import Cipher
from hedgerow.persons.cohorts import CohortFields, build_cohort_entry, change_cohort
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project
from hedgerow.projects.validation import check_storable

POLICY_SCOPE = "ApprovalPolicy"
MOVED = (
    "The object was changed since the change request was created, in the same fields. Create a new "
    "change request."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEdit:
    """A possible change: what it is, and what it needs."""

    name: str
    action_key: str
    fields: Mapping[str, Any]
    original: Mapping[str, Any]
    version: int
    required: Sequence[RequiredApproval]


class Resource(Protocol):
    """`approved_state` is the state of a request after its last approval."""

    approved_state: RequestState = RequestState.APPLIED

    def prepare(self, transaction: ApprovalTransaction, change: ProposedChange) -> PreparedEdit:
        """Check a change without making it."""
        ...

    def register(self, transaction: ApprovalTransaction, request: ChangeRequest) -> None:
        """Do what belongs to a new request, in its transaction."""
        return

    def apply(self, transaction: ApprovalTransaction, request: ChangeRequest) -> dict[str, Any]:
        """Make the change of a request. Raises AppError before anything is written."""
        ...


class FlagResource(Resource):
    def __init__(self, project: Project, cipher: Cipher, author: Actor, now: datetime) -> None:
        self._project = project
        self._cipher = cipher
        self._author = author
        self._now = now

    def prepare(self, transaction: ApprovalTransaction, change: ProposedChange) -> PreparedEdit:
        id, seen = change.resource_id, change.seen
        before = None if id is None else self._find(transaction, id, change.fields)
        wanted = parse_flag_fields(change.fields)
        if before is not None and seen is not None:
            wanted = rebase_edit(before, wanted, seen)
        check_storable(wanted.filters, "filters")
        after = self._build(transaction, before, wanted)
        _check_no_secrets(after, wanted)
        changed = {name: to_json_value(value) for name, value in wanted.as_changes().items()}
        return PreparedEdit(
            name=after.key,
            action_key=_choose_action(before, after),
            fields=changed,
            original={}
            if before is None
            else {name: public_value(before, name) for name in changed},
            version=0 if before is None else before.version,
            required=transaction.require_for_flag(before, after),
        )

    def apply(self, transaction: ApprovalTransaction, request: ChangeRequest) -> dict[str, Any]:
        fields = parse_flag_fields(request.fields)
        write = self._build_write(transaction, request, fields)
        flag = transaction.store_flag(write, request)
        return {"resource_id": flag.id, "resource_version": flag.version}

    def _build_write(
        self, transaction: ApprovalTransaction, request: ChangeRequest, fields: FlagFields
    ) -> FlagWrite:
        detail = {"trigger": {"job_type": "change_request", "job_id": request.id}}
        if request.resource_id is None:
            flag = self._build(transaction, None, fields)
            return FlagWrite(
                flag=flag,
                build_entry=lambda made: replace(
                    build_flag_entry("created", None, made, self._author), detail=detail
                ),
            )
        before = self._find(transaction, request.resource_id, request.fields)
        seen = EditBase(version=request.version, fields=request.original)
        try:
            fields = rebase_edit(before, fields, seen)
        except Conflict:
            raise Conflict(MOVED) from None
        by = Authorship(actor=self._author, at=self._now, detail=detail)
        return build_change(before, fields, transaction.definitions, self._cipher, by)

    def _build(
        self, transaction: ApprovalTransaction, before: Flag | None, fields: FlagFields
    ) -> Flag:
        blank = before or new_flag(self._project, self._author, self._now)
        if before is None and fields.key is None:
            raise Invalid("This field is required.", attr="key", code="required")
        if before is None and fields.deleted:
            raise Invalid("A new flag cannot be deleted.", attr="deleted")
        changed = drop_unchanged_filters(blank, fields)
        return encrypt_payloads(
            blank, apply_fields(blank, changed, transaction.definitions), self._cipher
        )

    def _find(self, transaction: ApprovalTransaction, id: str, fields: Mapping[str, Any]) -> Flag:
        flag = transaction.find_flag(FlagId(int(id)))
        if flag is None or (flag.deleted and fields.get("deleted") is not False):
            raise NotFound
        return flag


def parse_flag_fields(fields: Mapping[str, Any]) -> FlagFields:
    """Return fields that were stored as JSON."""
    known = dict(fields)
    if known.get("evaluation_runtime") is not None:
        known["evaluation_runtime"] = Runtime(known["evaluation_runtime"])
    if known.get("bucketing_identifier") is not None:
        known["bucketing_identifier"] = Bucketing(known["bucketing_identifier"])
    for name in ("evaluation_contexts", "tags", "owners"):
        if known.get(name) is not None:
            known[name] = tuple(known[name])
    return FlagFields(**known)


def _check_no_secrets(after: Flag, fields: FlagFields) -> None:
    filters = fields.filters
    if after.has_encrypted_payloads and isinstance(filters, dict) and filters.get("payloads"):
        raise Invalid(
            "The payloads of this flag are encrypted, and those of a change request are not. Leave "
            "them out.",
            attr="filters.payloads",
            code="not_supported",
        )


def _choose_action(before: Flag | None, after: Flag) -> str:
    if before is None:
        return ActionKey.CREATE.value
    if after.deleted and not before.deleted:
        return ActionKey.DELETE.value
    if after.active != before.active:
        return (ActionKey.ENABLE if after.active else ActionKey.DISABLE).value
    return ActionKey.UPDATE.value


class _AuthoredResource(Resource):
    def __init__(self, author: Actor, now: datetime) -> None:
        self._author = author
        self._now = now


class CohortResource(_AuthoredResource):
    def prepare(self, transaction: ApprovalTransaction, change: ProposedChange) -> PreparedEdit:
        before, fields = self._find(transaction, change.resource_id), change.fields
        after = self._change(transaction, before, fields)
        return PreparedEdit(
            name=before.name,
            action_key="cohort.update",
            fields=dict(fields),
            original={name: getattr(before, name) for name in fields},
            version=0,
            required=transaction.require_for_cohort(before, after),
        )

    def apply(self, transaction: ApprovalTransaction, request: ChangeRequest) -> dict[str, Any]:
        before = self._find(transaction, request.resource_id)
        for name, value in request.original.items():
            present = getattr(before, name)
            if not jsonio.is_equal(present, value):
                raise Conflict(MOVED)
        after = self._change(transaction, before, request.fields)
        entry = build_cohort_entry(before, after, self._author)
        transaction.store_cohort(before, after, entry, request)
        return {"resource_id": after.id}

    def _find(self, transaction: ApprovalTransaction, id: str | None) -> Cohort:
        found = None if id is None else transaction.find_cohort(CohortId(int(id)))
        if found is None or found.deleted:
            raise NotFound
        return found

    def _change(
        self, transaction: ApprovalTransaction, before: Cohort, fields: Mapping[str, Any]
    ) -> Cohort:
        others = {each.id: each for each in transaction.definitions.cohorts}
        return change_cohort(before, CohortFields(**fields), others, self._now)


class PolicyResource(_AuthoredResource):
    """Changing or deleting a policy needs what the policy requires: it would be a way around it
    otherwise."""

    def prepare(self, transaction: ApprovalTransaction, change: ProposedChange) -> PreparedEdit:
        before, fields = find_policy(transaction, change.resource_id), change.fields
        is_deleted = bool(fields.get("deleted"))
        return PreparedEdit(
            name=before.action_key.value,
            action_key="approval_policy.delete" if is_deleted else "approval_policy.update",
            fields=dict(fields),
            original={
                name: value for name, value in to_policy_fields(before).items() if name in fields
            },
            version=before.version,
            required=transaction.require_for_policy(before),
        )

    def apply(self, transaction: ApprovalTransaction, request: ChangeRequest) -> dict[str, Any]:
        before = find_policy(transaction, request.resource_id)
        if before.version != request.version:
            raise Conflict(MOVED)
        after = None
        if not request.fields.get("deleted"):
            after = change_policy(before, request.fields, self._now)
        entry = build_policy_entry(before, after, self._author)
        transaction.store_policy(before, after, entry, request)
        return {"resource_id": before.id}


class RefusedResource(Resource):
    """A promotion or the start of a bandit. What it needs was found when it was refused; the gate
    asks again when it is applied."""

    approved_state = RequestState.APPROVED

    def prepare(self, transaction: ApprovalTransaction, change: ProposedChange) -> PreparedEdit:
        edit: PreparedEdit = change.seen
        return edit

    def apply(self, transaction: ApprovalTransaction, request: ChangeRequest) -> dict[str, Any]:
        return {}


def find_policy(transaction: ApprovalTransaction, id: str | None) -> ApprovalPolicy:
    for each in transaction.list_policies():
        if each.id == id:
            return each
    raise NotFound


def change_policy(
    before: ApprovalPolicy, fields: Mapping[str, Any], now: datetime
) -> ApprovalPolicy:
    """Return the policy with fields as JSON, which were validated before."""
    changed: dict[str, Any] = {}
    if "action_key" in fields:
        changed["action_key"] = ActionKey(fields["action_key"])
    if "conditions" in fields:
        changed["conditions"] = PolicyConditions(**fields["conditions"])
    if "approver_config" in fields:
        changed["approvers"] = ApproverConfig(**fields["approver_config"])
    if "expires_after" in fields:
        changed["expires_after"] = timedelta(seconds=fields["expires_after"])
    if "enabled" in fields:
        changed["enabled"] = fields["enabled"]
    after = replace(before, **changed)
    if after == before:
        return before
    return replace(after, version=before.version + 1, updated_at=now)


def to_policy_fields(policy: ApprovalPolicy | None) -> dict[str, Any]:
    """Return the fields of a policy as JSON."""
    if policy is None:
        return {}
    conditions, approvers = policy.conditions, policy.approvers
    return {
        "action_key": policy.action_key.value,
        "conditions": {
            "tags": list(conditions.tags),
            "fields": list(conditions.fields),
            "protected": conditions.protected,
            "changed_percent": conditions.changed_percent,
            "properties": [dict(each) for each in conditions.properties],
        },
        "approver_config": {
            "quorum": approvers.quorum,
            "users": list(approvers.users),
            "roles": list(approvers.roles),
        },
        "expires_after": int(policy.expires_after.total_seconds()),
        "enabled": policy.enabled,
    }


def build_policy_entry(
    before: ApprovalPolicy | None, after: ApprovalPolicy | None, actor: Actor
) -> ActivityEntry:
    policy = after or before
    assert policy is not None
    activity = "created" if before is None else "deleted" if after is None else "updated"
    return ActivityEntry(
        scope=POLICY_SCOPE,
        item_id=policy.id,
        item_name=policy.action_key.value,
        activity=activity,
        actor=actor,
        project_id=policy.project_id,
        changes=diff_fields(POLICY_SCOPE, to_policy_fields(before), to_policy_fields(after)),
    )
