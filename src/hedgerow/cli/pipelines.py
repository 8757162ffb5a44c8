"""`hedgerow pipelines`: a project's pipeline records as a file, out and in."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
import uvloop

from hedgerow.app.pipelines import Pipelines, opened_pipelines
from hedgerow.cli.files import (
    CheckOption,
    FileArgument,
    OutputOption,
    ProjectOption,
    YesOption,
    change_line,
    is_agreed,
    kept_line,
    project_of,
    read,
    refusing,
    summary,
    write,
)
from hedgerow.cli.options import DataOption
from hedgerow.cli.prepared import prepared_settings
from hedgerow.lib.clock import utc_now
from hedgerow.pipelines.document import SECTIONS
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.plan import FamilyPlan, Plan
from hedgerow.projects.activity import MASK, TERMINAL
from hedgerow.projects.model import Project
from hedgerow.settings import Settings
from hedgerow.storage import sealing_check

pipelines = typer.Typer()

# Told by the heading or by the line about the order.
NOT_LISTED = ("plugin", "version", "order", "deleted", "name")


@pipelines.command()
def export(
    project: ProjectOption = None,
    output: OutputOption = None,
    data: DataOption = None,
) -> None:
    """Write all pipeline records of a project as YAML.

    Secrets are not in it: `!env NAME` stands for each, and `apply` reads the variable NAME. A
    secret whose variable is not set stays as it is stored.
    """

    async def run(settings: Settings) -> tuple[Project, dict[str, Any], list[Record]]:
        async with opened_pipelines(settings, seals=False) as (state, room):
            found = project_of(state, project)
            document, missing = await room.as_code.document(found.id)
            return found, document, missing

    found, document, missing = uvloop.run(run(prepared_settings(data)))
    for record in missing:
        print(
            f"left out: record {record.id} {json.dumps(record.name)}, whose component is not "
            "installed",
            file=sys.stderr,
        )
    count = sum(len(document[name]) for name in SECTIONS)
    write(found, "Pipeline records", document, output, f"{count} record(s)")


@pipelines.command()
def apply(
    file: FileArgument,
    project: ProjectOption = None,
    yes: YesOption = False,
    check: CheckOption = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete records that are not in the file.")
    ] = False,
    data: DataOption = None,
) -> None:
    """Make a project's pipeline records what a file says: show the difference, ask, then do it.

    Everything is applied, or nothing is. A record is known by its name, and the file's order
    becomes the records' order. A setting that the file leaves out is cleared. Sections and records
    that the file leaves out stay, unless `--prune` is given for the records.
    """
    document = read(file)

    async def run(settings: Settings) -> None:
        async with opened_pipelines(settings, seals=True) as (state, room):
            target = project_of(state, project)
            with refusing(file):
                plan = await room.as_code.plan(
                    target.id, document, environment=os.environ, prune=prune, now=utc_now()
                )
            if is_agreed(_plan_lines(plan, room), is_empty=plan.is_empty, yes=yes, check=check):
                await room.as_code.apply(plan, TERMINAL, utc_now())
                print("Applied.")

    uvloop.run(run(prepared_settings(data)))


@pipelines.command()
def reseal(data: DataOption = None) -> None:
    """Seal all stored secrets with the newest sealing key, so that older keys can be removed.

    Put the new key in front first, and restart the processes that serve.
    """

    async def run(settings: Settings) -> int:
        async with opened_pipelines(settings, seals=True) as (state, room):
            return await sealing_check.reseal(state.database, room.sealer)

    number = uvloop.run(run(prepared_settings(data)))
    print(f"Sealed the secrets of {number} record(s) with the newest key.")


def _plan_lines(plan: Plan, room: Pipelines) -> Iterator[str]:
    for family in plan.families:
        if not family.is_empty:
            yield next(name for name, its in SECTIONS.items() if its is family.family)
            yield from _family_lines(family, room)
        if family.kept:
            yield kept_line(_name(record, room) for record in family.kept)
    yield summary(
        sum(len(family.created) for family in plan.families),
        sum(len(family.changed) for family in plan.families),
        sum(len(family.deleted) for family in plan.families),
    )


def _family_lines(family: FamilyPlan, room: Pipelines) -> Iterator[str]:
    for record in family.created:
        yield f"  + {_name(record, room)}, new {_component(record, room)}"
        yield from _field_lines(room.as_code.changes(None, record, TERMINAL))
    for before, after in family.changed:
        changes = room.as_code.changes(before, after, TERMINAL)
        if set(changes) != {"order"}:
            yield f"  ~ {_name(before, room)}"
            if "plugin" in changes:
                yield f"      component: {_component(before, room)} -> {_component(after, room)}"
            yield from _field_lines(changes)
    for record in family.deleted:
        yield f"  - {_name(record, room)}"
    if family.sequence is not None:
        yield f"  order: {', '.join(_name(record, room) for record in family.sequence)}"


def _field_lines(changes: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
    for field, (before, after) in changes.items():
        if field in NOT_LISTED or (before is None and (after == "" or after is False)):
            continue
        label = field.replace("config.", "settings.", 1)
        if MASK in (before, after):
            verb = "cleared" if after is None else "set" if before is None else "changed"
            yield f"      {label}: (secret) {verb}"
        else:
            yield change_line(label, before, after)


def _name(record: Record, room: Pipelines) -> str:
    return json.dumps(record.name, ensure_ascii=False) if record.name else _component(record, room)


def _component(record: Record, room: Pipelines) -> str:
    component = room.catalogue.component(record.component_id)
    return component.key if component else f"component {record.component_id}, not installed"
