"""Look at running plans every few seconds: stop them on harm, and begin the next step in time.

A plan is claimed by one process, and each transition is stored in one transaction with the change
of the flag, if the plan is still as it was claimed. So it is made once with any number of
processes, and a process that ends in the middle leaves it for another. After a downtime the next
step begins as soon as a process runs; its own duration starts then, so that no step is skipped.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from hedgerow.errors import AppError, Invalid
from hedgerow.events.query.executor import DEFAULT_LIMITS, QueryExecutor
from hedgerow.flags.approvals.permit import BreakGlass, break_glass
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.model import Flag
from hedgerow.flags.schedules.runner import may_change_flags
from hedgerow.lib.clock import Clock
from hedgerow.lib.encryption import Cipher
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.activity import SYSTEM
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project, ProjectId
from hedgerow.queries.due_work import DueWork
from hedgerow.rollouts.evidence import (
    compile_evidence,
    describe,
    find_harm,
    find_missing,
    judge,
)
from hedgerow.rollouts.guides import CLOCK_TOLERANCE, Found, Transition
from hedgerow.rollouts.model import (
    Evaluation,
    EvaluationKind,
    HarmAction,
    NoDataRule,
    RolloutPlan,
)
from hedgerow.rollouts.rollout_plans import MakeTransition, list_documents
from hedgerow.rollouts.store import PlanCheck, PlanContext, PlanWrite, RolloutPlanStore
from hedgerow.rollouts.transitions import (
    advance,
    begin_again,
    check_unchanged,
    pause,
    roll_back,
    stop,
)

QUERY_TIMEOUT_S = 10.0
# Longer than a check may take. The plans of a process that dies wait this long.
CLAIM_DURATION = timedelta(seconds=30)
CHECK_INTERVAL = timedelta(seconds=4)
# A plan whose query takes long is checked less often, so that it uses a fifth of a query slot.
REST_FACTOR = 4
AUTHOR_GONE = (
    "The person who started the plan may no longer change flags in this project. Resume it."
)
CLOCK_SET_BACK = "The clock was set back, so that the step begins again."
LIMITS = replace(DEFAULT_LIMITS, timeout_s=QUERY_TIMEOUT_S)


class RolloutRunner:
    def __init__(
        self,
        store: RolloutPlanStore,
        executor: QueryExecutor,
        flag_cache: FlagCache,
        directory: Directory,
        load_cipher: Callable[[], Cipher],
        clock: Clock,
    ) -> None:
        self._store = store
        self._executor = executor
        self._flag_cache = flag_cache
        self._directory = directory
        self._load_cipher = load_cipher
        self._clock = clock
        self._work = DueWork(lambda: store.list_due_projects(clock()), self._check_next)

    async def check_due(self) -> None:
        """Check all plans that are due. Projects take turns."""
        await self._work.run()

    async def _check_next(self, project_id: ProjectId) -> None:
        now = self._clock()
        plan = await self._store.claim_due(project_id, now, now + CLAIM_DURATION)
        if plan is None:
            return
        await self._directory.refresh()
        project = self._directory.get_project(project_id)
        if project is not None:  # else deleted, and so are its plans soon
            await self._check(project, plan)

    async def _check(self, project: Project, plan: RolloutPlan) -> None:
        flag = await self._store.flag(project.id, plan.flag_id)
        try:
            check_unchanged(plan, flag)
        except AppError as error:
            is_gone = flag is None or flag.deleted
            await self._make(project, plan, stop if is_gone else pause, error.detail)
            return
        assert flag is not None
        started = self._clock()
        if plan.step_started_at is not None and plan.step_started_at > started + CLOCK_TOLERANCE:
            await self._make(project, plan, begin_again, CLOCK_SET_BACK)
            return
        found, error_detail = await self._measure(project, plan, flag, started)
        now = self._clock()
        if harm := find_harm(found):
            await self._act_on_harm(project, plan, harm, found)
        elif waits_for := _find_reason_to_wait(plan, found, error_detail, now):
            await self._save_check(plan, found, waits_for, now - started)
        else:
            await self._advance(project, plan, found)

    async def _measure(
        self, project: Project, plan: RolloutPlan, flag: Flag, now: datetime
    ) -> tuple[Found, str]:
        """Return the evidence, or why there is none."""
        step, start = plan.step, plan.step_started_at
        assert step is not None
        assert start is not None
        if step.percentage >= 100 or now <= start:
            return (), ""
        try:
            context = await self._executor.build_context(project, now, list_documents(plan, flag))
            work = partial(compile_evidence, plan, flag, start, context)
            printed = await self._executor.run_compilation(context, work)
            result = await self._executor.run(context, printed, LIMITS)
        except AppError as error:
            return (), f"The metrics could not be computed: {error.detail}"
        return await run_in_thread(partial(judge, plan, result.rows)), ""

    async def _act_on_harm(
        self, project: Project, plan: RolloutPlan, harm: Found, found: Found
    ) -> None:
        why = f"Harm found. {describe(harm)}"[:1_000]
        if plan.on_harm is HarmAction.PAUSE:
            await self._make(project, plan, pause, why, found)
            return
        try:
            # A rollback must not wait for approvals.
            with break_glass(BreakGlass(reason=why, actor=SYSTEM)):
                await self._make(project, plan, roll_back, why, found)
        except AppError as error:
            if error.is_server_error:
                raise  # a database is away: the plan stays due
            detail = f"{why} It could not be rolled back: {error.detail}"
            await self._make(project, plan, pause, detail, found)

    async def _advance(self, project: Project, plan: RolloutPlan, found: Found) -> None:
        try:
            if not may_change_flags(self._directory, project, plan.author_uuid):
                raise Invalid(AUTHOR_GONE)
            missing = find_missing(found)
            why = f"Without data: {describe(missing)}" if missing else ""
            await self._make(project, plan, advance, why, found)
        except AppError as error:
            if error.is_server_error:
                raise
            why = f"The next step was refused: {error.detail}"
            await self._make(project, plan, pause, why)

    async def _make(
        self, project: Project, plan: RolloutPlan, step: MakeTransition, why: str, found: Found = ()
    ) -> None:
        """Make a transition, unless the plan has changed since it was claimed."""
        now = self._clock()
        actor = plan.author if step is advance else SYSTEM
        by = Transition(actor=actor, now=now, load_cipher=self._load_cipher, why=why, found=found)

        def decide(context: PlanContext, current: RolloutPlan) -> PlanWrite | None:
            if current.version != plan.version:
                return None
            return step(context, current, by)

        if await self._store.change(project.id, plan.id, decide, now) is not None:
            await self._flag_cache.refresh(project)

    async def _save_check(
        self, plan: RolloutPlan, found: Found, reason: str, took: timedelta
    ) -> None:
        now, step = self._clock(), plan.step
        evaluation = Evaluation(
            kind=EvaluationKind.CHECKED,
            created_at=now,
            step_index=plan.step_index,
            percentage=step.percentage if step else None,
            why=reason,
            metrics=found,
        )
        pause_for = max(CHECK_INTERVAL, REST_FACTOR * took)
        check = PlanCheck(reason=reason, evaluation=evaluation, next_check_at=now + pause_for)
        await self._store.save_check(plan, check)


def _find_reason_to_wait(plan: RolloutPlan, found: Found, error_detail: str, now: datetime) -> str:
    """Return why the step goes on, "" if it is over."""
    ends_at, step = plan.step_ends_at, plan.step
    assert ends_at is not None
    assert step is not None
    if error_detail:
        return error_detail
    missing = find_missing(found)
    if now < ends_at:
        if missing:
            return f"The step goes on. So far without data: {describe(missing)}."
        return "The step goes on. No harm found."
    if missing and plan.on_no_data is NoDataRule.WAIT:
        return f"The time of the step is over, and it waits for data: {describe(missing)}."
    return ""
