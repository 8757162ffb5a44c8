"""`hedgerow projects`: make and list projects at the terminal."""

import json
from typing import Annotated, Any

import typer
import uvloop

from hedgerow.app.state import opened_state
from hedgerow.cli.options import DataOption, JsonOption
from hedgerow.cli.prepared import prepared_settings
from hedgerow.cli.tables import show, table
from hedgerow.kit.clock import utc_now
from hedgerow.projects.activity import TERMINAL
from hedgerow.projects.model import Project
from hedgerow.settings import Settings

projects = typer.Typer()


@projects.command()
def create(
    name: Annotated[str, typer.Argument(help="What the project is called.")],
    timezone: Annotated[str, typer.Option(help="Its time zone, such as Europe/Oslo.")] = "UTC",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a project and print its id and public key."""

    async def run(settings: Settings) -> Project:
        async with opened_state(settings) as state:
            return await state.projects.create(name, timezone, TERMINAL, utc_now())

    project = uvloop.run(run(prepared_settings(data)))
    if as_json:
        print(json.dumps(_facts(project)))
    else:
        print(f"Made project {project.id}, {project.name!r}.\n\n  Project key  {project.api_token}")


@projects.command("list")
def list_(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show all projects with their public keys."""

    async def run(settings: Settings) -> list[Project]:
        async with opened_state(settings) as state:
            return state.directory.all_projects()

    found = uvloop.run(run(prepared_settings(data)))
    if as_json:
        print(json.dumps([_facts(project) for project in found]))
        return
    rows = table("id", "name", "project key", "time zone")
    for project in found:
        rows.add_row(str(project.id), project.name, project.api_token, project.timezone)
    show(rows)


def _facts(project: Project) -> dict[str, Any]:
    return {
        "id": project.id,
        "name": project.name,
        "timezone": project.timezone,
        "api_token": project.api_token,
    }
