"""`hedgerow events delete`: delete events permanently."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import choose_project, load_installation_settings
from hedgerow.cli.options import (
    DataOption,
    JsonOption,
    KeyOption,
    ProjectOption,
    ServerOption,
    YesOption,
)
from hedgerow.cli.output import confirm, print_json
from hedgerow.cli.service_client import find_service
from hedgerow.errors import OperatorError

if TYPE_CHECKING:
    from hedgerow.settings import Settings

DELETE = "events/delete/"


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
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete events permanently, after a confirmation.

    Deletes the events that match all of the options, and records it in the audit trail. Works while
    the service runs and while it is stopped. On a service it needs a personal API key with the
    scope project:write.
    """
    if as_json and not yes:
        raise OperatorError("Nothing was changed: --json does not ask. Confirm with --yes.")

    def approve(count: int, id: int, name: str) -> None:
        if not as_json:
            print(f"{count} event(s) of project {id}, {name!r}, match.")
        if count and not yes:
            confirm("Delete them permanently?")

    async def run(settings: Settings) -> tuple[int, int]:
        async with commands.events.open_events(settings, _report) as events:
            owner = choose_project(events.state, project)
            request = commands.events.DeletionRequest(
                uuids=uuid or (), person=person, event=event, before=before
            )
            count = await events.count(owner.id, request)
            approve(count, owner.id, owner.name)
            return owner.id, await events.delete(owner.id, request) if count else 0

    service = find_service(data, server, key, project, "project:write")
    if service is not None:
        owner = service.request("GET", "")
        body = {"uuids": uuid, "person": person, "event": event or None, "before": before}
        count = service.request("POST", DELETE, {**body, "dry_run": True})["events"]
        approve(count, owner["id"], owner["name"])
        owner_id = owner["id"]
        deleted = service.request("POST", DELETE, body)["events"] if count else 0
    else:
        owner_id, deleted = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json({"project": owner_id, "deleted": deleted})
    elif deleted:
        print(f"Deleted {deleted} event(s).")


def _report(line: str) -> None:
    print(line, file=sys.stderr)
