"""`hedgerow dashboards export` and `apply`: insights and dashboards as a YAML file."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.config.as_code import (
    CheckOption,
    FileArgument,
    OutputOption,
    PlanReview,
    PlanSummary,
    describe_project,
    format_change,
    format_kept,
    read_document,
    report_invalid,
    write_document,
)
from hedgerow.cli.existing_installation import choose_project, load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, ProjectOption, YesOption
from hedgerow.errors import Invalid, OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hedgerow.dashboards.as_code import DashboardPlan, Step
    from hedgerow.projects.model import Project
    from hedgerow.settings import Settings


def export_dashboards(
    project: ProjectOption = None,
    output: OutputOption = None,
    data: DataOption = None,
) -> None:
    """Write the insights and dashboards of a project as YAML.

    The file has all dashboards, and the insights that are saved or on a dashboard. Queries name
    cohorts and actions by the ids of this project.
    """

    async def run(settings: Settings) -> tuple[Project, dict[str, Any]]:
        async with commands.dashboards.open_dashboards(settings) as dashboards:
            source = choose_project(dashboards.state, project)
            return source, await dashboards.as_code.export(source)

    try:
        source, document = asyncio.run(run(load_installation_settings(data)))
    except Invalid as error:
        raise OperatorError(error.detail) from None
    count = f"{len(document['insights'])} insight(s), {len(document['dashboards'])} dashboard(s)"
    write_document(describe_project(source), "Insights and dashboards", document, output, count)


def apply_dashboards(  # noqa: PLR0913 - the options of a command
    file: FileArgument,
    project: ProjectOption = None,
    yes: YesOption = False,
    check: CheckOption = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Delete insights and dashboards that are not in the file."),
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a project's insights and dashboards match a YAML file.

    Shows the changes, asks for confirmation and applies all of them or none. An insight is
    identified by its short id, a dashboard by its name. A field that the file leaves out gets its
    default, and the tiles of a dashboard are those of the file. An insight or a dashboard that the
    file leaves out is kept, unless you use `--prune`.
    """
    document = read_document(file)
    review = PlanReview(yes=yes, check=check, as_json=as_json)

    async def run(settings: Settings) -> None:
        author = commands.dashboards.Author(actor=COMMAND_LINE, now=utc_now())
        async with commands.dashboards.open_dashboards(settings) as dashboards:
            target = choose_project(dashboards.state, project)
            with report_invalid(file):
                plan = await dashboards.as_code.plan(target, document, author, prune=prune)
            is_approved = review.approve(_summarize(plan), _describe_plan(plan))
            if is_approved:
                with report_invalid(file):
                    await dashboards.as_code.apply(plan, author)
            review.report(_summarize(plan), is_applied=is_approved)

    asyncio.run(run(load_installation_settings(data)))


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
