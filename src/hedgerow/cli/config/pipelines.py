"""`hedgerow pipelines`: the pipeline records of a project as a YAML file, and their secrets."""

from __future__ import annotations

import asyncio
import json
import os
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
from hedgerow.cli.existing_installation import choose_project, load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, ProjectOption, YesOption
from hedgerow.cli.output import print_json
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE, MASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hedgerow.app.commands.pipelines import PipelineCommands
    from hedgerow.pipelines.model import Record
    from hedgerow.pipelines.records.plan import FamilyPlan, RecordPlan
    from hedgerow.projects.model import Project
    from hedgerow.settings import Settings

# Fields that the heading of a record or the line about the order shows.
FIELDS_SHOWN_ELSEWHERE = ("plugin", "version", "order", "deleted", "name")


def export_pipelines(
    project: ProjectOption = None,
    output: OutputOption = None,
    data: DataOption = None,
) -> None:
    """Write all pipeline records of a project as YAML.

    The file contains no secrets: it has `!env NAME` for each, and `apply` reads the variable NAME.
    If that variable is not set, the stored secret stays.
    """

    async def run(settings: Settings) -> tuple[Project, dict[str, Any], list[Record], int]:
        async with commands.pipelines.open_pipelines(settings, needs_keys=False) as pipelines:
            source = choose_project(pipelines.state, project)
            document, missing = await pipelines.as_code.document(source.id)
            count = sum(len(document[name]) for name in commands.pipelines.SECTIONS)
            return source, document, missing, count

    source, document, missing, count = asyncio.run(run(load_installation_settings(data)))
    for record in missing:
        print(
            f"left out: record {record.id} {json.dumps(record.name)}, because its component is "
            "not installed",
            file=sys.stderr,
        )
    write_document(
        describe_project(source), "Pipeline records", document, output, f"{count} record(s)"
    )


def apply_pipelines(  # noqa: PLR0913 - the options of a command
    file: FileArgument,
    project: ProjectOption = None,
    yes: YesOption = False,
    check: CheckOption = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete records that are not in the file.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a project's pipeline records match a YAML file.

    Shows the changes, asks for confirmation and applies all of them or none. A record is
    identified by its name, and the records get the order of the file. A setting that the file
    leaves out is cleared. Sections and records that the file leaves out are kept, unless you use
    `--prune` for the records.
    """
    document = read_document(file)
    review = PlanReview(yes=yes, check=check, as_json=as_json)

    async def run(settings: Settings) -> None:
        async with commands.pipelines.open_pipelines(settings, needs_keys=True) as pipelines:
            target = choose_project(pipelines.state, project)
            with report_invalid(file):
                plan = await pipelines.as_code.plan(
                    target.id, document, environment=os.environ, prune=prune, now=utc_now()
                )
            printer = PlanPrinter(pipelines)
            summary = printer.summarize(plan)
            is_approved = review.approve(summary, printer.describe(plan))
            if is_approved:
                await pipelines.as_code.apply(plan, COMMAND_LINE, utc_now())
            review.report(summary, is_applied=is_approved)

    asyncio.run(run(load_installation_settings(data)))


def re_encrypt(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Encrypt all stored secrets with the newest key.

    Afterwards you can remove the older keys. Before it, put the new key first and restart all
    processes of the service.
    """

    async def run(settings: Settings) -> int:
        async with commands.pipelines.open_pipelines(settings, needs_keys=True) as pipelines:
            return await pipelines.re_encrypt()

    count = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json({"records": count})
    else:
        print(f"Encrypted the secrets of {count} record(s) with the newest key.")


class PlanPrinter:
    """Describes a plan for pipeline records, one line per change."""

    def __init__(self, pipelines: PipelineCommands) -> None:
        self._pipelines = pipelines

    def summarize(self, plan: RecordPlan) -> PlanSummary:
        families = plan.families
        return PlanSummary(
            created=[self._name(record) for each in families for record in each.created],
            changed=[self._name(before) for each in families for before, _ in each.changed],
            deleted=[self._name(record) for each in families for record in each.deleted],
            kept=[self._name(record) for each in families for record in each.kept],
        )

    def describe(self, plan: RecordPlan) -> Iterator[str]:
        for family in plan.families:
            if not family.is_empty:
                sections = commands.pipelines.SECTIONS
                yield next(name for name, its in sections.items() if its is family.family)
                yield from self._describe_family(family)
            if family.kept:
                yield format_kept(self._format_name(record) for record in family.kept)

    def _describe_family(self, family: FamilyPlan) -> Iterator[str]:
        compare = self._pipelines.as_code.changes
        for record in family.created:
            yield f"  + {self._format_name(record)}, new {self._component(record)}"
            yield from _describe_fields(compare(None, record, COMMAND_LINE))
        for before, after in family.changed:
            changes = compare(before, after, COMMAND_LINE)
            if set(changes) != {"order"}:
                yield f"  ~ {self._format_name(before)}"
                if "plugin" in changes:
                    old, new = self._component(before), self._component(after)
                    yield f"      component: {old} -> {new}"
                yield from _describe_fields(changes)
        for record in family.deleted:
            yield f"  - {self._format_name(record)}"
        if family.sequence is not None:
            names = (self._format_name(record) for record in family.sequence)
            yield f"  order: {', '.join(names)}"

    def _format_name(self, record: Record) -> str:
        quoted = json.dumps(record.name, ensure_ascii=False)
        return quoted if record.name else self._component(record)

    def _name(self, record: Record) -> str:
        return record.name or self._component(record)

    def _component(self, record: Record) -> str:
        component = self._pipelines.catalogue.component(record.component_id)
        return component.key if component else f"component {record.component_id}, not installed"


def _describe_fields(changes: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
    for field, (before, after) in changes.items():
        if field in FIELDS_SHOWN_ELSEWHERE or (before is None and (after == "" or after is False)):
            continue
        label = field.replace("config.", "settings.", 1)
        if MASK in (before, after):
            change = "cleared" if after is None else "set" if before is None else "changed"
            yield f"      {label}: (secret) {change}"
        else:
            yield format_change(label, before, after)
