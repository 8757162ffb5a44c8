"""`hedgerow users roles`: the roles that people can have in a project."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption
from hedgerow.cli.output import print_json, print_table
from hedgerow.errors import NotFound
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.model import Role
from hedgerow.projects.roles import BUILT_IN_ROLES

if TYPE_CHECKING:
    from hedgerow.settings import Settings


def list_roles(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the roles that people can have in a project."""

    async def run(settings: Settings) -> list[Role]:
        async with commands.people.open_people(settings) as opened:
            return list(opened.state.directory.roles.values())

    roles = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json([_to_json(role) for role in roles])
        return
    print_table(
        ("id", "name", "may change"),
        [(role.id, role.name, _summarize(role)) for role in roles],
    )


def create_role(
    name: Annotated[str, typer.Argument(help="Name of the role.")],
    scope: Annotated[
        list[str], typer.Option(help="What it may do, such as survey:write. Repeatable.")
    ],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a role from scopes.

    Example: hedgerow users roles create Surveyor --scope survey:write --scope query:read
    """

    async def run(settings: Settings) -> Role:
        async with commands.people.open_people(settings) as opened:
            members = opened.people.members
            return await members.add_role(name, tuple(scope), COMMAND_LINE, utc_now())

    role = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json(_to_json(role))
    else:
        print(f"Created the role {role.name!r} with the id {role.id}.")


def remove_role(
    role: Annotated[str, typer.Argument(help="Id or name of the role.")],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a role that no person has."""

    async def run(settings: Settings) -> Role:
        async with commands.people.open_people(settings) as opened:
            known = opened.state.directory.roles.values()
            found = next((each for each in known if role in (each.id, each.name)), None)
            if found is None:
                raise NotFound(f"No role has the id or name {role!r}: see `users roles list`.")
            await opened.people.members.remove_role(found.id, COMMAND_LINE, utc_now())
            return found

    removed = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json(_to_json(removed))
    else:
        print(f"Deleted the role {removed.name!r}.")


def _summarize(role: Role) -> str:
    written = sorted(each.removesuffix(":write") for each in role.scopes if each.endswith(":write"))
    return "everything in the project" if role.id == "admin" else " ".join(written) or "nothing"


def _to_json(role: Role) -> dict[str, Any]:
    return {
        "id": role.id,
        "name": role.name,
        "scopes": sorted(role.scopes),
        "is_built_in": role.id in BUILT_IN_ROLES,
    }
