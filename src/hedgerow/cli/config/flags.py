"""`hedgerow flags export` and `apply`: the flags of a project as a YAML file."""

from __future__ import annotations

import asyncio
import json
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
    describe_project,
    format_change,
    format_kept,
    read_document,
    report_invalid,
    write_document,
)
from hedgerow.cli.config.break_glass import BreakGlassOption, break_glass_for
from hedgerow.cli.existing_installation import choose_project, load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, ProjectOption, YesOption
from hedgerow.errors import OperatorError
from hedgerow.filters.values import MISSING
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hedgerow.app.commands.flags import Environments
    from hedgerow.flags.as_code.document import FlagDocument
    from hedgerow.flags.as_code.plan import FlagPlan
    from hedgerow.flags.model import Flag
    from hedgerow.projects.model import Project
    from hedgerow.settings import Settings

    Targets = tuple[Mapping[str, Project], Sequence[str]]


ProductOption = Annotated[
    str | None,
    typer.Option(
        "--product", metavar="NAME", help="Product, with the flags of all its environments."
    ),
]


def export_flags(
    project: ProjectOption = None,
    product: ProductOption = None,
    output: OutputOption = None,
    data: DataOption = None,
) -> None:
    """Write all flags of a project as YAML.

    The file names other flags by key, and cohorts and group types by name, so that you can apply
    it to another project. Flags with encrypted payloads and flags of surveys are not in it. With
    `--product`, it has what the environments of a product share, and their differences.
    """
    _check_choice(project, product)

    async def run(settings: Settings) -> tuple[str, FlagDocument]:
        if product is not None:
            async with commands.flags.open_environments(settings) as opened:
                found = await opened.products.find_by_name(product)
                listed = opened.list_environments(found)
                return f"product {json.dumps(found.name)}", await opened.as_code.export(listed)
        async with commands.flags.open_flags(settings) as flags:
            source = choose_project(flags.state, project)
            return describe_project(source), await flags.as_code.export(source)

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
    product: ProductOption = None,
    yes: YesOption = False,
    check: CheckOption = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete flags that are not in the file.")
    ] = False,
    reason: BreakGlassOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a project's flags match a YAML file.

    Shows the changes, asks for confirmation and applies all of them or none. A flag is identified
    by its key. A field that the file leaves out gets its default. A flag that the file leaves out
    is kept, unless you use `--prune`. With `--product`, the file is applied to all environments of
    the product, with the values that it has for each.
    """
    _check_choice(project, product)
    document = read_document(file)
    review = PlanReview(yes=yes, check=check, as_json=as_json)

    async def run(settings: Settings) -> None:
        async with commands.flags.open_environments(settings) as opened:
            targets = await _choose_targets(opened, project, product)
            code = opened.as_code
            with report_invalid(file):
                plans = await code.plan(
                    targets, document, prune=prune, actor=COMMAND_LINE, now=utc_now()
                )
                if not all(plan.is_empty for plan in plans.values()):
                    await code.rehearse(plans, COMMAND_LINE, utc_now())
            summary = _summarize(plans)
            is_approved = review.approve(summary, _describe_plans(plans))
            if is_approved:
                with report_invalid(file):
                    await code.apply(plans, COMMAND_LINE, utc_now())
            review.report(summary, is_applied=is_approved)

    with break_glass_for(reason):
        asyncio.run(run(load_installation_settings(data)))


def _check_choice(project: int | None, product: str | None) -> None:
    if project is not None and product is not None:
        raise OperatorError("Choose --project or --product, not both.")


async def _choose_targets(
    opened: Environments, project: int | None, product: str | None
) -> Targets:
    """Return the environments to change, and the names of all in the product."""
    if product is not None:
        found = opened.list_environments(await opened.products.find_by_name(product))
        return {each.name: each.project for each in found}, [each.name for each in found]
    target = choose_project(opened.state, project)
    place = await opened.products.find_of_project(target.id)
    if place is None:
        return {"": target}, []
    joined, environment = place
    return {environment.name: target}, [each.name for each in joined.environments]


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
