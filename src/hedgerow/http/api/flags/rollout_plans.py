"""Rollout plans: a flag is rolled out in steps, and stopped when a metric gets worse."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar

import msgspec
from annotated_types import Len
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.flags import describe_actor
from hedgerow.flags.model import FlagId
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.people.users import render_user
from hedgerow.http.auth.access import in_project
from hedgerow.http.auth.personal_key import check_scope
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_choice, parse_positive, parse_text
from hedgerow.http.payload.fields import INT64_MAX, OMITTED, Between, Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.projects.store import ActivityStore
from hedgerow.rollouts import transitions
from hedgerow.rollouts.guides import GuideAuthor
from hedgerow.rollouts.model import (
    DEFAULT_ALPHA,
    DEFAULT_WINDOW_S,
    MAX_DESTINATIONS,
    MAX_WINDOW_S,
    NAME_MAX_CHARS,
    Evaluation,
    Guardrail,
    HarmAction,
    MetricType,
    NoDataRule,
    PlanId,
    PlanState,
    RolloutPlan,
)
from hedgerow.rollouts.parse import parse_metrics, parse_steps, render_metric, render_step
from hedgerow.rollouts.rollout_plans import MakeTransition, RolloutPlans
from hedgerow.rollouts.store import PlanFilter
from hedgerow.rollouts.transitions import SCOPE

SEARCH_MAX_CHARS = 200
MAX_CONDITION_INDEX = 1_000
MIN_ALPHA, MAX_ALPHA = 0.0001, 0.5
READ = in_project("feature_flag:read")
WRITE = in_project("feature_flag:write")
QUERY_SCOPE = "query:read"
# Fields that are returned, without effect when they are sent back.
RETURNED_FIELDS = frozenset(
    (
        *("id", "flag_key", "state", "reason", "step_index", "rollout_percentage", "version"),
        *("rollout_percentage_before", "step_started_at", "step_ends_at", "started_at", "ended_at"),
        *("last_checked_at", "evidence", "created_at", "created_by", "updated_at"),
    )
)
LIST_PARAMETERS = (
    Parameter("search", "Only plans with this in their name or in the key of their flag."),
    Parameter("flag", "Only plans of the flag with this id."),
    Parameter("state", f"Only plans in this state: {', '.join(PlanState)}."),
)


class GroupEvidence(msgspec.Struct, kw_only=True):
    persons: int
    value: float | None


class MetricEvidence(msgspec.Struct, kw_only=True):
    """What is known about a metric. `verdict` is harm, no_harm_found, too_few_persons, no_data or
    too_little_data. `p_value` is valid at any time; at or below `alpha` it is harm.
    `harm_at_least` is the smallest harm that is compatible with the data, negative if that is
    none."""

    name: str
    harm: str
    verdict: str
    why: str
    treated: GroupEvidence
    control: GroupEvidence
    difference: float | None
    relative_difference: float | None
    harm_at_least: float | None
    p_value: float | None
    alpha: float


class EvaluationItem(msgspec.Struct, kw_only=True):
    """An entry of the history: what happened and why, and the evidence at this time."""

    kind: str
    created_at: str
    step_index: int | None
    rollout_percentage: float | None
    why: str
    evidence: Sequence[MetricEvidence]


class RolloutPlanItem(msgspec.Struct, kw_only=True):
    """A plan. `step_index` is its current or last step, the first is 0. `evidence` is the latest
    evidence of this step, `reason` says why the plan is in its state or what it waits for."""

    id: int
    flag: int
    flag_key: str
    condition_index: int
    name: str
    steps: Sequence[Mapping[str, Any]]
    metrics: Sequence[Mapping[str, Any]]
    alpha: float
    window_seconds: int
    on_harm: str
    on_no_data: str
    destinations: Sequence[int]
    state: str
    reason: str
    step_index: int | None
    rollout_percentage: float | None
    rollout_percentage_before: float | None
    step_started_at: str | None
    step_ends_at: str | None
    started_at: str | None
    ended_at: str | None
    last_checked_at: str | None
    evidence: Sequence[MetricEvidence]
    version: int
    created_at: str
    created_by: Mapping[str, Any] | None
    updated_at: str


def _parse_alpha(value: Any) -> float:
    if type(value) not in (int, float) or not MIN_ALPHA <= value <= MAX_ALPHA:
        detail = f"Expected a number from {MIN_ALPHA} to {MAX_ALPHA}."
        raise PydanticCustomError("alpha", "{detail}", {"detail": detail})
    return float(value)


class RolloutPlanBody(Fields):
    """`steps` are percentages with their duration, `metrics` what must not get worse: conversion,
    count, sum, mean, ratio or hogql, each with the direction that is harm. `alpha` is the chance
    that a plan without harm is ever stopped. A person counts `window_seconds` after the first
    exposure, with what happened until then. `on_harm` is pause or roll_back, `on_no_data` wait or
    advance, `destinations` are ids of destinations of the project."""

    ignored_fields: ClassVar[frozenset[str] | None] = RETURNED_FIELDS

    flag: Annotated[int, Between(1, INT64_MAX)] = OMITTED
    condition_index: Annotated[int, Between(0, MAX_CONDITION_INDEX)] = OMITTED
    name: Annotated[str, Text(NAME_MAX_CHARS, blank=True)] = OMITTED
    steps: list[dict[str, Any]] = OMITTED
    metrics: list[dict[str, Any]] = OMITTED
    alpha: Annotated[float, BeforeValidator(_parse_alpha)] = OMITTED
    window_seconds: Annotated[int, Between(1, MAX_WINDOW_S)] = OMITTED
    on_harm: HarmAction = OMITTED
    on_no_data: NoDataRule = OMITTED
    destinations: Annotated[
        list[Annotated[int, Between(1, INT64_MAX)]], Len(0, MAX_DESTINATIONS)
    ] = OMITTED

    def to_fields(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        if "flag" in fields:
            fields["flag_id"] = FlagId(fields.pop("flag"))
        if "window_seconds" in fields:
            fields["window"] = timedelta(seconds=fields.pop("window_seconds"))
        if "steps" in fields:
            fields["steps"] = parse_steps(fields["steps"])
        if "metrics" in fields:
            fields["metrics"] = parse_metrics(fields["metrics"])
        if "destinations" in fields:
            fields["destinations"] = tuple(dict.fromkeys(fields["destinations"]))
        return fields


class NewRolloutPlan(RolloutPlanBody):
    flag: Annotated[int, Between(1, INT64_MAX)]
    steps: list[dict[str, Any]]
    metrics: list[dict[str, Any]]

    def to_fields(self) -> dict[str, Any]:
        defaults: dict[str, Any] = {
            "condition_index": 0,
            "name": "",
            "alpha": DEFAULT_ALPHA,
            "window": timedelta(seconds=DEFAULT_WINDOW_S),
            "on_harm": HarmAction.ROLL_BACK,
            "on_no_data": NoDataRule.WAIT,
            "destinations": (),
        }
        return defaults | super().to_fields()


def _check_may_query(call: ProjectCall, metrics: Sequence[Guardrail]) -> None:
    """An expression can read all that a query can, and the evidence shows sums of it."""
    if any(each.type is MetricType.HOGQL for each in metrics):
        check_scope(call.caller, QUERY_SCOPE, call.project)


# Who starts or resumes a plan is its author from then on.
_BEGINNING = (transitions.start, transitions.resume)


class RolloutPlanEndpoints:
    tag = "Rollout plans"

    def __init__(self, activity: ActivityStore, plans: RolloutPlans) -> None:
        self._activity = activity
        self._plans = plans

    @endpoint(
        "GET",
        *project_paths("rollout_plans/"),
        access=READ,
        response=Page[RolloutPlanItem],
        query=PAGE_PARAMETERS + LIST_PARAMETERS,
    )
    async def list_rollout_plans(self, call: ProjectCall) -> Response:
        """List the rollout plans, newest first."""
        found, count = await self._plans.list_plans(call.project, _parse_filter(call))
        return JsonResponse(call.page(count, await self._render_all(call, found)))

    @endpoint(
        "POST",
        *project_paths("rollout_plans/"),
        access=WRITE,
        response=RolloutPlanItem,
        status=201,
        body=NewRolloutPlan,
    )
    async def create_rollout_plan(self, call: ProjectCall) -> Response:
        """Create a rollout plan, as a draft. Nothing changes before it is started. A metric of the
        type `hogql` also needs the scope `query:read`."""
        body = await call.body(NewRolloutPlan)
        fields = body.to_fields()
        _check_may_query(call, fields.get("metrics", ()))
        made = await self._plans.create(call.project, fields, _read_author(call), call.now)
        return await self._respond(call, made, status=201)

    @endpoint(
        "GET",
        *project_paths("rollout_plans/{plan_id}/"),
        access=READ,
        response=RolloutPlanItem,
    )
    async def retrieve_rollout_plan(self, call: ProjectCall) -> Response:
        """Retrieve a rollout plan with its latest evidence."""
        return await self._respond(call, await self._plans.find(call.project, _parse_id(call)))

    @endpoint(
        "PATCH",
        *project_paths("rollout_plans/{plan_id}/"),
        access=WRITE,
        response=RolloutPlanItem,
        body=RolloutPlanBody,
    )
    async def change_rollout_plan(self, call: ProjectCall) -> Response:
        """Change a draft."""
        id = _parse_id(call)
        await self._plans.find(call.project, id)
        body = await call.body(RolloutPlanBody)
        fields = body.to_fields()
        _check_may_query(call, fields.get("metrics", ()))
        changed = await self._plans.change(call.project, id, fields, _read_author(call), call.now)
        return await self._respond(call, changed)

    @endpoint("DELETE", *project_paths("rollout_plans/{plan_id}/"), access=WRITE, status=204)
    async def delete_rollout_plan(self, call: ProjectCall) -> Response:
        """Delete a plan that is not running or paused, with its history. The flag stays as it
        is."""
        await self._plans.delete(call.project, _parse_id(call), call.actor, call.now)
        return no_content()

    @endpoint(
        "POST",
        *project_paths("rollout_plans/{plan_id}/start/"),
        access=WRITE,
        response=RolloutPlanItem,
    )
    async def start_rollout_plan(self, call: ProjectCall) -> Response:
        """Start a draft: the condition gets the percentage of the first step."""
        return await self._make(call, transitions.start)

    @endpoint(
        "POST",
        *project_paths("rollout_plans/{plan_id}/pause/"),
        access=WRITE,
        response=RolloutPlanItem,
    )
    async def pause_rollout_plan(self, call: ProjectCall) -> Response:
        """Pause a running plan. The flag keeps its percentage."""
        return await self._make(call, transitions.pause)

    @endpoint(
        "POST",
        *project_paths("rollout_plans/{plan_id}/resume/"),
        access=WRITE,
        response=RolloutPlanItem,
    )
    async def resume_rollout_plan(self, call: ProjectCall) -> Response:
        """Resume a paused plan. Its step begins anew: earlier evidence does not count."""
        return await self._make(call, transitions.resume)

    @endpoint(
        "POST",
        *project_paths("rollout_plans/{plan_id}/stop/"),
        access=WRITE,
        response=RolloutPlanItem,
    )
    async def stop_rollout_plan(self, call: ProjectCall) -> Response:
        """End a running or paused plan. The flag keeps its percentage."""
        return await self._make(call, transitions.stop)

    @endpoint(
        "POST",
        *project_paths("rollout_plans/{plan_id}/rollback/"),
        access=WRITE,
        response=RolloutPlanItem,
    )
    async def roll_back_rollout_plan(self, call: ProjectCall) -> Response:
        """End a running or paused plan. The condition gets the percentage from before it."""
        return await self._make(call, transitions.roll_back)

    @endpoint(
        "GET",
        *project_paths("rollout_plans/{plan_id}/evaluations/"),
        access=READ,
        response=Page[EvaluationItem],
        query=PAGE_PARAMETERS,
    )
    async def list_rollout_evaluations(self, call: ProjectCall) -> Response:
        """List what happened in a plan and why, newest first."""
        plan = await self._plans.find(call.project, _parse_id(call))
        window = call.window
        found, count = await self._plans.list_evaluations(plan, window.limit, window.offset)
        return JsonResponse(call.page(count, [_render_evaluation(each) for each in found]))

    @activity_endpoint("rollout_plans/{plan_id}/activity/", READ)
    async def list_rollout_plan_activity(self, call: ProjectCall) -> Response:
        """List the changes made to a rollout plan, newest first."""
        found = await self._plans.find(call.project, _parse_id(call))
        return await respond_with_activity(call, self._activity, SCOPE, str(found.id))

    async def _make(self, call: ProjectCall, step: MakeTransition) -> Response:
        found = await self._plans.find(call.project, _parse_id(call))
        if step in _BEGINNING:
            _check_may_query(call, found.metrics)
        made = await self._plans.make(call.project, found.id, step, _read_author(call), call.now)
        return await self._respond(call, made)

    async def _respond(self, call: ProjectCall, plan: RolloutPlan, status: int = 200) -> Response:
        [item] = await self._render_all(call, [plan])
        return JsonResponse(item, status_code=status)

    async def _render_all(
        self, call: ProjectCall, plans: Sequence[RolloutPlan]
    ) -> list[RolloutPlanItem]:
        keys = await self._plans.find_flag_keys(call.project, plans)
        return [_render(call, each, keys.get(each.flag_id, "")) for each in plans]


def _render(call: ProjectCall, plan: RolloutPlan, flag_key: str) -> RolloutPlanItem:
    step = plan.step
    return RolloutPlanItem(
        id=plan.id,
        flag=plan.flag_id,
        flag_key=flag_key,
        condition_index=plan.condition_index,
        name=plan.name,
        steps=[render_step(each) for each in plan.steps],
        metrics=[render_metric(each) for each in plan.metrics],
        alpha=plan.alpha,
        window_seconds=int(plan.window.total_seconds()),
        on_harm=plan.on_harm.value,
        on_no_data=plan.on_no_data.value,
        destinations=plan.destinations,
        state=plan.state.value,
        reason=plan.reason,
        step_index=plan.step_index,
        rollout_percentage=step.percentage if step else None,
        rollout_percentage_before=plan.percentage_before,
        step_started_at=_format(plan.step_started_at),
        step_ends_at=_format(plan.step_ends_at if plan.state is PlanState.RUNNING else None),
        started_at=_format(plan.started_at),
        ended_at=_format(plan.ended_at),
        last_checked_at=_format(plan.last_checked_at),
        evidence=[_render_metric(each) for each in plan.metrics_found],
        version=plan.version,
        created_at=format_iso(plan.created_at),
        created_by=render_user(call, describe_actor(plan.author)),
        updated_at=format_iso(plan.updated_at),
    )


def _render_evaluation(evaluation: Evaluation) -> EvaluationItem:
    return EvaluationItem(
        kind=evaluation.kind.value,
        created_at=format_iso(evaluation.created_at),
        step_index=evaluation.step_index,
        rollout_percentage=evaluation.percentage,
        why=evaluation.why,
        evidence=[_render_metric(each) for each in evaluation.metrics],
    )


def _render_metric(found: Mapping[str, Any]) -> MetricEvidence:
    return msgspec.convert(found, MetricEvidence)


def _format(moment: datetime | None) -> str | None:
    return None if moment is None else format_iso(moment)


def _parse_id(call: ProjectCall) -> PlanId:
    text = call.path_param("plan_id")
    number = parse_positive(text) if text.isdecimal() else None
    if number is None or number > INT64_MAX:
        raise NotFound
    return PlanId(number)


def _read_author(call: ProjectCall) -> GuideAuthor:
    return GuideAuthor(actor=call.actor, user_uuid=call.caller.user.uuid)


def _parse_filter(call: ProjectCall) -> PlanFilter:
    text, window = call.query_param("flag"), call.window
    flag_id = parse_positive(text)
    if text and flag_id is None:
        raise Invalid("Expected the id of a feature flag.", attr="flag")
    state = parse_choice(call.query_param("state"), "state", list(PlanState))
    return PlanFilter(
        search=parse_text(call.query_param("search"), "search").strip()[:SEARCH_MAX_CHARS],
        flag_id=None if flag_id is None else FlagId(min(flag_id, INT64_MAX)),
        state=PlanState(state) if state else None,
        limit=window.limit,
        offset=window.offset,
    )
