"""How a plan gets from one state to the next, with the change of its flag. Pure.

Each function returns what to store in one transaction, and raises AppError if it is not possible.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Conflict, Invalid
from hedgerow.events.model import Event
from hedgerow.flags.flags import Authorship, build_change
from hedgerow.flags.model import Flag
from hedgerow.flags.schedules.model import Operation
from hedgerow.flags.schedules.operations import build_fields
from hedgerow.flags.store import FlagWrite
from hedgerow.flags.validate import condition_sets
from hedgerow.lib.clock import format_iso
from hedgerow.lib.encryption import Cipher
from hedgerow.pipelines.deliveries.messages import build_message
from hedgerow.projects.activity import SYSTEM, ActivityEntry, Actor, diff_fields
from hedgerow.rollouts.evidence import check_comparable
from hedgerow.rollouts.model import (
    MAX_ACTIVE_PLANS,
    Evaluation,
    EvaluationKind,
    PlanState,
    RolloutPlan,
)
from hedgerow.rollouts.parse import render_metric, render_step
from hedgerow.rollouts.store import PlanContext, PlanWrite

SCOPE = "RolloutPlan"
FLAG_GONE = "The flag was deleted."


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Who makes a transition, when and why, and the evidence for it. `is_asked_for` if a person
    does."""

    actor: Actor
    now: datetime
    load_cipher: Callable[[], Cipher]
    why: str = ""
    user_uuid: str = ""
    is_asked_for: bool = False
    found: Sequence[Mapping[str, Any]] = ()


def start(context: PlanContext, plan: RolloutPlan, by: Transition) -> PlanWrite:
    _require(plan, "started", PlanState.DRAFT)
    flag = _get_flag(context, plan)
    if not flag.active:
        raise Invalid("The flag is disabled. Enable it first.", attr="flag")
    _check_free(context, plan)
    check_comparable(plan, flag)
    before = read_percentage(plan, flag)
    first = plan.steps[0].percentage
    if before is None:
        raise Invalid(f"The flag has no condition {plan.condition_index}.", attr="condition_index")
    if before > first:
        raise Invalid(
            f"The condition is at {before:g} %, which is more than the first step ({first:g} %). "
            "Lower it first, or begin with a higher step.",
            attr="steps",
        )
    begun = replace(
        plan,
        author=by.actor,
        author_uuid=by.user_uuid,
        percentage_before=before,
        started_at=by.now,
    )
    return _enter_step(context, plan, begun, 0, EvaluationKind.STARTED, by)


def resume(context: PlanContext, plan: RolloutPlan, by: Transition) -> PlanWrite:
    """Repeat the step from its beginning: evidence of before does not count."""
    _require(plan, "resumed", PlanState.PAUSED)
    flag = _get_flag(context, plan)
    if not flag.active:
        raise Invalid("The flag is disabled. Enable it first.", attr="flag")
    check_comparable(plan, flag)
    assert plan.step_index is not None
    index = plan.step_index
    # The next step may have been approved and applied while this one was paused.
    percentage = read_percentage(plan, flag)
    following = [n for n, step in enumerate(plan.steps) if step.percentage == percentage]
    if following and following[0] > index:
        index = following[0]
    author = replace(plan, author=by.actor, author_uuid=by.user_uuid)
    return _enter_step(context, plan, author, index, EvaluationKind.RESUMED, by)


def begin_again(context: PlanContext, plan: RolloutPlan, by: Transition) -> PlanWrite:
    """Repeat the step: its beginning is in the future, because the clock was set back."""
    assert plan.step_index is not None
    check_unchanged(plan, context.find_flag(plan.flag_id))
    return _enter_step(context, plan, plan, plan.step_index, EvaluationKind.RESUMED, by)


def advance(context: PlanContext, plan: RolloutPlan, by: Transition) -> PlanWrite:
    """Begin the next step, or complete the plan after the last one."""
    assert plan.step_index is not None
    check_unchanged(plan, context.find_flag(plan.flag_id))
    if plan.step_index + 1 < len(plan.steps):
        return _enter_step(context, plan, plan, plan.step_index + 1, EvaluationKind.ADVANCED, by)
    return _end(plan, PlanState.COMPLETED, EvaluationKind.COMPLETED, by)


def pause(context: PlanContext, plan: RolloutPlan, by: Transition) -> PlanWrite:
    _require(plan, "paused", PlanState.RUNNING)
    kind = EvaluationKind.HARM_FOUND if by.found else EvaluationKind.PAUSED
    after = replace(plan, state=PlanState.PAUSED, next_check_at=None)
    return _finish(plan, after, kind, by)


def roll_back(context: PlanContext, plan: RolloutPlan, by: Transition) -> PlanWrite:
    """Give the condition the percentage that it had before the plan."""
    _require(plan, "rolled back", PlanState.RUNNING, PlanState.PAUSED)
    flag = _get_flag(context, plan)
    assert plan.percentage_before is not None
    write = _write_percentage(context, plan, flag, plan.percentage_before, by)
    kind = EvaluationKind.ROLLED_BACK
    return replace(_end(plan, PlanState.ROLLED_BACK, kind, by), flag=write)


def stop(context: PlanContext, plan: RolloutPlan, by: Transition) -> PlanWrite:
    """End the plan and leave the flag as it is."""
    _require(plan, "stopped", PlanState.RUNNING, PlanState.PAUSED)
    return _end(plan, PlanState.STOPPED, EvaluationKind.STOPPED, by)


def check_unchanged(plan: RolloutPlan, flag: Flag | None) -> None:
    """Raise Conflict if the flag is not as the plan has left it."""
    if flag is None or flag.deleted:
        raise Conflict(FLAG_GONE)
    if not flag.active:
        raise Conflict("The flag was disabled.")
    percentage, step = read_percentage(plan, flag), plan.step
    assert step is not None
    if percentage != step.percentage:
        actual = "gone" if percentage is None else f"at {percentage:g} %"
        raise Conflict(
            f"The flag was changed: condition {plan.condition_index} is {actual}, and the plan is "
            f"at {step.percentage:g} %."
        )
    try:
        check_comparable(plan, flag)
    except Invalid as error:
        raise Conflict(f"The flag was changed: {error.detail}") from None


def read_percentage(plan: RolloutPlan, flag: Flag) -> float | None:
    """Return the percentage of the condition, None if there is no such condition."""
    conditions = condition_sets(flag.filters)
    if plan.condition_index >= len(conditions):
        return None
    percentage = conditions[plan.condition_index].get("rollout_percentage")
    return 100.0 if percentage is None else float(percentage)


def _require(plan: RolloutPlan, verb: str, *states: PlanState) -> None:
    if plan.state not in states:
        expected = " or ".join(states)
        raise Conflict(f"The plan is {plan.state}. Only one that is {expected} can be {verb}.")


def _get_flag(context: PlanContext, plan: RolloutPlan) -> Flag:
    flag = context.find_flag(plan.flag_id)
    if flag is None or flag.deleted:
        raise Conflict(FLAG_GONE)
    return flag


def _check_free(context: PlanContext, plan: RolloutPlan) -> None:
    others = [id for id, flag_id in context.active.items() if flag_id == plan.flag_id]
    if others:
        raise Conflict(f"The plan {others[0]} of the same flag has not ended.")
    if bandit := context.find_bandit(plan.flag_id):
        raise Conflict(f"{bandit} of the same flag has not ended.")
    if len(context.active) >= MAX_ACTIVE_PLANS:
        raise Invalid(f"A project can have at most {MAX_ACTIVE_PLANS} plans that have not ended.")


def _enter_step(
    context: PlanContext,
    before: RolloutPlan,
    plan: RolloutPlan,
    index: int,
    kind: EvaluationKind,
    by: Transition,
) -> PlanWrite:
    step = plan.steps[index]
    after = replace(
        plan,
        state=PlanState.RUNNING,
        step_index=index,
        step_started_at=by.now,
        next_check_at=by.now,
        metrics_found=(),
    )
    why = f"Step {index + 1} of {len(plan.steps)}: {step.percentage:g} %."
    by = replace(by, why=f"{why} {by.why}".strip())
    write = _write_percentage(context, plan, _get_flag(context, plan), step.percentage, by)
    finished = _finish(before, after, kind, by)
    # The evidence belongs to the step before.
    return replace(finished, flag=write, plan=replace(finished.plan, metrics_found=()))


def _end(plan: RolloutPlan, state: PlanState, kind: EvaluationKind, by: Transition) -> PlanWrite:
    after = replace(plan, state=state, ended_at=by.now, next_check_at=None)
    return _finish(plan, after, kind, by)


def _finish(
    before: RolloutPlan, after: RolloutPlan, kind: EvaluationKind, by: Transition
) -> PlanWrite:
    after = replace(
        after,
        reason=by.why,
        metrics_found=by.found or after.metrics_found,
        updated_at=by.now,
        version=before.version + 1,
    )
    step = after.step
    evaluation = Evaluation(
        kind=kind,
        created_at=by.now,
        step_index=after.step_index,
        percentage=step.percentage if step else None,
        why=by.why,
        metrics=by.found,
    )
    entry = build_entry(kind.value, before, after, by.actor)
    return PlanWrite(
        plan=after,
        build_entry=lambda _: entry,
        evaluation=evaluation,
        message=_build_message(after, kind, by),
    )


def _write_percentage(
    context: PlanContext, plan: RolloutPlan, flag: Flag, percentage: float, by: Transition
) -> FlagWrite:
    payload = {
        "operation": Operation.UPDATE_ROLLOUT.value,
        "value": {
            "rollout_percentage": int(percentage) if percentage.is_integer() else percentage,
            "condition_index": plan.condition_index,
        },
    }
    trigger = {"job_type": "rollout_plan", "job_id": str(plan.id), "payload": payload}
    detail = {"trigger": trigger, "reason": by.why}
    authorship = Authorship(actor=by.actor, at=by.now, detail=detail)
    fields = build_fields(flag, payload)
    return build_change(flag, fields, context.definitions, by.load_cipher(), authorship)


_TOLD = (PlanState.PAUSED, PlanState.ROLLED_BACK, PlanState.COMPLETED, PlanState.STOPPED)


def _build_message(plan: RolloutPlan, kind: EvaluationKind, by: Transition) -> Event | None:
    """Tell what happened without a person."""
    if plan.state not in _TOLD or by.is_asked_for or not plan.destinations:
        return None
    title = f"“{plan.name or f'Rollout plan {plan.id}'}”"
    properties = {
        "rollout_plan_id": plan.id,
        "rollout_plan_name": plan.name,
        "flag_id": plan.flag_id,
        "state": plan.state.value,
        "activity": kind.value,
        "reason": by.why,
        "at": format_iso(by.now),
        "metrics": list(by.found),
        "message": f"{title} is {plan.state.value.replace('_', ' ')}. {by.why}".strip(),
    }
    return build_message(plan.project_id, f"$rollout_plan_{plan.state}", properties, by.now)


def build_entry(
    activity: str, before: RolloutPlan | None, after: RolloutPlan | None, actor: Actor
) -> ActivityEntry:
    plan = after or before
    assert plan is not None
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(plan.id),
        item_name=plan.name,
        activity=activity,
        actor=actor,
        project_id=plan.project_id,
        changes=diff_fields(
            SCOPE,
            {} if before is None else audit(before),
            {} if after is None else audit(after),
        ),
        detail={"reason": plan.reason} if actor == SYSTEM and plan.reason else {},
    )


def audit(plan: RolloutPlan) -> dict[str, Any]:
    """Return the fields that the activity log shows."""
    return {
        "flag": plan.flag_id,
        "name": plan.name,
        "condition_index": plan.condition_index,
        "steps": [render_step(each) for each in plan.steps],
        "metrics": [render_metric(each) for each in plan.metrics],
        "alpha": plan.alpha,
        "window_seconds": int(plan.window.total_seconds()),
        "on_harm": plan.on_harm.value,
        "on_no_data": plan.on_no_data.value,
        "destinations": list(plan.destinations),
        "state": plan.state.value,
        "step": None if plan.step_index is None else plan.step_index + 1,
    }
