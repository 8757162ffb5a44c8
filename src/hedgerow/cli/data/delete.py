"""`hedgerow events delete`: delete events permanently."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import choose_project, load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, ProjectOption, YesOption
from hedgerow.cli.output import confirm, print_json
from hedgerow.errors import OperatorError


def delete_events(  # noqa: PLR0913 - the options of a command
    uuid: Annotated[list[str] | None, typer.Option(help="Uuid of an event. Repeatable.")] = None,
    person: Annotated[
        str | None, typer.Option(help="Events of this person: a uuid or a distinct id.")
    ] = None,
    event: Annotated[str, typer.Option(help="Events with this name.")] = "",
    before: Annotated[
        str | None, typer.Option(help="Events before this time, such as 2026-01-31 (UTC).")
    ] = None,
    project: ProjectOption = None,
    yes: YesOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete events permanently, after a confirmation.

    Deletes the events that match all of the options, and records it in the audit trail. Works while
    the service runs and while it is stopped.
    """
    settings = load_installation_settings(data)
    if as_json and not yes:
        raise OperatorError("Nothing was changed: --json does not ask. Confirm with --yes.")

    async def run() -> None:
        async with commands.events.open_events(settings, _report) as events:
            owner = choose_project(events.state, project)
            request = commands.events.DeletionRequest(
                uuids=uuid or (), person=person, event=event, before=before
            )
            count = await events.count(owner.id, request)
            if not as_json:
                print(f"{count} event(s) of project {owner.id}, {owner.name!r}, match.")
            if count and not yes:
                confirm("Delete them permanently?")
            deleted = await events.delete(owner.id, request) if count else 0
            if as_json:
                print_json({"project": owner.id, "deleted": deleted})
            elif count:
                print(f"Deleted {deleted} event(s).")

    asyncio.run(run())


def _report(line: str) -> None:
    print(line, file=sys.stderr)
