"""`hedgerow events delete`: delete events permanently."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import choose_project, load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, ProjectOption, YesOption
from hedgerow.cli.output import confirm, print_json
from hedgerow.cli.service_client import resolve_service_url
from hedgerow.errors import OperatorError

if TYPE_CHECKING:
    from hedgerow.settings import Settings


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

    Deletes the events that match all of the options, and records it in the audit trail.
    """
    settings = load_installation_settings(data)
    if as_json and not yes:
        raise OperatorError("Nothing was changed: --json does not ask. Confirm with --yes.")

    async def run() -> None:
        async with commands.events.open_events(settings) as events:
            owner = choose_project(events.state, project)
            selection, count = await events.select(
                owner.id, uuids=uuid or (), person=person, event=event, before=before
            )
            if not as_json:
                print(f"{count} event(s) of project {owner.id}, {owner.name!r}, match.")
            if count and not yes:
                confirm("Delete them permanently?")
            deleted = await events.delete(owner.id, selection) if count else 0
            if as_json:
                print_json({"project": owner.id, "deleted": deleted})
            elif count:
                print(f"Deleted {deleted} event(s).")

    try:
        asyncio.run(run())
    except commands.events.FolderInUseError as error:
        fields = {"uuids": uuid, "person": person, "event": event, "before": before}
        raise OperatorError(f"{error} {_describe_alternative(settings, fields)}") from None


def _describe_alternative(settings: Settings, fields: dict[str, Any]) -> str:
    body = json.dumps({name: value for name, value in fields.items() if value})
    return (
        "If that is the service, let it delete them: curl -H 'Authorization: Bearer phx_…' -H "
        f"'Content-Type: application/json' {resolve_service_url(settings)}/api/projects/@current"
        f"/events/delete/ -d '{body}'"
    )
