"""`hedgerow environments matrix` and `promote`: flags across the environments of a product."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.app import commands
from hedgerow.cli.config.as_code import PlanReview
from hedgerow.cli.config.break_glass import BreakGlassOption, break_glass_for, build_headers
from hedgerow.cli.config.environments import PRODUCTS, Json, ProductArgument, find_product
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import (
    DataOption,
    DryRunOption,
    JsonOption,
    KeyOption,
    ServerOption,
    YesOption,
)
from hedgerow.cli.output import print_json, print_table
from hedgerow.cli.service_client import find_service
from hedgerow.errors import OperatorError
from hedgerow.filters.values import MISSING
from hedgerow.flags.approvals.model import ApprovalRequired
from hedgerow.lib.clock import utc_now
from hedgerow.lib.text import escape_control_characters
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.as_code import PlanSummary, format_change

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hedgerow.app.commands.flags import Environments
    from hedgerow.flags.as_code.plan import FlagFieldChange
    from hedgerow.flags.environments.matrix import EnvironmentProject, MatrixRow
    from hedgerow.flags.environments.promotion_plan import PromotionPlan
    from hedgerow.settings import Settings

FromArgument = Annotated[
    str, typer.Argument(metavar="FROM", help="Name of the environment to promote from.")
]
ToArgument = Annotated[
    str, typer.Argument(metavar="TO", help="Name of the environment to promote to.")
]


def show_matrix(  # noqa: PLR0913 - the options of a command
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
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the flags of a product in each environment, and how they differ."""

    async def run(settings: Settings) -> tuple[list[str], list[Json]]:
        async with commands.flags.open_environments(settings) as opened:
            found = await _find_environments(opened, product)
            chosen = _choose(found, found[0].name if baseline is None else baseline)
            rows = await opened.list_matrix(
                found, baseline=chosen.name, search=search, only_drifting=drifting
            )
            return [each.name for each in found], [_to_json(row) for row in rows]

    service = find_service(data, server, key, None, "feature_flag:read")
    if service is not None:
        chosen = find_product(service, product)
        names = [each["name"] for each in chosen["environments"]]
        filters = {
            "search": search,
            "drifting": "true" if drifting else "",
            "baseline": baseline or "",
        }
        given = {name: value for name, value in filters.items() if value}
        path = f"{PRODUCTS}{chosen['id']}/matrix/"
        rows = [_select_fields(each) for each in service.list_root(path, given)]
    else:
        names, rows = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json(rows)
        return
    print_table(
        ("flag", *names, "drift"),
        [
            (
                row["key"],
                *(_describe_cell(row["environments"].get(name)) for name in names),
                row["drift"] or "",
            )
            for row in rows
        ],
        empty="No flags.",
    )


def _describe_cell(cell: Json | None) -> str:
    if cell is None or cell["version"] is None:
        return "-"
    return f"{'on' if cell['active'] else 'off'}, v{cell['version']}"


def _select_fields(item: Json) -> Json:
    """Return a row of the API, which has more fields, as `_to_json` does."""
    return {
        "key": item["key"],
        "drift": item["drift"],
        "environments": {
            cell["environment"]: {
                name: cell[name] for name in ("state", "active", "version", "differs")
            }
            for cell in item["environments"]
        },
    }


def _to_json(row: MatrixRow) -> Json:
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
    server: ServerOption = None,
    key: KeyOption = None,
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

    def approve(plan: Json, required: Sequence[str]) -> bool:
        summary, lines = _summarize(plan), list(_describe(plan, target))
        is_approved = not dry_run and review.approve(summary, lines)
        if dry_run and not as_json:
            needed = [f"It requires {each}." for each in required]
            for line in (*lines, summary.describe(), *needed):
                print(escape_control_characters(line))
        return is_approved

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
            planned = _plan_to_json(plan)
            is_approved = approve(planned, [each.describe() for each in lacking])
            if is_approved:
                seen = commands.flags.require_versions(request, plan)
                await opened.promotions.promote(*ends, seen, by, is_rehearsal=False)
            review.report(_summarize(planned), is_applied=is_approved)

    service = find_service(data, server, key, None, "feature_flag:write")
    if service is None:
        with break_glass_for(reason):
            asyncio.run(run(load_installation_settings(data)))
        return
    path = f"{PRODUCTS}{find_product(service, product)['id']}/promote/"
    wanted: Json = {"from": source, "to": target, "with_cohorts": with_cohorts}
    wanted |= {"parts": part} if part else {}
    chosen: Json = {"all": True} if every else {"flags": flag}
    headers = build_headers(reason)
    plan = service.request_root("POST", path, {**wanted, **chosen, "dry_run": True}, headers)
    is_approved = approve(plan, plan["required_approvals"])
    if is_approved:
        seen = {"flags": list(plan["versions"]), "versions": plan["versions"]}
        service.request_root("POST", path, {**wanted, **seen}, headers)
    review.report(_summarize(plan), is_applied=is_approved)


def _summarize(plan: Json) -> PlanSummary:
    return PlanSummary(
        created=[flag["key"] for flag in plan["flags"] if flag["action"] == "create"],
        changed=[flag["key"] for flag in plan["flags"] if flag["action"] == "update"],
        deleted=[],
        kept=[],
    )


def _describe(plan: Json, target: str) -> Iterator[str]:
    if not _summarize(plan).is_empty:
        yield target
    for cohort in plan["cohorts"]:
        yield f"  + cohort {cohort['name']}{', without its members' if cohort['is_static'] else ''}"
    for mark, action in (("+", "create"), ("~", "update")):
        for flag in plan["flags"]:
            if flag["action"] == action:
                yield f"  {mark} {flag['key']}{', new' if mark == '+' else ''}"
                yield from map(_describe_change, flag["changes"])
    for each in plan["left_out"]:
        yield f"  {each['key']} is left out: {each['reason']}"


def _describe_change(change: Json) -> str:
    before = MISSING if change["kind"] == "added" else change["from"]
    after = MISSING if change["kind"] == "removed" else change["to"]
    return format_change(change["field"], before, after, MISSING)


def _plan_to_json(plan: PromotionPlan) -> Json:
    """Return a plan as the API does, without what is not shown."""
    steps = [("create", each) for each in plan.flags.created]
    steps += [("update", each) for each in plan.flags.changed]
    return {
        "flags": [
            {
                "key": step.after.key,
                "action": action,
                "changes": [_change_to_json(each) for each in step.changes],
            }
            for action, step in steps
        ],
        "cohorts": [{"name": each.name, "is_static": each.is_static} for each in plan.cohorts],
        "left_out": [{"key": key, "reason": why} for key, why in plan.left_out.items()],
    }


def _change_to_json(change: FlagFieldChange) -> Json:
    kind = "added" if change.before is MISSING else "changed"
    kind = "removed" if change.after is MISSING else kind
    return {"field": change.field, "kind": kind, "from": change.before, "to": change.after}


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
