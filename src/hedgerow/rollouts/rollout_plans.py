"""Operations on rollout plans: create, change, delete, and what persons do with running ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from hedgerow.errors import Conflict, Invalid, NotFound
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.model import Flag, FlagId
from hedgerow.lib.encryption import Cipher
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project
from hedgerow.rollouts.evidence import compile_evidence
from hedgerow.rollouts.guides import (
    GuideAuthor,
    Transition,
    build_asked_transition,
    get_known_flag,
)
from hedgerow.rollouts.model import MAX_PLANS, Evaluation, PlanId, RolloutPlan
from hedgerow.rollouts.parse import render_metric
from hedgerow.rollouts.store import PlanContext, PlanFilter, PlanWrite, RolloutPlanStore
from hedgerow.rollouts.transitions import KIND

MakeTransition = Callable[[PlanContext, RolloutPlan, Transition], PlanWrite]


class RolloutPlans:
    def __init__(
        self,
        store: RolloutPlanStore,
        executor: QueryExecutor,
        flag_cache: FlagCache,
        load_cipher: Callable[[], Cipher],
    ) -> None:
        self._store = store
        self._executor = executor
        self._flag_cache = flag_cache
        self._load_cipher = load_cipher

    async def list_plans(
        self, project: Project, wanted: PlanFilter
    ) -> tuple[Sequence[RolloutPlan], int]:
        return await self._store.plans(project.id, wanted)

    async def find(self, project: Project, id: PlanId) -> RolloutPlan:
        found = await self._store.plan(project.id, id)
        if found is None:
            raise NotFound
        return found

    async def find_flag_keys(
        self, project: Project, plans: Sequence[RolloutPlan]
    ) -> Mapping[FlagId, str]:
        return await self._store.flag_keys(project.id, {plan.flag_id for plan in plans})

    async def list_evaluations(
        self, plan: RolloutPlan, limit: int, offset: int
    ) -> tuple[Sequence[Evaluation], int]:
        return await self._store.evaluations(plan, limit, offset)

    async def create(
        self, project: Project, fields: Mapping[str, Any], author: GuideAuthor, now: datetime
    ) -> RolloutPlan:
        new = RolloutPlan(
            id=PlanId(0),
            project_id=project.id,
            author=author.actor,
            author_uuid=author.user_uuid,
            created_at=now,
            updated_at=now,
            **fields,
        )
        await self._check_query(project, new, now)

        def decide(context: PlanContext) -> PlanWrite:
            if context.count >= MAX_PLANS:
                detail = f"A project can have at most {MAX_PLANS} rollout plans. Delete some first."
                raise Invalid(detail)
            _check(context, new)
            return PlanWrite(
                plan=new,
                build_entry=lambda made: KIND.build_entry("created", None, made, author.actor),
            )

        return await self._store.create(project.id, decide, now)

    async def change(
        self,
        project: Project,
        id: PlanId,
        fields: Mapping[str, Any],
        author: GuideAuthor,
        now: datetime,
    ) -> RolloutPlan:
        """Change a draft."""
        await self._check_query(project, replace(await self.find(project, id), **fields), now)

        def decide(context: PlanContext, before: RolloutPlan) -> PlanWrite:
            after = KIND.change_draft(before, fields, author, now)
            _check(context, after)
            if after is before:
                return PlanWrite(plan=before, build_entry=lambda _: None)
            entry = KIND.build_entry("updated", before, after, author.actor)
            return PlanWrite(plan=after, build_entry=lambda _: entry)

        return await self._change(project, id, decide, now)

    async def delete(self, project: Project, id: PlanId, actor: Actor, now: datetime) -> None:
        def decide(_: PlanContext, plan: RolloutPlan) -> PlanWrite:
            if plan.state.is_active:
                raise Conflict(f"The plan is {plan.state}. Stop it or roll it back first.")
            entry = KIND.build_entry("deleted", plan, None, actor)
            return PlanWrite(plan=plan, build_entry=lambda _: entry, is_deleted=True)

        await self._change(project, id, decide, now)

    async def make(
        self, project: Project, id: PlanId, step: MakeTransition, author: GuideAuthor, now: datetime
    ) -> RolloutPlan:
        """Make a transition that a person asks for."""
        by = build_asked_transition(author, now, self._load_cipher)
        made = await self._change(project, id, lambda context, plan: step(context, plan, by), now)
        await self._flag_cache.refresh(project)
        return made

    async def _change(
        self,
        project: Project,
        id: PlanId,
        decide: Callable[[PlanContext, RolloutPlan], PlanWrite],
        now: datetime,
    ) -> RolloutPlan:
        changed = await self._store.change(project.id, id, decide, now)
        if changed is None:
            raise NotFound
        return changed

    async def _check_query(self, project: Project, plan: RolloutPlan, now: datetime) -> None:
        """Raise Invalid if the metrics cannot be computed."""
        flag = get_known_flag(await self._store.flag(project.id, plan.flag_id), plan.flag_id)
        documents = list_documents(plan, flag)
        context = await self._executor.load_context(project, now, documents)
        work = partial(compile_evidence, plan, flag, now, context)
        printed = await self._executor.run_compilation(context, work)
        if any(metric.expression for metric in plan.metrics):
            # Only the event store knows whether an expression has a value for each event.
            await self._executor.run(context, printed)


def list_documents(plan: RolloutPlan, flag: Flag) -> list[Any]:
    """Return what the query depends on: filters and HogQL."""
    return [True, flag.filters, [render_metric(metric) for metric in plan.metrics]]


def _check(context: PlanContext, plan: RolloutPlan) -> None:
    get_known_flag(context.find_flag(plan.flag_id), plan.flag_id)
    unknown = [id for id in plan.destinations if id not in context.destinations]
    if unknown:
        detail = f"The project has no destination with the id {unknown[0]}."
        raise Invalid(detail, attr="destinations", code="does_not_exist")
