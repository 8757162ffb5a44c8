"""`hedgerow projects`: make and list projects and look after their secret keys, at the terminal."""

import json
from typing import Annotated, Any

import typer
import uvloop

from hedgerow.app.state import opened_state
from hedgerow.cli.options import DataOption, JsonOption
from hedgerow.cli.prepared import prepared_settings
from hedgerow.cli.tables import show, table
from hedgerow.errors import NotFound
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import TERMINAL
from hedgerow.projects.model import Project, ProjectId
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


@projects.command()
def secret(
    project: Annotated[int, typer.Argument(help="The project's id, as `projects list` shows it.")],
    new: Annotated[
        bool, typer.Option("--new", help="Make a new one and print it, this once.")
    ] = False,
    end_previous: Annotated[
        bool, typer.Option("--end-previous", help="End the one from before the last new one.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which secret keys a project has, make a new one, or end the previous one.

    A secret key lets SDKs on servers read the project's flags, and opens nothing else. After a new
    one the previous one goes on working, until the next new one or until you end it.

    Example: hedgerow projects secret 1 --new
    """

    async def run(settings: Settings) -> tuple[Project, str | None]:
        async with opened_state(settings) as state:
            found = state.directory.project(ProjectId(project))
            if found is None:
                raise NotFound(f"No project has the id {project}: see `hedgerow projects list`.")
            value = None
            if new:
                issued = await state.projects.rotate_secret(found.id, TERMINAL, utc_now())
                found, value = issued.project, issued.value
            if end_previous:
                found = await state.projects.drop_backup_secret(found.id, TERMINAL, utc_now())
            return found, value

    found, value = uvloop.run(run(prepared_settings(data)))
    if as_json:
        print(json.dumps(_secrets(found, value)))
        return
    if value is not None:
        print(
            f"{value}\n\nThis is the secret key of {found.name!r}; it is shown only now, keep it."
        )
    rows = table("secret key", "previous one")
    rows.add_row(found.secret_mask or "none", found.backup_secret_mask or "none")
    show(rows)


def _secrets(project: Project, value: str | None) -> dict[str, Any]:
    return {
        "id": project.id,
        "name": project.name,
        "secret_api_token": value,
        "secret_api_token_mask": project.secret_mask or None,
        "secret_api_token_backup_mask": project.backup_secret_mask or None,
    }


def _facts(project: Project) -> dict[str, Any]:
    return {
        "id": project.id,
        "name": project.name,
        "timezone": project.timezone,
        "api_token": project.api_token,
    }
