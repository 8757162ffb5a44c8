"""How a plan gets from one state to the next, with the change of its flag. Pure.

Each function returns what to store in one transaction, and raises AppError if it is not possible.
"""

from dataclasses import replace
from typing import Any

from hedgerow.errors import Conflict, Invalid
from hedgerow.events.model import Event
from hedgerow.flags.model import Flag
from hedgerow.flags.schedules.model import Operation
from hedgerow.flags.store import FlagWrite
from hedgerow.flags.validate import condition_sets
from hedgerow.lib.clock import format_iso
from hedgerow.pipelines.deliveries.messages import build_message
from hedgerow.rollouts.evidence import check_comparable
from hedgerow.rollouts.guides import GuideKind, Transition, get_live_flag, write_flag
from hedgerow.rollouts.model import (
    MAX_ACTIVE_PLANS,
    MAX_PLANS,
    Evaluation,
    EvaluationKind,
    PlanState,
    RolloutPlan,
)
from hedgerow.rollouts.parse import render_metric, render_step
from hedgerow.rollouts.store import PlanContext, PlanWrite

SCOPE = "RolloutPlan"


def start(context: PlanContext, plan: RolloutPlan, by: Transition) -> PlanWrite:
    KIND.require_state(plan, "started", PlanState.DRAFT)
    flag = get_live_flag(context.find_flag(plan.flag_id))
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
    KIND.require_state(plan, "resumed", PlanState.PAUSED)
    flag = get_live_flag(context.find_flag(plan.flag_id))
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
    KIND.require_state(plan, "paused", PlanState.RUNNING)
    kind = EvaluationKind.HARM_FOUND if by.found else EvaluationKind.PAUSED
    after = replace(plan, state=PlanState.PAUSED, next_check_at=None)
    return _finish(plan, after, kind, by)


def roll_back(context: PlanContext, plan: RolloutPlan, by: Transition) -> PlanWrite:
    """Give the condition the percentage that it had before the plan."""
    KIND.require_state(plan, "rolled back", PlanState.RUNNING, PlanState.PAUSED)
    flag = get_live_flag(context.find_flag(plan.flag_id))
    assert plan.percentage_before is not None
    write = _write_percentage(context, plan, flag, plan.percentage_before, by)
    kind = EvaluationKind.ROLLED_BACK
    return replace(_end(plan, PlanState.ROLLED_BACK, kind, by), flag=write)


def stop(context: PlanContext, plan: RolloutPlan, by: Transition) -> PlanWrite:
    """End the plan and leave the flag as it is."""
    KIND.require_state(plan, "stopped", PlanState.RUNNING, PlanState.PAUSED)
    return _end(plan, PlanState.STOPPED, EvaluationKind.STOPPED, by)


def check_unchanged(plan: RolloutPlan, flag: Flag | None) -> None:
    """Raise Conflict if the flag is not as the plan has left it."""
    flag = get_live_flag(flag)
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


def _check_free(context: PlanContext, plan: RolloutPlan) -> None:
    KIND.check_free(context.active, plan)
    if bandit := context.find_bandit(plan.flag_id):
        raise Conflict(f"{bandit} of the same flag has not ended.")


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
    write = _write_percentage(
        context, plan, get_live_flag(context.find_flag(plan.flag_id)), step.percentage, by
    )
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
    entry = KIND.build_entry(kind.value, before, after, by.actor)
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
    return write_flag(context.definitions, flag, payload, trigger, by)


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


KIND = GuideKind(
    word="plan",
    words="plans",
    full_words="rollout plans",
    scope=SCOPE,
    max_kept=MAX_PLANS,
    max_active=MAX_ACTIVE_PLANS,
    how_to_end="Stop it or roll it back first.",
    audit=audit,
)
