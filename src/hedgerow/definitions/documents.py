"""Definitions as a document: export, plan and apply it."""

from collections.abc import Iterator
from functools import partial

from hedgerow.definitions.as_code import DefinitionPlan, DefinitionsAsCode
from hedgerow.projects.as_code import (
    DocumentPlan,
    DocumentRequest,
    ExportedDocument,
    PlanSummary,
    format_change,
)
from hedgerow.projects.model import Project


class DefinitionDocuments:
    def __init__(self, as_code: DefinitionsAsCode) -> None:
        self._as_code = as_code

    async def export(self, project: Project) -> ExportedDocument:
        document = await self._as_code.export(project)
        count = len(document["events"]) + len(document["properties"])
        return ExportedDocument(
            title="Definitions", document=document, count=f"{count} definition(s)"
        )

    async def plan(self, project: Project, request: DocumentRequest) -> DocumentPlan:
        """A document never deletes a definition, so `prune` has no effect."""
        actor, now = request.actor, request.now
        plan = await self._as_code.plan(project, request.document, actor, now)
        return DocumentPlan(
            summary=PlanSummary(
                created=[step.after.name for step in plan.steps if step.before is None],
                changed=[step.after.name for step in plan.steps if step.before is not None],
                deleted=[],
                kept=[],
            ),
            lines=list(_describe_plan(plan)),
            apply=partial(self._as_code.apply, plan, actor, now),
        )


def _describe_plan(plan: DefinitionPlan) -> Iterator[str]:
    if plan.steps:
        yield "definitions"
    for step in plan.steps:
        yield f"  + {step.after.name}, new" if step.before is None else f"  ~ {step.after.name}"
        for change in step.changes:
            before = None if step.before is None else change.before
            yield format_change(change.field, before, change.after)
