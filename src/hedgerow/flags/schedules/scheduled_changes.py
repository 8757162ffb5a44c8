"""Operations on scheduled changes: create, plan a rollout in steps, change, cancel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from hedgerow.errors import Conflict, Invalid, NotFound
from hedgerow.flags.edits import apply_fields, drop_unchanged_filters
from hedgerow.flags.model import Flag, FlagId
from hedgerow.flags.schedules.model import (
    MAX_PENDING_CHANGES,
    Operation,
    ScheduledChange,
    ScheduledChangeId,
    find_next_cron,
)
from hedgerow.flags.schedules.operations import VALUE, build_fields
from hedgerow.flags.schedules.store import (
    ScheduleContext,
    ScheduledChangeFilter,
    ScheduledChangeStore,
    ScheduleWrite,
)
from hedgerow.lib.clock import format_iso
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project
from hedgerow.projects.recurrence import Frequency

SCOPE = "ScheduledChange"
MAX_DELAY = timedelta(days=5 * 366)
MAX_STEPS = 50
# These operations name a condition or a variant, so that an error can be found when it is planned.
_CHECKED = (Operation.ADD_RELEASE_CONDITION, Operation.UPDATE_VARIANTS, Operation.UPDATE_ROLLOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleAuthor:
    """Who schedules a change. `user_uuid` is the person, "" for the command line."""

    actor: Actor
    user_uuid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to change, and when."""

    payload: Mapping[str, Any]
    scheduled_at: datetime
    recurrence_interval: Frequency | None = None
    cron_expression: str = ""
    end_date: datetime | None = None


class ScheduledChanges:
    def __init__(self, store: ScheduledChangeStore) -> None:
        self._store = store

    async def list_changes(
        self, project: Project, wanted: ScheduledChangeFilter
    ) -> tuple[Sequence[ScheduledChange], int]:
        return await self._store.scheduled_changes(project.id, wanted)

    async def find_flag_keys(
        self, project: Project, changes: Sequence[ScheduledChange]
    ) -> Mapping[FlagId, str]:
        """Return the keys of the flags that the changes are about."""
        return await self._store.flag_keys(project.id, {each.flag_id for each in changes})

    async def find(self, project: Project, id: ScheduledChangeId) -> ScheduledChange:
        found = await self._store.scheduled_change(project.id, id)
        if found is None:
            raise NotFound
        return found

    async def create(
        self,
        project: Project,
        flag_id: FlagId,
        plans: Sequence[Plan],
        author: ScheduleAuthor,
        now: datetime,
    ) -> Sequence[ScheduledChange]:
        """Schedule changes of a flag: all of them, or none."""
        new = [_build(project, flag_id, plan, author, now) for plan in plans]

        def decide(context: ScheduleContext) -> list[ScheduleWrite]:
            flag = _find_flag(context, flag_id)
            if context.pending + len(new) > MAX_PENDING_CHANGES:
                raise Invalid(
                    f"A project can have at most {MAX_PENDING_CHANGES} scheduled changes that are "
                    "not yet executed."
                )
            return [
                _write(None, _checked(each, flag, project, context, now), author.actor)
                for each in new
            ]

        return await self._store.write(project.id, decide, now)

    async def change(
        self,
        project: Project,
        id: ScheduledChangeId,
        fields: Mapping[str, Any],
        author: ScheduleAuthor,
        now: datetime,
    ) -> ScheduledChange:
        """Change when or what a pending change is. The author is the one who changed it last."""

        def decide(context: ScheduleContext) -> list[ScheduleWrite]:
            before = context.find(id)
            if before is None:
                raise NotFound
            if not before.is_pending:
                raise Conflict("The change was executed already. Create a new one.")
            after = replace(before, **fields)
            if after == before:
                return [ScheduleWrite(change=before, build_entry=lambda _: None)]
            if "scheduled_at" in fields:
                after = replace(after, starts_at=after.scheduled_at)
            after = replace(
                after,
                author=author.actor,
                author_uuid=author.user_uuid,
                updated_at=now,
                change_request_id=None,  # what was approved is another change
            )
            flag = _find_flag(context, before.flag_id)
            return [_write(before, _checked(after, flag, project, context, now), author.actor)]

        return (await self._store.write(project.id, decide, now))[0]

    async def cancel(
        self, project: Project, id: ScheduledChangeId, actor: Actor, now: datetime
    ) -> None:
        """Delete a change, also one that has been executed."""
        found = await self.find(project, id)
        entry = _build_entry("deleted", found, _audit(found), {}, actor)
        if not await self._store.delete(found, entry, now):
            raise Conflict("The change was executed while you cancelled it.")


def _find_flag(context: ScheduleContext, id: FlagId) -> Flag:
    flag = context.find_flag(id)
    if flag is None or flag.deleted:
        raise Invalid(
            f'There is no feature flag with the id "{id}".', attr="record_id", code="does_not_exist"
        )
    return flag


def _build(
    project: Project, flag_id: FlagId, plan: Plan, author: ScheduleAuthor, now: datetime
) -> ScheduledChange:
    return ScheduledChange(
        id=ScheduledChangeId(0),
        project_id=project.id,
        flag_id=flag_id,
        payload=plan.payload,
        scheduled_at=plan.scheduled_at,
        starts_at=plan.scheduled_at,
        recurrence_interval=plan.recurrence_interval,
        cron_expression=plan.cron_expression,
        end_date=plan.end_date,
        executed_at=None,
        last_executed_at=None,
        failure_reason="",
        author=author.actor,
        author_uuid=author.user_uuid,
        created_at=now,
        updated_at=now,
    )


def _checked(
    change: ScheduledChange, flag: Flag, project: Project, context: ScheduleContext, now: datetime
) -> ScheduledChange:
    """Return the change as it is stored. Raises Invalid if it cannot be scheduled."""
    _check_times(change, project, now)
    value = change.payload["value"]
    if flag.has_encrypted_payloads and isinstance(value, dict):
        filters = value.get("filters")
        if value.get("payloads") or (isinstance(filters, dict) and filters.get("payloads")):
            raise Invalid(
                "The payloads of this flag are encrypted, and those of a scheduled change are not. "
                "Leave them out.",
                attr=VALUE,
                code="not_supported",
            )
    if change.payload["operation"] in _CHECKED or (isinstance(value, dict) and "filters" in value):
        fields = drop_unchanged_filters(flag, build_fields(flag, change.payload))
        apply_fields(flag, fields, context.definitions)
    if change.cron_expression:
        # The first time of a cron expression is its own.
        first = find_next_cron(
            change.cron_expression,
            change.scheduled_at - timedelta(seconds=1),
            ZoneInfo(project.timezone),
        )
        return replace(change, scheduled_at=first or change.scheduled_at)
    return change


def _check_times(change: ScheduledChange, project: Project, now: datetime) -> None:
    if change.scheduled_at <= now:
        raise Invalid("The time must be in the future.", attr="scheduled_at")
    if change.scheduled_at > now + MAX_DELAY:
        raise Invalid("The time must be within five years.", attr="scheduled_at")
    if change.recurrence_interval is not None and change.cron_expression:
        raise Invalid(
            "Send `recurrence_interval` or `cron_expression`, not both.", attr="cron_expression"
        )
    if change.cron_expression and not find_next_cron(
        change.cron_expression, now, ZoneInfo(project.timezone)
    ):
        raise Invalid(
            "Expected a cron expression such as `0 9 * * 1-5`, in the time zone of the project.",
            attr="cron_expression",
        )
    if change.end_date is not None:
        if not change.is_recurring:
            raise Invalid("Only a recurring change has an end.", attr="end_date")
        if change.end_date < change.scheduled_at:
            raise Invalid("The end must not be before the first execution.", attr="end_date")


def _write(before: ScheduledChange | None, after: ScheduledChange, actor: Actor) -> ScheduleWrite:
    fields = {} if before is None else _audit(before)
    activity = "created" if before is None else "updated"
    return ScheduleWrite(
        change=after,
        build_entry=lambda stored: _build_entry(activity, stored, fields, _audit(stored), actor),
    )


def _build_entry(
    activity: str,
    change: ScheduledChange,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    actor: Actor,
) -> ActivityEntry:
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(change.id),
        item_name=describe_operation(change.payload),
        activity=activity,
        actor=actor,
        project_id=change.project_id,
        changes=diff_fields(SCOPE, before, after),
    )


def describe_operation(payload: Mapping[str, Any]) -> str:
    """Return such as `update_rollout to 25 %`."""
    value = payload["value"]
    match Operation(payload["operation"]):
        case Operation.UPDATE_STATUS:
            return "enable the flag" if value else "disable the flag"
        case Operation.ADD_RELEASE_CONDITION:
            return "add a condition"
        case Operation.UPDATE_VARIANTS:
            return "change the variants"
        case Operation.UPDATE_ROLLOUT:
            return f"roll out to {value['rollout_percentage']} %"
        case Operation.UPDATE_FIELDS:
            return f"change {', '.join(value)}"


def _audit(change: ScheduledChange) -> dict[str, Any]:
    end = change.end_date
    return {
        "record_id": str(change.flag_id),
        "payload": dict(change.payload),
        "scheduled_at": format_iso(change.scheduled_at),
        "recurrence_interval": change.recurrence_interval and change.recurrence_interval.value,
        "cron_expression": change.cron_expression or None,
        "end_date": None if end is None else format_iso(end),
    }
