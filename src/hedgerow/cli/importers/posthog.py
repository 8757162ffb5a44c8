"""`hedgerow import posthog`: copy a project of PostHog, or of another Hedgerow."""

from __future__ import annotations

import re
import sys
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.importers.history import HistoryImport, describe_history
from hedgerow.cli.importers.plan import (
    ConfirmOption,
    ImportOptions,
    ImportPlan,
    OverwriteOption,
    TargetProjectOption,
    build_plan,
    execute_plan,
    open_target,
)
from hedgerow.cli.importers.source import ImportSource
from hedgerow.cli.options import DryRunOption, JsonOption, KeyOption, ServerOption
from hedgerow.cli.output import show_progress
from hedgerow.errors import OperatorError
from hedgerow.importers.model import ConversionResult, ResourceKind
from hedgerow.importers.posthog import convert_posthog
from hedgerow.lib.clock import utc_now
from hedgerow.lib.text import escape_control_characters
from hedgerow.projects.validation import parse_date_parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hedgerow.app.commands.imports import ImportLedgerFile
    from hedgerow.cli.importers.target import ImportTarget
    from hedgerow.importers.matching import IdMap

KINDS = (
    ResourceKind.COHORT,
    ResourceKind.FLAG,
    ResourceKind.FEATURE,
    ResourceKind.SURVEY,
    ResourceKind.EXPERIMENT,
)


def import_posthog(  # noqa: PLR0913 - the options of a command
    host: Annotated[
        str, typer.Option(metavar="URL", help="URL of PostHog, such as https://eu.posthog.com.")
    ],
    project: Annotated[str, typer.Option(metavar="ID", help="Id of the project in PostHog.")],
    personal_key: Annotated[
        str,
        typer.Option(
            metavar="KEY",
            envvar="POSTHOG_PERSONAL_API_KEY",
            show_envvar=False,
            help="Personal API key of PostHog that may read [env POSTHOG_PERSONAL_API_KEY].",
        ),
    ],
    persons: Annotated[
        bool, typer.Option("--persons", help="Copy all persons: distinct ids and properties.")
    ] = False,
    events: Annotated[bool, typer.Option("--events", help="Copy all events.")] = False,
    since: Annotated[
        str, typer.Option(help="Only events from this time on: 2026-01-31 (UTC) or -30d.")
    ] = "",
    yes: ConfirmOption = False,
    dry_run: DryRunOption = False,
    overwrite: OverwriteOption = False,
    state: Annotated[
        Path | None,
        typer.Option(help="File that records the progress. Default: a file in this directory."),
    ] = None,
    target_project: TargetProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a PostHog project: definitions, groups, persons and events.

    Definitions are flags, cohorts, early access features, surveys and experiments. The command
    shows a plan first: the number of items, those that exist already, and those that cannot be
    copied with the reason. In a terminal it then asks for confirmation; elsewhere it needs --yes.
    The service needs a personal API key with the scope *.

    If it was stopped, the same command continues and creates nothing twice.

    Example: hedgerow import posthog --host https://eu.posthog.com --project 12345 --persons
    """
    if since and not events:
        raise OperatorError("--since limits events: use it together with --events.")
    if since:
        parse_date_parameter(since, utc_now(), UTC, "--since")
    options = ImportOptions(yes=yes, dry_run=dry_run, overwrite=overwrite, as_json=as_json)
    target = open_target(server, key, target_project, KINDS)
    with ImportSource(host, personal_key, project) as source:
        definitions = convert_posthog(source.fetch_definitions())
        target.load()
        path = state or Path(f"hedgerow-import-{_slugify(source.name)}.json")
        ledger = commands.imports.ImportLedgerFile(path, source.name, target.name)
        plan = build_plan(definitions, target, _read_known_ids(ledger), overwrite=overwrite)
        totals = _count_history(source, definitions, persons=persons, events=events, since=since)
        heading = f"From {source.name} into {target.name}:"
        if not options.approve(plan, heading, _describe_totals(definitions, totals)):
            return
        try:
            _import(plan, source, target, ledger, totals, since, options)
        except KeyboardInterrupt:
            ledger.save()
            print("Stopped. Run the same command to continue.", file=sys.stderr)
            raise typer.Exit(130) from None


def _read_known_ids(ledger: ImportLedgerFile) -> dict[ResourceKind, dict[Any, Any]]:
    """Return the ids that earlier runs recorded."""
    return {
        ResourceKind.COHORT: ledger.ledger.cohorts,
        ResourceKind.SURVEY: ledger.ledger.surveys,
        ResourceKind.EXPERIMENT: ledger.ledger.experiments,
    }


# The number of groups by type, of events and of persons; None if the source does not give it.
Totals = dict[str, "int | None"]


def _count_history(
    source: ImportSource,
    definitions: ConversionResult,
    *,
    persons: bool,
    events: bool,
    since: str,
) -> Totals:
    totals: Totals = {}
    for index, name in definitions.group_types.items():
        totals[name] = source.count("groups/", group_type_index=index)
    if events:
        start = parse_date_parameter(since, utc_now(), UTC, "--since") if since else None
        where = f" WHERE timestamp >= toDateTime('{start:%Y-%m-%d %H:%M:%S}')" if start else ""
        totals["events"] = source.count_by_query(f"SELECT count() FROM events{where}")  # noqa: S608
    if persons:
        totals["persons"] = source.count("persons/")
    return totals


def _describe_totals(definitions: ConversionResult, totals: Totals) -> list[str]:
    lines = [
        f"groups of type {name}: {_format_total(totals[name])}"
        for name in definitions.group_types.values()
    ]
    for name in ("events", "persons"):
        total = _format_total(totals[name]) if name in totals else f"not included (--{name})"
        lines.append(f"{name}: {total}")
    if _list_static_cohorts(definitions) and "persons" not in totals:
        lines.append("members of static cohorts are copied with the distinct ids that the source")
        lines.append("lists: PostHog lists up to 10 each, --persons copies all")
    return lines


def _format_total(total: int | None) -> str:
    return "all" if total is None else f"{total:,}"


def _list_static_cohorts(definitions: ConversionResult) -> list[tuple[int, str]]:
    return [
        (int(each.source_id), each.name)
        for each in definitions.items
        if each.kind is ResourceKind.COHORT and each.body["is_static"]
    ]


def _import(  # noqa: PLR0913 - one step of the command
    plan: ImportPlan,
    source: ImportSource,
    target: ImportTarget,
    ledger: ImportLedgerFile,
    totals: Totals,
    since: str,
    options: ImportOptions,
) -> None:
    id_map, rejected = execute_plan(plan, target, _read_known_ids(ledger), ledger.save)
    ledger.save()
    with show_progress() as progress:
        history = HistoryImport(source, target, ledger, progress, id_map)
        _copy_history(history, plan.source, id_map, ledger.ledger.cohorts, totals, since)
    for line in describe_history(history):
        print(escape_control_characters(line), file=sys.stderr)
    options.report(plan, rejected, copied=history.copied, events_rejected=history.rejected)
    if not history.is_complete:
        raise typer.Exit(1)


def _copy_history(
    history: HistoryImport,
    definitions: ConversionResult,
    id_map: IdMap,
    own_cohorts: Mapping[int, int],
    totals: Totals,
    since: str,
) -> None:
    """Copy events first, because persons and groups hold the final properties."""
    if "events" in totals:
        history.copy_events(since, totals["events"])
    for index, name in definitions.group_types.items():
        if index in id_map.group_types:
            history.copy_groups(index, name, totals[name])
    if "persons" in totals:
        history.copy_persons(totals["persons"])
    for cohort, name in _list_static_cohorts(definitions):
        own_id = own_cohorts.get(cohort)
        if own_id is not None and own_id == id_map.ids[ResourceKind.COHORT].get(cohort):
            history.copy_members(cohort, own_id, name, sends_persons="persons" not in totals)


def _slugify(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text.partition("://")[2]).strip("-")
