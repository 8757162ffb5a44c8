"""`hedgerow users roles`: the roles that people can have in a project."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, KeyOption, ServerOption
from hedgerow.cli.output import print_json, print_table
from hedgerow.cli.service_client import find_service
from hedgerow.errors import NotFound
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.model import Role
from hedgerow.projects.roles import BUILT_IN_ROLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hedgerow.settings import Settings

Json = dict[str, Any]

ROLES = "/api/organizations/@current/roles/"
READ, WRITE = "organization_member:read", "organization_member:write"


def list_roles(
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the roles that people can have in a project."""

    async def run(settings: Settings) -> list[Json]:
        async with commands.people.open_people(settings) as opened:
            return [_to_json(role) for role in opened.state.directory.roles.values()]

    service = find_service(data, server, key, None, READ)
    if service is not None:
        roles = [_select_fields(role) for role in service.request_list(ROLES)]
    else:
        roles = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json(roles)
        return
    print_table(
        ("id", "name", "may change"),
        [(role["id"], role["name"], _summarize(role)) for role in roles],
    )


def create_role(
    name: Annotated[str, typer.Argument(help="Name of the role.")],
    scope: Annotated[
        list[str], typer.Option(help="What it may do, such as survey:write. Repeatable.")
    ],
    server: ServerOption = None,
    key: KeyOption = None,
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

    service = find_service(data, server, key, None, WRITE)
    if service is not None:
        role = service.request_root("POST", ROLES, {"name": name, "scopes": scope})
    else:
        role = _to_json(asyncio.run(run(load_installation_settings(data))))
    if as_json:
        print_json(_select_fields(role))
    else:
        print(f"Created the role {role['name']!r} with the id {role['id']}.")


def remove_role(
    role: Annotated[str, typer.Argument(help="Id or name of the role.")],
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a role that no person has."""

    async def run(settings: Settings) -> Json:
        async with commands.people.open_people(settings) as opened:
            known = [_to_json(each) for each in opened.state.directory.roles.values()]
            found = _find_role(known, role)
            await opened.people.members.remove_role(found["id"], COMMAND_LINE, utc_now())
            return found

    service = find_service(data, server, key, None, WRITE)
    if service is not None:
        removed = _find_role(service.request_list(ROLES), role)
        service.request_root("DELETE", f"{ROLES}{removed['id']}/")
    else:
        removed = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json(_select_fields(removed))
    else:
        print(f"Deleted the role {removed['name']!r}.")


def _find_role(roles: Sequence[Json], name: str) -> Json:
    for role in roles:
        if name in (role["id"], role["name"]):
            return role
    raise NotFound(f"No role has the id or name {name!r}: see `users roles list`.")


def _summarize(role: Json) -> str:
    scopes = [each for each in role["scopes"] if each.endswith(":write")]
    written = sorted(each.removesuffix(":write") for each in scopes)
    return "everything in the project" if role["id"] == "admin" else " ".join(written) or "nothing"


def _select_fields(role: Json) -> Json:
    return {name: role[name] for name in ("id", "name", "scopes", "is_built_in")}


def _to_json(role: Role) -> Json:
    return {
        "id": role.id,
        "name": role.name,
        "scopes": sorted(role.scopes),
        "is_built_in": role.id in BUILT_IN_ROLES,
    }
