"""`hedgerow flags what-if`: what the flags of a YAML file would change for real people."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.config.as_code import FileArgument, read_document, report_invalid
from hedgerow.cli.existing_installation import check_installation, choose_project
from hedgerow.cli.options import DataOption, JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.output import print_json
from hedgerow.cli.service_client import ServiceClient, load_service_settings, resolve_service_url
from hedgerow.errors import OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.lib.text import escape_control_characters
from hedgerow.projects.activity import COMMAND_LINE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from hedgerow.settings import Settings


def ask_what_if(  # noqa: PLR0913 - the options of a command
    file: FileArgument,
    days: Annotated[int, typer.Option(help="Evaluate people with events in the last N days.")] = 7,
    evaluated: Annotated[
        bool, typer.Option("--evaluated", help="Only people for whom an SDK evaluated the flag.")
    ] = False,
    segment: Annotated[
        str | None, typer.Option(metavar="PROPERTY", help="Count by this person property.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="EVENT", help="Count who did this event, and how often.")
    ] = None,
    project: ProjectOption = None,
    server: ServerOption = None,
    personal_key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show for whom the flags of a YAML file would change.

    The file is one for `hedgerow flags apply`. Each flag that it creates or changes is evaluated as
    it is and as it would be, for the people of the last days. Nothing is changed.

    With a personal API key (scopes feature_flag:read and person:read) the running service answers.
    Without one the command opens the events of the data directory, which no running service may
    have open.
    """
    question = {
        "days": days,
        "population": "evaluated" if evaluated else "seen",
        "segment": segment,
        "metric": metric,
    }
    settings = load_service_settings(server, personal_key, data_dir=data)
    check_installation(settings)
    drafts = asyncio.run(_plan_drafts(settings, project, file))
    answers = _ask(settings, drafts, question, file)
    if as_json:
        print_json([{"key": key, **answer} for key, answer in answers])
        return
    for key, answer in answers:
        for line in _describe(key, answer):
            print(escape_control_characters(line))
    if not answers:
        print("Nothing to change.")


async def _plan_drafts(
    settings: Settings, project: int | None, file: Path
) -> tuple[int, list[dict[str, Any]]]:
    """Return the project, and the fields of each flag that the file creates or changes."""
    document = read_document(file)
    async with commands.flags.open_flags(settings) as flags:
        target = choose_project(flags.state, project)
        with report_invalid(file):
            plan = await flags.as_code.plan(
                target, document, prune=False, actor=COMMAND_LINE, now=utc_now()
            )
        return target.id, [
            commands.flags.build_draft_body(step) for step in (*plan.created, *plan.changed)
        ]


def _ask(
    settings: Settings,
    drafts: tuple[int, list[dict[str, Any]]],
    question: dict[str, Any],
    file: Path,
) -> list[tuple[str, Mapping[str, Any]]]:
    project, bodies = drafts
    if settings.personal_key:
        service = ServiceClient(resolve_service_url(settings), settings.personal_key, project)
        with report_invalid(file):
            return [
                (body["key"], service.request("POST", "feature_flags/what_if/", body | question))
                for body in bodies
            ]

    async def run() -> list[tuple[str, Mapping[str, Any]]]:
        async with commands.flag_history.open_what_if(settings) as opened:
            chosen = choose_project(opened.state, project)
            return [(body["key"], await opened.ask(chosen, body | question)) for body in bodies]

    try:
        with report_invalid(file):
            return asyncio.run(run())
    except commands.flag_history.FolderInUseError as error:
        raise OperatorError(
            f"{error} If that is the service, ask it: set a personal API key with --key or "
            "HEDGEROW_PERSONAL_KEY."
        ) from None


def _describe(key: str, answer: Mapping[str, Any]) -> Iterator[str]:
    evaluated, changed = answer["evaluated_persons"], answer["changed_persons"]
    share = f" ({answer['changed_percent']} %)" if evaluated else ""
    yield f"{key}: {changed} of {evaluated} people would get another value{share}"
    if not answer["is_complete"]:
        reason = answer["stopped_by"].replace("_", " ")
        yield f"  a sample of {answer['total_persons']} people, because of the {reason}"
    for each in answer["changes"]:
        sample = ", ".join(person["distinct_id"] for person in each["sample"])
        did = _describe_metric(each["metric"], answer)
        yield f"  {each['before']} -> {each['after']}: {each['persons']}{did}, such as {sample}"
    if answer["metric"]:
        yield f"  unchanged{_describe_metric(answer['metric']['unchanged'], answer)}"
    for each in answer["segments"] or ():
        yield f"  {each['value']}: {each['changed_persons']} of {each['persons']}"


def _describe_metric(count: Mapping[str, int] | None, answer: Mapping[str, Any]) -> str:
    if count is None:
        return ""
    name = answer["metric"]["event"]
    return f"; {count['persons']} did {name}, {count['events']} times"
