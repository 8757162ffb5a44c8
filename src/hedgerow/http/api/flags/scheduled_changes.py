"""Scheduled changes: what is changed in a flag at a later time."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from hedgerow.errors import AppError, Invalid, NotFound
from hedgerow.flags.approvals.model import ProposedChange, ResourceType
from hedgerow.flags.flags import describe_actor
from hedgerow.flags.model import FlagId
from hedgerow.flags.schedules.model import (
    CRON_MAX_CHARS,
    MODEL_NAME,
    Operation,
    ScheduledChange,
    ScheduledChangeId,
)
from hedgerow.flags.schedules.operations import parse_payload
from hedgerow.flags.schedules.scheduled_changes import (
    MAX_STEPS,
    SCOPE,
    Plan,
    ScheduleAuthor,
    ScheduledChanges,
)
from hedgerow.flags.schedules.store import ScheduledChangeFilter
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.flags.change_request_items import ChangeRequester
from hedgerow.http.api.people.users import render_user
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.definitions import compile_patterns
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import (
    Parameter,
    parse_boolean,
    parse_choice,
    parse_positive,
    parse_text,
)
from hedgerow.http.payload.fields import (
    INT64_MAX,
    OMITTED,
    Between,
    Boolean,
    Date,
    Fields,
    Text,
)
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.projects.recurrence import Frequency
from hedgerow.projects.store import ActivityStore

SEARCH_MAX = 200
READ = in_project("feature_flag:read")
WRITE = in_project("feature_flag:write")
RESERVED = {"rollout": "POST"}
# Fields that PostHog returns, without effect when they are sent back.
RETURNED_FIELDS = frozenset(
    (
        *("id", "team_id", "flag_key", "executed_at", "failure_reason", "created_at", "created_by"),
        *("updated_at", "last_executed_at", "timezone", "formatted_failure_reason"),
        "change_request_id",
    )
)
LIST_PARAMETERS = (
    Parameter("model_name", "Only changes of this kind of object: FeatureFlag."),
    Parameter("search", "Only changes of flags with this in their key."),
    Parameter("record_id", "Only changes of the flag with this id."),
    Parameter("pending", "Only changes to come (true), or those that have ended (false)."),
)


class ScheduledChangeItem(msgspec.Struct, kw_only=True):
    """`flag_key` is the key of the flag, `scheduled_at` the next execution. `executed_at` is set
    when no further one follows, and `failure_reason` if the last one was not possible. Recurring
    changes keep the local time of day in `timezone`. If the change requires approval, it is
    executed only if the change request `change_request_id` is approved by then."""

    id: int
    team_id: int
    record_id: str
    flag_key: str
    model_name: str
    payload: Mapping[str, Any]
    scheduled_at: str
    executed_at: str | None
    failure_reason: str | None
    created_at: str
    created_by: Mapping[str, Any] | None
    updated_at: str
    is_recurring: bool
    recurrence_interval: str | None
    cron_expression: str | None
    last_executed_at: str | None
    end_date: str | None
    timezone: str
    change_request_id: str | None


def _parse_payload(value: Any) -> dict[str, Any]:
    try:
        return parse_payload(value)
    except AppError as error:
        path = (error.attr or "").removeprefix("payload").lstrip(".")
        context = {"detail": error.detail, "code": error.code, "path": path}
        raise PydanticCustomError("payload", "{detail}", context) from None


def _parse_record_id(value: Any) -> int:
    number = value if type(value) is int else None
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        number = int(value)
    if number is None or not 1 <= number <= INT64_MAX:
        raise PydanticCustomError("record_id", "Expected the id of a feature flag.")
    return number


Payload = Annotated[dict[str, Any], BeforeValidator(_parse_payload)]
RecordId = Annotated[int, BeforeValidator(_parse_record_id)]


class ScheduledChangeBody(Fields):
    """`payload` has an operation and its value: update_status (true or false),
    add_release_condition (groups), update_variants (variants and payloads), update_rollout
    (rollout_percentage, and condition_index if there are several), update_fields (fields of the
    flag). A recurring change has an interval, or a cron expression in the time zone of the
    project."""

    ignored_fields: ClassVar[frozenset[str] | None] = RETURNED_FIELDS | {"record_id", "model_name"}

    payload: Payload = OMITTED
    scheduled_at: Date = OMITTED
    is_recurring: Boolean = OMITTED
    recurrence_interval: Frequency | None = None
    cron_expression: Annotated[str, Text(CRON_MAX_CHARS, blank=True)] | None = None
    end_date: Date | None = None

    def to_fields(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        if "cron_expression" in fields:
            fields["cron_expression"] = (fields["cron_expression"] or "").strip()
        if fields.get("is_recurring") is False:
            fields |= {"recurrence_interval": None, "cron_expression": "", "end_date": None}
        is_recurring = fields.pop("is_recurring", None)
        if is_recurring and not (
            fields.get("recurrence_interval") or fields.get("cron_expression")
        ):
            raise Invalid(
                "A recurring change requires `recurrence_interval` or `cron_expression`.",
                attr="recurrence_interval",
                code="required",
            )
        return fields


class NewScheduledChange(ScheduledChangeBody):
    ignored_fields = RETURNED_FIELDS

    record_id: RecordId
    model_name: Literal["FeatureFlag"]
    payload: Payload
    scheduled_at: Date

    def to_plan(self) -> Plan:
        fields = self.to_fields()
        return Plan(
            **{
                name: each
                for name, each in fields.items()
                if name not in ("record_id", "model_name")
            }
        )


class RolloutStep(Fields):
    scheduled_at: Date
    rollout_percentage: Annotated[float, Between(0, 100)]


class RolloutBody(Fields):
    """The percentages of a condition over time. `condition_index` is needed if the flag has several
    conditions; the first is 0."""

    ignored_fields: ClassVar[frozenset[str] | None] = frozenset()

    record_id: RecordId
    condition_index: Annotated[int, Between(0, 1_000)] | None = None
    steps: list[RolloutStep]

    def to_plans(self) -> list[Plan]:
        if not 1 <= len(self.steps) <= MAX_STEPS:
            raise Invalid(f"Expected 1 to {MAX_STEPS} steps.", attr="steps")
        times = [step.scheduled_at for step in self.steps]
        if sorted(set(times)) != times:
            raise Invalid("Expected each step after the one before.", attr="steps")
        return [
            Plan(payload=self._build_payload(step), scheduled_at=step.scheduled_at)
            for step in self.steps
        ]

    def _build_payload(self, step: RolloutStep) -> dict[str, Any]:
        value: dict[str, Any] = {"rollout_percentage": step.rollout_percentage}
        if self.condition_index is not None:
            value["condition_index"] = self.condition_index
        return {"operation": Operation.UPDATE_ROLLOUT.value, "value": value}


def _render(call: ProjectCall, change: ScheduledChange, flag_key: str) -> ScheduledChangeItem:
    return ScheduledChangeItem(
        id=change.id,
        team_id=change.project_id,
        record_id=str(change.flag_id),
        flag_key=flag_key,
        model_name=MODEL_NAME,
        payload=change.payload,
        scheduled_at=format_iso(change.scheduled_at),
        executed_at=_format(change.executed_at),
        failure_reason=change.failure_reason or None,
        created_at=format_iso(change.created_at),
        created_by=render_user(call, describe_actor(change.author)),
        updated_at=format_iso(change.updated_at),
        is_recurring=change.is_recurring,
        recurrence_interval=change.recurrence_interval and change.recurrence_interval.value,
        cron_expression=change.cron_expression or None,
        last_executed_at=_format(change.last_executed_at),
        end_date=_format(change.end_date),
        timezone=call.project.timezone,
        change_request_id=change.change_request_id,
    )


def _format(moment: datetime | None) -> str | None:
    return None if moment is None else format_iso(moment)


def _parse_id(call: ProjectCall) -> ScheduledChangeId:
    text = call.path_param("change_id", RESERVED)
    number = parse_positive(text) if text.isdecimal() else None
    if number is None or number > INT64_MAX:
        raise NotFound
    return ScheduledChangeId(number)


def _read_author(call: ProjectCall) -> ScheduleAuthor:
    return ScheduleAuthor(actor=call.actor, user_uuid=call.caller.user.uuid)


class ScheduledChangeEndpoints:
    tag = "Scheduled changes"

    def __init__(
        self, activity: ActivityStore, changes: ScheduledChanges, requester: ChangeRequester
    ) -> None:
        self._activity = activity
        self._changes = changes
        self._requester = requester

    @endpoint(
        "GET",
        *project_paths("scheduled_changes/"),
        access=READ,
        response=Page[ScheduledChangeItem],
        query=PAGE_PARAMETERS + LIST_PARAMETERS,
    )
    async def list_scheduled_changes(self, call: ProjectCall) -> Response:
        """List the scheduled changes, the next one first."""
        found, count = await self._changes.list_changes(call.project, _parse_filter(call))
        return JsonResponse(call.page(count, await self._render_all(call, found)))

    @endpoint(
        "POST",
        *project_paths("scheduled_changes/"),
        access=WRITE,
        response=ScheduledChangeItem,
        status=201,
        body=NewScheduledChange,
    )
    async def create_scheduled_change(self, call: ProjectCall) -> Response:
        """Schedule a change of a flag, once or recurring."""
        body = await call.body(NewScheduledChange)
        await compile_patterns(body.payload)
        made = await self._create(call, body.record_id, [body.to_plan()])
        [item] = await self._render_all(call, made)
        return JsonResponse(item, status_code=201)

    @endpoint(
        "POST",
        *project_paths("scheduled_changes/rollout/"),
        access=WRITE,
        response=Page[ScheduledChangeItem],
        status=201,
        body=RolloutBody,
    )
    async def create_rollout(self, call: ProjectCall) -> Response:
        """Schedule a rollout in steps: all of them, or none."""
        body = await call.body(RolloutBody)
        made = await self._create(call, body.record_id, body.to_plans())
        page = call.page(len(made), await self._render_all(call, made))
        return JsonResponse(page, status_code=201)

    async def _render_all(
        self, call: ProjectCall, changes: Sequence[ScheduledChange]
    ) -> list[ScheduledChangeItem]:
        keys = await self._changes.find_flag_keys(call.project, changes)
        return [_render(call, each, keys.get(each.flag_id, "")) for each in changes]

    async def _create(
        self, call: ProjectCall, flag_id: int, plans: Sequence[Plan]
    ) -> Sequence[ScheduledChange]:
        made = await self._changes.create(
            call.project, FlagId(flag_id), plans, _read_author(call), call.now
        )
        return await self._request_approval(call, made)

    async def _request_approval(
        self, call: ProjectCall, changes: Sequence[ScheduledChange]
    ) -> Sequence[ScheduledChange]:
        if await request_schedule_approval(call, self._requester, changes):
            return [await self._changes.find(call.project, each.id) for each in changes]
        return changes

    @endpoint(
        "GET",
        *project_paths("scheduled_changes/{change_id}/"),
        access=READ,
        response=ScheduledChangeItem,
    )
    async def retrieve_scheduled_change(self, call: ProjectCall) -> Response:
        """Retrieve a scheduled change."""
        found = await self._changes.find(call.project, _parse_id(call))
        [item] = await self._render_all(call, [found])
        return JsonResponse(item)

    @endpoint(
        "PATCH",
        *project_paths("scheduled_changes/{change_id}/"),
        access=WRITE,
        response=ScheduledChangeItem,
        body=ScheduledChangeBody,
    )
    async def change_scheduled_change(self, call: ProjectCall) -> Response:
        """Change what or when a change to come is. It needs another approval then, if it requires
        one."""
        id = _parse_id(call)
        await self._changes.find(call.project, id)
        body = await call.body(ScheduledChangeBody)
        await compile_patterns(body.payload)
        changed = await self._changes.change(
            call.project, id, body.to_fields(), _read_author(call), call.now
        )
        if changed.change_request_id is None:
            [changed] = await self._request_approval(call, [changed])
        [item] = await self._render_all(call, [changed])
        return JsonResponse(item)

    @endpoint("DELETE", *project_paths("scheduled_changes/{change_id}/"), access=WRITE, status=204)
    async def delete_scheduled_change(self, call: ProjectCall) -> Response:
        """Cancel a change to come, or delete one that has ended."""
        await self._changes.cancel(call.project, _parse_id(call), call.actor, call.now)
        return no_content()

    @activity_endpoint("scheduled_changes/{change_id}/activity/", READ)
    async def list_scheduled_change_activity(self, call: ProjectCall) -> Response:
        """List the changes made to a scheduled change, newest first."""
        found = await self._changes.find(call.project, _parse_id(call))
        return await respond_with_activity(call, self._activity, SCOPE, str(found.id))


async def request_schedule_approval(
    call: ProjectCall, requester: ChangeRequester, changes: Sequence[ScheduledChange]
) -> bool:
    """Create one change request for changes that require approval, and return whether they do. A
    change that no request can hold is refused at its time."""
    if not changes or not changes[0].is_pending:
        return False
    proposed = ProposedChange(
        resource_type=ResourceType.SCHEDULED_CHANGE,
        resource_id=str(changes[0].id),
        fields={"changes": [each.id for each in changes]},
    )
    with suppress(Invalid, NotFound):
        await requester.create(call, proposed)
        return True
    return False


def _parse_filter(call: ProjectCall) -> ScheduledChangeFilter:
    parse_choice(call.query_param("model_name"), "model_name", [MODEL_NAME])
    text, window = call.query_param("record_id"), call.window
    flag_id = parse_positive(text)
    if text and flag_id is None:
        raise Invalid("Expected the id of a feature flag.", attr="record_id")
    return ScheduledChangeFilter(
        search=parse_text(call.query_param("search"), "search").strip()[:SEARCH_MAX],
        flag_id=None if flag_id is None else FlagId(min(flag_id, INT64_MAX)),
        is_pending=parse_boolean(call.query_param("pending"), "pending"),
        limit=window.limit,
        offset=window.offset,
    )
