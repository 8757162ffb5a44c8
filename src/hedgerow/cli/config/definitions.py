"""`hedgerow definitions export` and `apply`: the definitions of a project as a YAML file."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hedgerow.app import commands
from hedgerow.cli.config.as_code import (
    CheckOption,
    FileArgument,
    OutputOption,
    PlanReview,
    PlanSummary,
    describe_project,
    format_change,
    read_document,
    report_invalid,
    write_document,
)
from hedgerow.cli.existing_installation import choose_project, load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, ProjectOption, YesOption
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hedgerow.definitions.as_code import DefinitionPlan, DefinitionStep
    from hedgerow.projects.model import Project
    from hedgerow.settings import Settings


def export_definitions(
    project: ProjectOption = None,
    output: OutputOption = None,
    data: DataOption = None,
) -> None:
    """Write the definitions of a project as YAML.

    The file has the events and properties that people have described, with the schemas of events.
    Names that were only seen are not in it.
    """

    async def run(settings: Settings) -> tuple[Project, dict[str, Any]]:
        async with commands.definitions.open_definitions(settings) as definitions:
            source = choose_project(definitions.state, project)
            return source, await definitions.as_code.export(source)

    source, document = asyncio.run(run(load_installation_settings(data)))
    count = f"{len(document['events']) + len(document['properties'])} definition(s)"
    write_document(describe_project(source), "Definitions", document, output, count)


def apply_definitions(
    file: FileArgument,
    project: ProjectOption = None,
    yes: YesOption = False,
    check: CheckOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a project's definitions match a YAML file.

    Shows the changes, asks for confirmation and applies all of them or none. A field that the file
    leaves out gets its default. A definition that the file leaves out is kept.
    """
    document = read_document(file)
    review = PlanReview(yes=yes, check=check, as_json=as_json)

    async def run(settings: Settings) -> None:
        async with commands.definitions.open_definitions(settings) as definitions:
            target = choose_project(definitions.state, project)
            with report_invalid(file):
                plan = await definitions.as_code.plan(target, document, COMMAND_LINE, utc_now())
            summary = PlanSummary(
                created=[step.after.name for step in plan.steps if step.before is None],
                changed=[step.after.name for step in plan.steps if step.before is not None],
                deleted=[],
                kept=[],
            )
            is_approved = review.approve(summary, _describe_plan(plan))
            if is_approved:
                with report_invalid(file):
                    await definitions.as_code.apply(plan, COMMAND_LINE, utc_now())
            review.report(summary, is_applied=is_approved)

    asyncio.run(run(load_installation_settings(data)))


def _describe_plan(plan: DefinitionPlan) -> Iterator[str]:
    if plan.steps:
        yield "definitions"
    for step in plan.steps:
        yield f"  + {step.after.name}, new" if step.before is None else f"  ~ {step.after.name}"
        yield from _describe_changes(step)


def _describe_changes(step: DefinitionStep) -> Iterator[str]:
    for change in step.changes:
        before = None if step.before is None else change.before
        yield format_change(change.field, before, change.after)
