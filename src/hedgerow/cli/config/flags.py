"""`hedgerow flags export` and `apply`: the flags of a project as a YAML file."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.config.as_code import (
    CheckOption,
    FileArgument,
    OutputOption,
    PlanReview,
    PlanSummary,
    format_change,
    format_kept,
    read_document,
    report_invalid,
    write_document,
)
from hedgerow.cli.existing_installation import choose_project, load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, ProjectOption, YesOption
from hedgerow.filters.values import MISSING
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hedgerow.flags.as_code.document import FlagDocument
    from hedgerow.flags.as_code.plan import FlagPlan
    from hedgerow.projects.model import Project
    from hedgerow.settings import Settings


def export_flags(
    project: ProjectOption = None,
    output: OutputOption = None,
    data: DataOption = None,
) -> None:
    """Write all flags of a project as YAML.

    The file names other flags by key, and cohorts and group types by name, so that you can apply
    it to another project. Flags with encrypted payloads and flags of surveys are not in it.
    """

    async def run(settings: Settings) -> tuple[Project, FlagDocument]:
        async with commands.flags.open_flags(settings) as flags:
            source = choose_project(flags.state, project)
            return source, await flags.as_code.export(source)

    source, composed = asyncio.run(run(load_installation_settings(data)))
    for flag in composed.left_out:
        print(f"left out: {flag.key}, because its payloads are encrypted", file=sys.stderr)
    for place in composed.unnamed_references:
        print(f"written by id, because it has no unique name: {place}", file=sys.stderr)
    count = f"{len(composed.document['flags'])} flag(s)"
    write_document(source, "Flags", composed.document, output, count)


def apply_flags(  # noqa: PLR0913 - the options of a command
    file: FileArgument,
    project: ProjectOption = None,
    yes: YesOption = False,
    check: CheckOption = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete flags that are not in the file.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a project's flags match a YAML file.

    Shows the changes, asks for confirmation and applies all of them or none. A flag is identified
    by its key. A field that the file leaves out gets its default. A flag that the file leaves out
    is kept, unless you use `--prune`.
    """
    document = read_document(file)
    review = PlanReview(yes=yes, check=check, as_json=as_json)

    async def run(settings: Settings) -> None:
        async with commands.flags.open_flags(settings) as flags:
            target = choose_project(flags.state, project)
            with report_invalid(file):
                plan = await flags.as_code.plan(
                    target, document, prune=prune, actor=COMMAND_LINE, now=utc_now()
                )
                if not plan.is_empty:
                    await flags.as_code.rehearse(plan, COMMAND_LINE, utc_now())
            summary = PlanSummary(
                created=[step.after.key for step in plan.created],
                changed=[step.after.key for step in plan.changed],
                deleted=[flag.key for flag in plan.deleted],
                kept=[flag.key for flag in plan.kept],
            )
            is_approved = review.approve(summary, _describe_plan(plan))
            if is_approved:
                with report_invalid(file):
                    await flags.as_code.apply(plan, COMMAND_LINE, utc_now())
            review.report(summary, is_applied=is_approved)

    asyncio.run(run(load_installation_settings(data)))


def _describe_plan(plan: FlagPlan) -> Iterator[str]:
    if not plan.is_empty:
        yield "flags"
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
