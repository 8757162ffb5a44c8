"""Approvals in advance: a change request for scheduled changes of a flag. Once it is approved, each
of them is executed at its time, if it is still the change that was approved."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Conflict, NotFound
from hedgerow.flags.approvals.model import (
    ChangeRequest,
    ProposedChange,
    RequestState,
    RequiredApproval,
)
from hedgerow.flags.approvals.resources import MOVED, PreparedEdit, Resource
from hedgerow.flags.approvals.store import ApprovalTransaction
from hedgerow.flags.edits import public_value
from hedgerow.flags.flags import Authorship, build_change
from hedgerow.flags.model import Flag
from hedgerow.flags.schedules.model import Operation, ScheduledChange, ScheduledChangeId
from hedgerow.flags.schedules.operations import build_fields
from hedgerow.flags.validate import condition_sets
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso
from hedgerow.lib.encryption import Cipher
from hedgerow.projects.activity import Actor

ACTION_KEY = "scheduled_change.create"


def is_approved(request: ChangeRequest, change: ScheduledChange, flag: Flag) -> bool:
    """Whether a request has approved exactly this change, of a flag whose conditions are those that
    the approvers saw."""
    return (
        request.state is RequestState.APPROVED
        and _is_described(request, change)
        and _is_unmoved(request, change, flag)
    )


def describe_schedule(change: ScheduledChange) -> dict[str, Any]:
    """Return what is approved. A recurring change is approved for all its times."""
    end = change.end_date
    return {
        "id": change.id,
        "payload": dict(change.payload),
        "scheduled_at": format_iso(change.starts_at),
        "recurrence_interval": change.recurrence_interval and change.recurrence_interval.value,
        "cron_expression": change.cron_expression or None,
        "end_date": None if end is None else format_iso(end),
    }


def _is_described(request: ChangeRequest, change: ScheduledChange) -> bool:
    own = describe_schedule(change)
    return any(jsonio.is_equal(each, own) for each in request.fields["changes"])


def _is_unmoved(request: ChangeRequest, change: ScheduledChange, flag: Flag) -> bool:
    """The percentage that a step sets may be another one, since the step before has set it."""
    seen = _mask(request.original["filters"], change.payload)
    present = _mask(public_value(flag, "filters"), change.payload)
    return request.original["key"] == flag.key and jsonio.is_equal(seen, present)


def _mask(filters: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
    if payload["operation"] != Operation.UPDATE_ROLLOUT:
        return dict(filters)
    groups = [dict(each) for each in condition_sets(filters)]
    index = payload["value"].get("condition_index") or 0
    if index < len(groups):
        groups[index]["rollout_percentage"] = None
    return {**filters, "groups": groups}


class ScheduleResource(Resource):
    """`fields` name the scheduled changes, all of one flag."""

    approved_state = RequestState.APPROVED

    def __init__(self, cipher: Cipher, author: Actor, now: datetime) -> None:
        self._cipher = cipher
        self._author = author
        self._now = now

    def prepare(self, transaction: ApprovalTransaction, change: ProposedChange) -> PreparedEdit:
        changes = self._find_changes(transaction, change.fields["changes"])
        flag = self._find_flag(transaction, changes)
        required: dict[str, RequiredApproval] = {}
        for before, after in self._iterate_edits(transaction, flag, changes):
            for each in transaction.require_for_flag(before, after):
                required.setdefault(each.policy_id, each)
        return PreparedEdit(
            name=flag.key,
            action_key=ACTION_KEY,
            fields={"changes": [describe_schedule(each) for each in changes]},
            original={name: public_value(flag, name) for name in ("key", "filters")},
            version=flag.version,
            required=list(required.values()),
        )

    def register(self, transaction: ApprovalTransaction, request: ChangeRequest) -> None:
        ids = [ScheduledChangeId(each["id"]) for each in request.fields["changes"]]
        transaction.link_scheduled_changes(ids, request)

    def apply(self, transaction: ApprovalTransaction, request: ChangeRequest) -> dict[str, Any]:
        """Check that the approvals suffice for all changes as they are now."""
        ids = [each["id"] for each in request.fields["changes"]]
        changes = [
            each
            for each in self._find_changes(transaction, ids)
            if each.change_request_id == request.id
        ]
        flag = self._find_flag(transaction, changes)
        for change in changes:
            if not _is_described(request, change) or not _is_unmoved(request, change, flag):
                raise Conflict(MOVED)
        for before, after in self._iterate_edits(transaction, flag, changes):
            transaction.check_flag(before, after, request)
        return {"scheduled_changes": [each.id for each in changes]}

    def _find_changes(
        self, transaction: ApprovalTransaction, ids: Sequence[int]
    ) -> list[ScheduledChange]:
        found = [transaction.find_scheduled_change(ScheduledChangeId(id)) for id in ids]
        return [each for each in found if each is not None and each.is_pending]

    def _find_flag(
        self, transaction: ApprovalTransaction, changes: Sequence[ScheduledChange]
    ) -> Flag:
        flag = transaction.find_flag(changes[0].flag_id) if changes else None
        if flag is None or flag.deleted:
            raise NotFound
        return flag

    def _iterate_edits(
        self, transaction: ApprovalTransaction, flag: Flag, changes: Sequence[ScheduledChange]
    ) -> Iterator[tuple[Flag, Flag]]:
        """Yield the flag before and after each change, one after the other. To enable a flag is a
        change, also if it is enabled right now."""
        by = Authorship(actor=self._author, at=self._now, detail={})
        for change in changes:
            value = change.payload["value"]
            if change.payload["operation"] == Operation.UPDATE_STATUS:
                flag = replace(flag, active=not value)
            fields = build_fields(flag, change.payload)
            after = build_change(flag, fields, transaction.definitions, self._cipher, by).flag
            yield flag, after
            flag = after
