"""`hedgerow projects`: create, list and delete projects, and manage their secret keys."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import choose_project, load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, YesOption
from hedgerow.cli.output import confirm, confirm_name, print_json, print_table
from hedgerow.errors import NotFound, OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.model import Project, ProjectId

if TYPE_CHECKING:
    from hedgerow.settings import Settings


def create_project(
    name: Annotated[str, typer.Argument(help="Name of the project.")],
    timezone: Annotated[str, typer.Option(help="Time zone, such as Europe/Oslo.")] = "UTC",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a project and print its id and key."""

    async def run(settings: Settings) -> Project:
        async with commands.state.open_state(settings) as state:
            return await state.projects.create(name, timezone, COMMAND_LINE, utc_now())

    project = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json(_to_json(project))
    else:
        print(f"Created project {project.id}, {project.name!r}.\n")
        print(f"  Project key  {project.api_token}")


def delete_project(
    project: Annotated[
        int, typer.Argument(metavar="ID", help="Id of the project, from `projects list`.")
    ],
    yes: YesOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a project with all its data.

    Shows how much would be deleted, and asks twice. The keys of the project are refused as soon as
    the command is done. The service deletes the data in the background: `hedgerow doctor` shows
    what is left. The only project of an installation cannot be deleted.
    """
    settings = load_installation_settings(data)
    if as_json and not yes:
        raise OperatorError("Nothing was changed: --json does not ask. Confirm with --yes.")

    async def run() -> Project:
        async with commands.events.open_events(settings, _report) as events:
            found = choose_project(events.state, project)
            if not as_json:
                rows = await events.project_deletions.count_rows(found.id)
                _print_contents(found, {"events": await events.count_all(found.id), **rows})
            if not yes:
                confirm_name(f"the project {found.id}", found.name)
                confirm("Delete all of this permanently?")
            await events.state.projects.delete(found.id, COMMAND_LINE, utc_now())
            return found

    found = asyncio.run(run())
    if as_json:
        print_json({"project": found.id, "deleted": True})
    else:
        print(f"Deleted project {found.id}, {found.name!r}. The service deletes its data.")


def _print_contents(project: Project, counts: Mapping[str, int]) -> None:
    print(f"Project {project.id}, {project.name!r}, contains:\n")
    print_table(("number", "of"), [(f"{count:,}", name) for name, count in counts.items()])
    print()


def _report(line: str) -> None:
    print(line, file=sys.stderr)


def list_projects(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List all projects with their project keys."""

    async def run(settings: Settings) -> list[Project]:
        async with commands.state.open_state(settings) as state:
            return state.directory.list_projects()

    projects = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json([_to_json(project) for project in projects])
        return
    print_table(
        ("id", "name", "project key", "time zone"),
        [
            (str(project.id), project.name, project.api_token, project.timezone)
            for project in projects
        ],
        empty="No projects.",
    )


def manage_secret(
    project: Annotated[
        int, typer.Argument(metavar="ID", help="Id of the project, from `projects list`.")
    ],
    new: Annotated[
        bool, typer.Option("--new", help="Create a new secret key and print it once.")
    ] = False,
    end_previous: Annotated[
        bool, typer.Option("--end-previous", help="Revoke the previous secret key.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show, create or revoke a project's secret keys.

    A secret key lets SDKs on servers read the project's flags, and nothing else. After you create
    a new one, the previous one works until you create another one or revoke it.

    Example: hedgerow projects secret 1 --new
    """

    async def run(settings: Settings) -> tuple[Project, str | None]:
        async with commands.state.open_state(settings) as state:
            found = state.directory.get_project(ProjectId(project))
            if found is None:
                raise NotFound(f"No project has the id {project}: see `hedgerow projects list`.")
            value = None
            if new:
                issued = await state.projects.rotate_secret(found.id, COMMAND_LINE, utc_now())
                found, value = issued.project, issued.value
            if end_previous:
                found = await state.projects.drop_backup_secret(found.id, COMMAND_LINE, utc_now())
            return found, value

    found, value = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json(
            {
                "id": found.id,
                "name": found.name,
                "secret_api_token": value,
                "secret_api_token_mask": found.secret_mask or None,
                "secret_api_token_backup_mask": found.backup_secret_mask or None,
            }
        )
        return
    if value is not None:
        print(f"{value}\n")
        print(f"This is the secret key of {found.name!r}. Store it now: it is shown only once.\n")
    print_table(
        ("secret key", "previous one"),
        [(found.secret_mask or "none", found.backup_secret_mask or "none")],
    )


def _to_json(project: Project) -> dict[str, Any]:
    return {
        "id": project.id,
        "name": project.name,
        "timezone": project.timezone,
        "api_token": project.api_token,
    }
