"""Flags as a document: export, plan and apply it, for a project or for all environments of a
product."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from hedgerow.filters.values import MISSING
from hedgerow.flags.as_code.apply import FlagsAsCode
from hedgerow.flags.as_code.document import FlagDocument
from hedgerow.flags.as_code.plan import FlagPlan
from hedgerow.flags.environments.as_code import ProductAsCode
from hedgerow.flags.environments.matrix import EnvironmentProject
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.model import Flag
from hedgerow.projects.as_code import (
    DocumentPlan,
    DocumentRequest,
    ExportedDocument,
    PlanSummary,
    format_change,
    format_kept,
)
from hedgerow.projects.model import Project
from hedgerow.projects.products import Products

# Projects by the name of their environment, and the names of all environments of the product.
Targets = tuple[Mapping[str, Project], Sequence[str]]


class FlagDocuments:
    def __init__(
        self,
        flags: FlagsAsCode,
        as_code: ProductAsCode,
        products: Products,
        flag_cache: FlagCache,
    ) -> None:
        self._flags = flags
        self._as_code = as_code
        self._products = products
        self._flag_cache = flag_cache

    async def export(self, project: Project) -> ExportedDocument:
        return _describe_export(await self._flags.export(project))

    async def export_product(self, environments: Sequence[EnvironmentProject]) -> ExportedDocument:
        return _describe_export(await self._as_code.export(environments))

    async def plan(self, project: Project, request: DocumentRequest) -> DocumentPlan:
        place = await self._products.find_of_project(project.id)
        if place is None:
            return await self.plan_targets(({"": project}, []), request)
        product, environment = place
        names = [each.name for each in product.environments]
        return await self.plan_targets(({environment.name: project}, names), request)

    async def plan_environments(
        self, environments: Sequence[EnvironmentProject], request: DocumentRequest
    ) -> DocumentPlan:
        """Plan the changes of all environments of a product."""
        names = [each.name for each in environments]
        targets = {each.name: each.project for each in environments}
        return await self.plan_targets((targets, names), request)

    async def plan_targets(self, targets: Targets, request: DocumentRequest) -> DocumentPlan:
        """Plan the changes of all targets. Raises the error that `apply` would raise."""
        plans = await self._as_code.plan(
            targets, request.document, prune=request.prune, actor=request.actor, now=request.now
        )
        if not all(plan.is_empty for plan in plans.values()):
            await self._as_code.rehearse(plans, request.actor, request.now)
        return DocumentPlan(
            summary=_summarize(plans),
            lines=list(_describe_plans(plans)),
            apply=partial(self._apply, plans, targets, request),
        )

    async def _apply(
        self, plans: Mapping[str, FlagPlan], targets: Targets, request: DocumentRequest
    ) -> None:
        await self._as_code.apply(plans, request.actor, request.now)
        for project in targets[0].values():
            await self._flag_cache.refresh(project)


def _describe_export(composed: FlagDocument) -> ExportedDocument:
    return ExportedDocument(
        title="Flags",
        document=composed.document,
        count=f"{len(composed.document['flags'])} flag(s)",
        notes=[
            *(
                f"left out: {flag.key}, because its payloads are encrypted"
                for flag in composed.left_out
            ),
            *(
                f"written by id, because it has no unique name: {place}"
                for place in composed.unnamed_references
            ),
        ],
    )


def _summarize(plans: Mapping[str, FlagPlan]) -> PlanSummary:
    def name(label: str, flag: Flag) -> str:
        return f"{label}: {flag.key}" if len(plans) > 1 else flag.key

    return PlanSummary(
        created=[name(at, step.after) for at, plan in plans.items() for step in plan.created],
        changed=[name(at, step.after) for at, plan in plans.items() for step in plan.changed],
        deleted=[name(at, flag) for at, plan in plans.items() for flag in plan.deleted],
        kept=[name(at, flag) for at, plan in plans.items() for flag in plan.kept],
    )


def _describe_plans(plans: Mapping[str, FlagPlan]) -> Iterator[str]:
    for name, plan in plans.items():
        yield from _describe_plan(plan, name if len(plans) > 1 else "flags")


def _describe_plan(plan: FlagPlan, title: str) -> Iterator[str]:
    if not plan.is_empty:
        yield title
    for step in plan.created:
        yield f"  + {step.after.key}, new"
        yield from _describe_changes(step)
    for step in plan.changed:
        yield f"  ~ {step.after.key}"
        yield from _describe_changes(step)
    for flag in plan.deleted:
        yield f"  - {flag.key}"
    for flag in plan.kept:
        if flag.id in plan.deletion_blockers:
            yield f"  {flag.key} is kept: {plan.deletion_blockers[flag.id]}"
    kept = [flag.key for flag in plan.kept if flag.id not in plan.deletion_blockers]
    if kept:
        yield format_kept(kept)


def _describe_changes(step: Any) -> Iterator[str]:
    for change in step.changes:
        yield format_change(change.field, change.before, change.after, MISSING)
