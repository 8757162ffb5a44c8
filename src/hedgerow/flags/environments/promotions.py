"""Promote flags from one environment to another: all of them, or none.

The plan is made in a thread, since it validates every flag. It is written in one transaction, if
the target has not changed since; otherwise a new plan is made.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from hedgerow.errors import Conflict, Invalid
from hedgerow.flags.approvals.model import ApprovalRequired, RequiredApproval
from hedgerow.flags.approvals.permit import BreakGlass, break_glass
from hedgerow.flags.as_code.apply import PlanWriter, Rehearsed
from hedgerow.flags.environments.matrix import EnvironmentProject
from hedgerow.flags.environments.promotion_plan import (
    EnvironmentFlags,
    NewObjects,
    PromotionPlan,
    PromotionRequest,
    plan_promotion,
    rewrite_cohort_ids,
)
from hedgerow.flags.environments.store import (
    ApprovedRequest,
    CohortWrite,
    EnvironmentStore,
    ProjectWriter,
)
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.flags import Authorship, new_flag
from hedgerow.lib.threads import build_pauses
from hedgerow.persons.cohorts import NEW, create_entry_builder
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId

MAX_ATTEMPTS = 3
# Threads take turns with the event loop.
MAX_PLANNING = 1

RunInThread = Callable[[Callable[[], PromotionPlan]], Awaitable[PromotionPlan]]


class _TargetChanged(Exception):
    """The target has changed since the plan was made."""


class PromotionRefused(ApprovalRequired):
    """A promotion lacks approvals. `plan` is what it would do."""

    def __init__(self, refused: ApprovalRequired, plan: PromotionPlan) -> None:
        super().__init__(refused.required, refused.detail)
        self.plan = plan


class Promotions:
    def __init__(
        self, store: EnvironmentStore, flag_cache: FlagCache, run_in_thread: RunInThread
    ) -> None:
        self._store = store
        self._flag_cache = flag_cache
        self._run_in_thread = run_in_thread
        self._planning = asyncio.Semaphore(MAX_PLANNING)

    async def promote(
        self,
        source: EnvironmentProject,
        target: EnvironmentProject,
        request: PromotionRequest,
        by: tuple[Actor, datetime],
        *,
        is_rehearsal: bool,
        approval: ApprovedRequest | None = None,
    ) -> PromotionPlan:
        """Promote flags, and return what was changed. A rehearsal does the same and stores nothing.
        Invalid names a flag that cannot be promoted; Conflict says that one has changed.
        PromotionRefused says that approvals are missing, also those of `approval`."""
        for _ in range(MAX_ATTEMPTS):
            try:
                plan = await self._plan(source, target, request, by)
                if not plan.flags.is_empty or plan.cohorts:
                    await self._write(plan, _author(source, by), is_rehearsal, approval)
                    await self._flag_cache.refresh(target.project)
                return plan
            except ApprovalRequired as error:
                raise PromotionRefused(error, plan) from None
            except Invalid as error:
                place = f"{error.attr}: " if error.attr else ""
                raise Invalid(f"{place}{error.detail}", attr="flags", code=error.code) from None
            except _TargetChanged:
                continue
        raise Conflict(f"The flags of {target.name} are changing right now. Try again.")

    async def rehearse(
        self,
        source: EnvironmentProject,
        target: EnvironmentProject,
        request: PromotionRequest,
        by: tuple[Actor, datetime],
    ) -> tuple[PromotionPlan, Sequence[RequiredApproval]]:
        """Return what a promotion would do, and the approvals that it lacks. Raises as `promote`
        does, but not PromotionRefused."""
        try:
            return await self.promote(source, target, request, by, is_rehearsal=True), ()
        except PromotionRefused as refused:
            # Nothing of a rehearsal is stored, and that the glass was broken is not either.
            with break_glass(BreakGlass(reason="A rehearsal", actor=by[0])):
                plan = await self.promote(source, target, request, by, is_rehearsal=True)
            return plan, refused.required

    async def _plan(
        self,
        source: EnvironmentProject,
        target: EnvironmentProject,
        request: PromotionRequest,
        by: tuple[Actor, datetime],
    ) -> PromotionPlan:
        actor, now = by
        found = [
            EnvironmentFlags(
                name=each.name,
                definitions=(await self._flag_cache.refresh(each.project)).definitions,
            )
            for each in (source, target)
        ]
        new = NewObjects(blank=new_flag(target.project, actor, now), actor=actor, now=now)
        async with self._planning:
            return await self._run_in_thread(
                lambda: plan_promotion(found[0], found[1], request, new, build_pauses())
            )

    async def _write(
        self,
        plan: PromotionPlan,
        by: Authorship,
        is_rehearsal: bool,
        approval: ApprovedRequest | None,
    ) -> None:
        id = plan.flags.project_id

        def work(writers: Mapping[ProjectId, ProjectWriter]) -> None:
            writer = writers[id]
            if writer.definitions.generation != plan.flags.base.generation:
                raise _TargetChanged
            cohort_ids = _write_cohorts(plan, writer, by)
            PlanWriter(writer.store_flag, by, cohort_ids).write(plan.flags, writer.definitions)
            if is_rehearsal:
                raise Rehearsed

        with suppress(Rehearsed):
            await self._store.write_projects([id], work, by.at, approval)


def _write_cohorts(plan: PromotionPlan, writer: ProjectWriter, by: Authorship) -> Mapping[int, int]:
    """Add the new cohorts, and return their stored ids by their provisional ones."""
    ids: dict[int, int] = {}
    build_entry = create_entry_builder(by.actor)
    for cohort in plan.cohorts:
        definition = rewrite_cohort_ids(cohort.definition, lambda id: ids.get(id, id))
        write = CohortWrite(
            cohort=replace(cohort, id=NEW, definition=definition),
            build_entry=lambda made: replace(build_entry(None, made), detail=by.detail),
        )
        ids[cohort.id] = writer.add_cohort(write).id
    return ids


def _author(source: EnvironmentProject, by: tuple[Actor, datetime]) -> Authorship:
    actor, now = by
    return Authorship(actor=actor, at=now, detail={"trigger": _describe_trigger(source)})


def _describe_trigger(source: EnvironmentProject) -> dict[str, object]:
    return {
        "job_type": "promotion",
        "job_id": str(source.project.id),
        "payload": {"from": source.name, "from_project": source.project.id},
    }
