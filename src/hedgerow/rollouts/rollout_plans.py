"""Operations on rollout plans: create, change, delete, and what persons do with running ones."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from hedgerow.errors import Invalid, NotFound
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.model import Flag
from hedgerow.lib.encryption import Cipher
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import Project
from hedgerow.rollouts.evidence import compile_evidence
from hedgerow.rollouts.guides import Transition
from hedgerow.rollouts.model import Evaluation, PlanId, RolloutPlan
from hedgerow.rollouts.operations import GuideOperations
from hedgerow.rollouts.parse import render_metric
from hedgerow.rollouts.store import PlanContext, PlanFilter, PlanWrite, RolloutPlanStore
from hedgerow.rollouts.transitions import KIND

MakeTransition = Callable[[PlanContext, RolloutPlan, Transition], PlanWrite]


class RolloutPlans(GuideOperations[PlanId, RolloutPlan, PlanContext, PlanWrite]):
    kind = KIND

    def __init__(
        self,
        store: RolloutPlanStore,
        executor: QueryExecutor,
        flag_cache: FlagCache,
        load_cipher: Callable[[], Cipher],
    ) -> None:
        super().__init__(store, flag_cache, load_cipher)
        self._store = store
        self._executor = executor

    async def list_plans(
        self, project: Project, wanted: PlanFilter
    ) -> tuple[Sequence[RolloutPlan], int]:
        return await self._store.plans(project.id, wanted)

    async def find(self, project: Project, id: PlanId) -> RolloutPlan:
        found = await self._store.plan(project.id, id)
        if found is None:
            raise NotFound
        return found

    async def list_evaluations(
        self, plan: RolloutPlan, limit: int, offset: int
    ) -> tuple[Sequence[Evaluation], int]:
        return await self._store.evaluations(plan, limit, offset)

    def _build(self, fields: Mapping[str, Any]) -> RolloutPlan:
        return RolloutPlan(id=PlanId(0), **fields)

    def _build_write(
        self,
        guide: RolloutPlan,
        build_entry: Callable[[RolloutPlan], ActivityEntry | None],
        *,
        is_deleted: bool = False,
    ) -> PlanWrite:
        return PlanWrite(plan=guide, build_entry=build_entry, is_deleted=is_deleted)

    def _check(self, context: PlanContext, guide: RolloutPlan) -> None:
        super()._check(context, guide)
        unknown = [id for id in guide.destinations if id not in context.destinations]
        if unknown:
            detail = f"The project has no destination with the id {unknown[0]}."
            raise Invalid(detail, attr="destinations", code="does_not_exist")

    async def _check_query(self, project: Project, guide: RolloutPlan, now: datetime) -> None:
        flag = await self.find_flag(project, guide)
        documents = list_documents(guide, flag)
        context = await self._executor.load_context(project, now, documents)
        work = partial(compile_evidence, guide, flag, now, context)
        printed = await self._executor.run_compilation(context, work)
        if any(metric.expression for metric in guide.metrics):
            # Only the event store knows whether an expression has a value for each event.
            await self._executor.run(context, printed)


def list_documents(plan: RolloutPlan, flag: Flag) -> list[Any]:
    """Return what the query depends on: filters and HogQL."""
    return [True, flag.filters, [render_metric(metric) for metric in plan.metrics]]
