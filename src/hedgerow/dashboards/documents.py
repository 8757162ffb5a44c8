"""Insights and dashboards as a document: export, plan and apply it."""

from collections.abc import Iterator
from functools import partial

from hedgerow.dashboards.as_code import DashboardPlan, DashboardsAsCode, Step
from hedgerow.dashboards.dashboards import Author
from hedgerow.projects.as_code import (
    DocumentPlan,
    DocumentRequest,
    ExportedDocument,
    PlanSummary,
    format_change,
    format_kept,
)
from hedgerow.projects.model import Project


class DashboardDocuments:
    def __init__(self, as_code: DashboardsAsCode) -> None:
        self._as_code = as_code

    async def export(self, project: Project) -> ExportedDocument:
        document = await self._as_code.export(project)
        insights, dashboards = len(document["insights"]), len(document["dashboards"])
        return ExportedDocument(
            title="Insights and dashboards",
            document=document,
            count=f"{insights} insight(s), {dashboards} dashboard(s)",
        )

    async def plan(self, project: Project, request: DocumentRequest) -> DocumentPlan:
        author = Author(actor=request.actor, now=request.now)
        plan = await self._as_code.plan(project, request.document, author, prune=request.prune)
        return DocumentPlan(
            summary=_summarize(plan),
            lines=list(_describe_plan(plan)),
            apply=partial(self._as_code.apply, plan, author),
        )


def _summarize(plan: DashboardPlan) -> PlanSummary:
    return PlanSummary(
        created=[step.label for step in plan.steps if _get_mark(step) == "+"],
        changed=[step.label for step in plan.steps if _get_mark(step) == "~"],
        deleted=[step.label for step in plan.steps if _get_mark(step) == "-"],
        kept=plan.kept,
    )


def _get_mark(step: Step) -> str:
    if step.is_deletion:
        return "-"
    return "+" if step.before is None else "~"


def _describe_plan(plan: DashboardPlan) -> Iterator[str]:
    if plan.steps:
        yield "insights and dashboards"
    for step in plan.steps:
        mark = _get_mark(step)
        yield f"  {mark} {step.label}{', new' if mark == '+' else ''}"
        for change in step.changes:
            if mark == "~":
                yield format_change(change.field, change.before, change.after)
            elif mark == "+" and change.after:
                yield format_change(change.field, None, change.after)
    if plan.kept:
        yield format_kept(plan.kept)
