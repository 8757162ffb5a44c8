"""`hedgerow events`: delete events at the terminal; watch them arrive, write them to files, decide
about those that were set aside.
"""

import json
from typing import Annotated, Any

import typer
import uvloop

from hedgerow.app.deletion import EventRooms, opened_events
from hedgerow.cli.export import export
from hedgerow.cli.files import ProjectOption, YesOption, ask, project_of
from hedgerow.cli.options import DataOption
from hedgerow.cli.prepared import prepared_settings
from hedgerow.cli.set_aside import aside, discard, retry
from hedgerow.cli.tail import tail
from hedgerow.errors import Unready
from hedgerow.events.delete import Chosen, checked_choice, ids_of_person
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import TERMINAL
from hedgerow.projects.model import Project
from hedgerow.settings import Settings
from hedgerow.storage.folder_lock import FolderInUse

events = typer.Typer()
events.command()(tail)
events.command()(export)
events.command()(aside)
events.command()(retry)
events.command()(discard)


@events.command()
def delete(  # noqa: PLR0913 - the options of a verb
    uuid: Annotated[list[str] | None, typer.Option(help="A uuid. Repeat for more.")] = None,
    person: Annotated[
        str | None, typer.Option(help="Whose: a person's uuid, or one of their distinct ids.")
    ] = None,
    event: Annotated[str, typer.Option(help="Those of this name.")] = "",
    before: Annotated[
        str | None, typer.Option(help="Older than this, such as 2026-01-31 (UTC).")
    ] = None,
    project: ProjectOption = None,
    yes: YesOption = False,
    data: DataOption = None,
) -> None:
    """Delete events: show how many they are, ask, then delete them for good.

    They are those for which all of the options hold. It is told in the audit trail.
    """
    settings = prepared_settings(data)

    async def run() -> None:
        async with opened_events(settings) as rooms:
            owner = project_of(rooms.state, project)
            chosen = checked_choice(
                uuids=uuid or (),
                distinct_ids=await ids_of_person(rooms.persons, owner.id, person),
                event=event,
                before=before,
            )
            await _delete(rooms, owner, chosen, yes=yes)

    try:
        uvloop.run(run())
    except FolderInUse as error:
        raise Unready(f"{error} {_instead(settings, uuid, person, event, before)}") from None


async def _delete(rooms: EventRooms, project: Project, chosen: Chosen, *, yes: bool) -> None:
    number = await rooms.deletion.count(project.id, chosen)
    print(f"{number} event(s) of project {project.id}, {project.name!r}.")
    if not number:
        return
    if not yes:
        ask("Delete them for good?")
    deleted = await rooms.deletion.delete(project.id, chosen, TERMINAL, utc_now())
    print(f"Deleted {deleted} event(s).")


def _instead(settings: Settings, uuids: Any, person: Any, event: str, before: Any) -> str:
    wish = {"uuids": uuids, "person": person, "event": event, "before": before}
    body = json.dumps({name: value for name, value in wish.items() if value})
    return (
        "If that is the service, ask it: curl -H 'Authorization: Bearer phx_…' -H 'Content-Type: "
        f"application/json' http://{settings.host}:{settings.port}/api/projects/@current/events"
        f"/delete/ -d '{body}'"
    )
