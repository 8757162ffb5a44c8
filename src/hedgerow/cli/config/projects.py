"""`hedgerow projects`: create, list and delete projects, and manage their secret keys."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import choose_project, load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, KeyOption, ServerOption, YesOption
from hedgerow.cli.output import confirm, confirm_name, print_json, print_table
from hedgerow.cli.service_client import ServiceClient, find_service
from hedgerow.errors import NotFound, OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.model import Project, ProjectId

if TYPE_CHECKING:
    from hedgerow.settings import Settings

Json = dict[str, Any]

PROJECTS = "/api/projects/"
WRITE = "project:write"
# The API has more fields.
FIELDS = ("id", "name", "timezone", "api_token")
SECRET_FIELDS = (
    "id",
    "name",
    "secret_api_token",
    "secret_api_token_mask",
    "secret_api_token_backup_mask",
)


def create_project(
    name: Annotated[str, typer.Argument(help="Name of the project.")],
    timezone: Annotated[str, typer.Option(help="Time zone, such as Europe/Oslo.")] = "UTC",
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a project and print its id and key."""

    async def run(settings: Settings) -> Project:
        async with commands.state.open_state(settings) as state:
            return await state.projects.create(name, timezone, COMMAND_LINE, utc_now())

    service = find_service(data, server, key, None, WRITE)
    if service is not None:
        project = service.request_root("POST", PROJECTS, {"name": name, "timezone": timezone})
    else:
        project = _to_json(asyncio.run(run(load_installation_settings(data))))
    if as_json:
        print_json(_select_fields(project))
    else:
        print(f"Created project {project['id']}, {project['name']!r}.\n")
        print(f"  Project key  {project['api_token']}")


def delete_project(
    project: Annotated[
        int, typer.Argument(metavar="ID", help="Id of the project, from `projects list`.")
    ],
    yes: YesOption = False,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a project with all its data.

    Shows how much would be deleted, and asks twice. The keys of the project are refused as soon as
    the command is done. The service deletes the data in the background: `hedgerow doctor` shows
    what is left. The only project of an installation cannot be deleted.
    """
    if as_json and not yes:
        raise OperatorError("Nothing was changed: --json does not ask. Confirm with --yes.")

    def approve(name: str, counts: Mapping[str, int]) -> None:
        _print_contents(project, name, counts)
        if not yes:
            confirm_name(f"the project {project}", name)
            confirm("Delete all of this permanently?")

    async def run(settings: Settings) -> str:
        async with commands.events.open_events(settings, _report) as events:
            found = choose_project(events.state, project)
            if not as_json:
                rows = await events.project_deletions.count_rows(found.id)
                approve(found.name, {"events": await events.count_all(found.id), **rows})
            await events.state.projects.delete(found.id, COMMAND_LINE, utc_now())
            return found.name

    service = find_service(data, server, key, project, WRITE)
    if service is not None:
        name = service.request("GET", "")["name"]
        if not as_json:
            approve(name, service.request("GET", "contents/"))
        service.request("DELETE", "")
    else:
        name = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json({"project": project, "deleted": True})
    else:
        print(f"Deleted project {project}, {name!r}. The service deletes its data.")


def _print_contents(id: int, name: str, counts: Mapping[str, int]) -> None:
    print(f"Project {id}, {name!r}, contains:\n")
    print_table(("number", "of"), [(f"{count:,}", each) for each, count in counts.items()])
    print()


def _report(line: str) -> None:
    print(line, file=sys.stderr)


def list_projects(
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List all projects with their project keys."""

    async def run(settings: Settings) -> list[Project]:
        async with commands.state.open_state(settings) as state:
            return state.directory.list_projects()

    service = find_service(data, server, key, None, "project:read")
    if service is not None:
        projects = [_select_fields(project) for project in service.list_root(PROJECTS)]
    else:
        found = asyncio.run(run(load_installation_settings(data)))
        projects = [_to_json(project) for project in found]
    if as_json:
        print_json(projects)
        return
    print_table(
        ("id", "name", "project key", "time zone"),
        [
            (str(project["id"]), project["name"], project["api_token"], project["timezone"])
            for project in projects
        ],
        empty="No projects.",
    )


def manage_secret(  # noqa: PLR0913 - the options of a command
    project: Annotated[
        int, typer.Argument(metavar="ID", help="Id of the project, from `projects list`.")
    ],
    new: Annotated[
        bool, typer.Option("--new", help="Create a new secret key and print it once.")
    ] = False,
    end_previous: Annotated[
        bool, typer.Option("--end-previous", help="Revoke the previous secret key.")
    ] = False,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show, create or revoke a project's secret keys.

    A secret key lets SDKs on servers read the project's flags, and nothing else. After you create
    a new one, the previous one works until you create another one or revoke it.

    Example: hedgerow projects secret 1 --new
    """

    async def run(settings: Settings) -> Json:
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
            return {
                "id": found.id,
                "name": found.name,
                "secret_api_token": value,
                "secret_api_token_mask": found.secret_mask or None,
                "secret_api_token_backup_mask": found.backup_secret_mask or None,
            }

    changes = new or end_previous
    service = find_service(data, server, key, project, WRITE if changes else "project:read")
    if service is not None:
        secrets = _change_secrets(service, new=new, end_previous=end_previous)
    else:
        secrets = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json(secrets)
        return
    if secrets["secret_api_token"] is not None:
        print(f"{secrets['secret_api_token']}\n")
        print(
            f"This is the secret key of {secrets['name']!r}. Store it now: it is shown only once.\n"
        )
    masks = secrets["secret_api_token_mask"], secrets["secret_api_token_backup_mask"]
    print_table(("secret key", "previous one"), [[mask or "none" for mask in masks]])


def _change_secrets(service: ServiceClient, *, new: bool, end_previous: bool) -> Json:
    answer = service.request("GET", "secret_tokens/")
    if new:
        answer = service.request("PATCH", "rotate_secret_token/")
    value = answer["secret_api_token"]
    if end_previous:
        answer = service.request("PATCH", "delete_secret_token_backup/")
    return {name: answer[name] for name in SECRET_FIELDS} | {"secret_api_token": value}


def _select_fields(project: Json) -> Json:
    return {name: project[name] for name in FIELDS}


def _to_json(project: Project) -> Json:
    return {
        "id": project.id,
        "name": project.name,
        "timezone": project.timezone,
        "api_token": project.api_token,
    }
