"""`hedgerow environments matrix` and `promote`: flags across the environments of a product."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.config.as_code import PlanReview
from hedgerow.cli.config.break_glass import BreakGlassOption, break_glass_for
from hedgerow.cli.config.environments import ProductArgument
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, DryRunOption, JsonOption, YesOption
from hedgerow.cli.output import print_json, print_table
from hedgerow.errors import OperatorError
from hedgerow.filters.values import MISSING
from hedgerow.flags.approvals.model import ApprovalRequired
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.as_code import PlanSummary, format_change

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hedgerow.app.commands.flags import Environments
    from hedgerow.flags.environments.matrix import EnvironmentProject, MatrixCell, MatrixRow
    from hedgerow.flags.environments.promotion_plan import PromotionPlan
    from hedgerow.settings import Settings

FromArgument = Annotated[
    str, typer.Argument(metavar="FROM", help="Name of the environment to promote from.")
]
ToArgument = Annotated[
    str, typer.Argument(metavar="TO", help="Name of the environment to promote to.")
]


def show_matrix(
    product: ProductArgument,
    search: Annotated[
        str, typer.Option(metavar="TEXT", help="Only flags whose key or name contains this.")
    ] = "",
    drifting: Annotated[
        bool, typer.Option("--drifting", help="Only flags that differ between environments.")
    ] = False,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Environment to compare with. Default: the first."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the flags of a product in each environment, and how they differ."""

    async def run(settings: Settings) -> tuple[list[str], Sequence[MatrixRow]]:
        async with commands.flags.open_environments(settings) as opened:
            found = await _find_environments(opened, product)
            chosen = _choose(found, found[0].name if baseline is None else baseline)
            rows = await opened.list_matrix(
                found, baseline=chosen.name, search=search, only_drifting=drifting
            )
            return [each.name for each in found], rows

    names, rows = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json([_to_json(row) for row in rows])
        return
    print_table(
        ("flag", *names, "drift"),
        [(row.key, *map(_describe_cell, row.cells), row.drift) for row in rows],
        empty="No flags.",
    )


def _describe_cell(cell: MatrixCell) -> str:
    if cell.flag is None:
        return "-"
    return f"{'on' if cell.flag.active else 'off'}, v{cell.flag.version}"


def _to_json(row: MatrixRow) -> dict[str, Any]:
    return {
        "key": row.key,
        "drift": row.drift or None,
        "environments": {
            cell.environment.name: {
                "state": cell.state,
                "active": None if cell.flag is None else cell.flag.active,
                "version": None if cell.flag is None else cell.flag.version,
                "differs": list(cell.parts),
            }
            for cell in row.cells
        },
    }


def promote_flags(  # noqa: PLR0913 - the options of a command
    product: ProductArgument,
    source: FromArgument,
    target: ToArgument,
    flag: Annotated[
        list[str] | None, typer.Option("--flag", metavar="KEY", help="Key of a flag. Repeatable.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Promote all flags.")] = False,
    part: Annotated[
        list[str] | None,
        typer.Option("--part", metavar="PART", help="Promote only this part. Repeatable."),
    ] = None,
    with_cohorts: Annotated[
        bool, typer.Option("--with-cohorts", help="Create cohorts that are missing.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: BreakGlassOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Promote flags from one environment to another.

    Shows the changes, asks for confirmation and applies all of them or none. Without `--part`, a
    flag is promoted whole; the parts are active, conditions, variants, payloads, name, tags and
    settings. Encrypted payloads stay in their environment.

    Example: hedgerow environments promote Shop staging production --flag new-checkout
    """
    if every == bool(flag):
        raise OperatorError("Choose flags with --flag KEY, or all of them with --all.")
    review = PlanReview(yes=yes, check=False, as_json=as_json)

    async def run(settings: Settings) -> None:
        async with commands.flags.open_environments(settings) as opened:
            found = await _find_environments(opened, product)
            request = commands.flags.build_request(
                keys=None if every else flag, parts=part, with_cohorts=with_cohorts
            )
            ends = _choose(found, source), _choose(found, target)
            by = (COMMAND_LINE, utc_now())
            plan, lacking = await opened.promotions.rehearse(*ends, request, by)
            if lacking and not dry_run:
                raise ApprovalRequired(lacking)
            summary = _summarize(plan)
            is_approved = not dry_run and review.approve(summary, _describe(plan, target))
            if dry_run and not as_json:
                needed = [f"It requires {each.describe()}." for each in lacking]
                print("\n".join((*_describe(plan, target), summary.describe(), *needed)))
            if is_approved:
                seen = commands.flags.require_versions(request, plan)
                await opened.promotions.promote(*ends, seen, by, is_rehearsal=False)
            review.report(summary, is_applied=is_approved)

    with break_glass_for(reason):
        asyncio.run(run(load_installation_settings(data)))


def _summarize(plan: PromotionPlan) -> PlanSummary:
    return PlanSummary(
        created=[step.after.key for step in plan.flags.created],
        changed=[step.after.key for step in plan.flags.changed],
        deleted=[],
        kept=[],
    )


def _describe(plan: PromotionPlan, target: str) -> Iterator[str]:
    if not plan.flags.is_empty:
        yield target
    for cohort in plan.cohorts:
        yield f"  + cohort {cohort.name}{', without its members' if cohort.is_static else ''}"
    for mark, steps in (("+", plan.flags.created), ("~", plan.flags.changed)):
        for step in steps:
            yield f"  {mark} {step.after.key}{', new' if mark == '+' else ''}"
            for change in step.changes:
                yield format_change(change.field, change.before, change.after, MISSING)
    for key, reason in plan.left_out.items():
        yield f"  {key} is left out: {reason}"


async def _find_environments(opened: Environments, product: str) -> list[EnvironmentProject]:
    found = opened.list_environments(await opened.products.find_by_name(product))
    if not found:
        raise OperatorError("The product has no environments: see `hedgerow environments add`.")
    return found


def _choose(found: Sequence[EnvironmentProject], name: str) -> EnvironmentProject:
    for each in found:
        if each.name == name:
            return each
    known = ", ".join(each.name for each in found)
    raise OperatorError(f"There is no environment {name}. Expected one of: {known}.")
