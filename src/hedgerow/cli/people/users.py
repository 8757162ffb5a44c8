"""`hedgerow users`: manage people, on a service or on the machine that has the data.

What gives access without a password works on the machine only: no key can let a person in.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, KeyOption, ServerOption, YesOption
from hedgerow.cli.output import confirm, print_json, print_table
from hedgerow.cli.people.roles import READ, ROLES, WRITE
from hedgerow.cli.service_client import (
    ServiceClient,
    find_service,
    get_public_address,
)
from hedgerow.errors import NotFound, OperatorError
from hedgerow.lib.clock import format_iso, utc_now
from hedgerow.people.members import MemberFields
from hedgerow.people.model import build_url
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.model import OrganizationRole, ProjectId, User

if TYPE_CHECKING:
    from pathlib import Path

    from hedgerow.app.commands.people import OpenPeople

T = TypeVar("T")
Json = dict[str, Any]
RoleNames = Mapping[str, str]

ORGANIZATION = "/api/organizations/@current/"
MEMBERS, INVITES = f"{ORGANIZATION}members/", f"{ORGANIZATION}invites/"
OWNER_LEVEL, MEMBER_LEVEL = 15, 1
SESSION_FIELDS = ("id", "created_at", "last_used_at", "expires_at", "address", "user_agent")

EmailArgument = Annotated[str, typer.Argument(metavar="EMAIL", help="Email of the person.")]
OwnerOption = Annotated[
    bool, typer.Option("--owner", help="An owner of the organization: may do everything.")
]
RoleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="PROJECT=ROLE",
        help="A role in a project, such as 1=viewer. Repeatable. See `users roles list`.",
    ),
]
PasswordOption = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the standard input.")
]


def list_users(
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List people with their roles."""

    async def run(opened: OpenPeople) -> tuple[list[Json], RoleNames]:
        directory = opened.state.directory
        return [_to_json(user) for user in directory.list_users()], _name_roles(opened)

    service = find_service(data, server, key, None, READ)
    if service is not None:
        users, names = _list_members(service), _fetch_role_names(service)
    else:
        users, names = run_with_people(data, run)
    if as_json:
        print_json(users)
        return
    print_table(
        ("email", "name", "organization", "projects", "2FA", "last login"),
        [
            (
                user["email"],
                user["first_name"],
                user["organization_role"],
                _format_roles(user, names),
                "yes" if user["is_2fa_enabled"] else "no",
                (user["last_login"] or "never")[:16].replace("T", " "),
            )
            for user in users
        ],
    )


def add_user(  # noqa: PLR0913 - the options of the command
    email: EmailArgument,
    name: Annotated[str, typer.Option(help="First name.")],
    owner: OwnerOption = False,
    role: RoleOption = None,
    password_stdin: PasswordOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a person, without an invite.

    Without --password-stdin it prints a link with which the person chooses a password.

    Example: hedgerow users add ann@example.com --name Ann --role 1=editor
    """
    password = _read_password() if password_stdin else None
    address = get_address(data)

    async def run(opened: OpenPeople) -> tuple[User, str | None]:
        user = await opened.people.members.add(
            email,
            name,
            _choose_organization_role(owner),
            _parse_roles(role),
            password=password,
            actor=COMMAND_LINE,
            now=utc_now(),
        )
        if password is not None:
            return user, None
        token = await opened.people.logins.issue_link(user, "reset", utc_now())
        return user, build_url(address, "reset", token)

    user, link = run_with_people(data, run)
    if as_json:
        print_json({**_to_json(user), "link": link})
        return
    print(f"Added {user.email}.")
    print_link(link, "24 hours")


def invite_user(  # noqa: PLR0913 - the options of the command
    email: EmailArgument,
    owner: OwnerOption = False,
    role: RoleOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a link with which a person joins.

    The link works once, for 7 days. It fixes the roles.

    Example: hedgerow users invite ann@example.com --role 1=viewer
    """
    service = find_service(data, server, key, None, WRITE)
    if service is not None:
        invite = {
            "target_email": email,
            "level": _choose_level(owner),
            "project_roles": {str(id): each for id, each in _parse_roles(role).items()},
        }
        _print_invite(service.request_root("POST", INVITES, invite), as_json)
        return
    address = get_address(data)

    async def run(opened: OpenPeople) -> Json:
        issued = await opened.people.members.invite(
            email,
            "",
            _choose_organization_role(owner),
            _parse_roles(role),
            COMMAND_LINE,
            utc_now(),
        )
        return {
            "target_email": issued.invite.email,
            "link": build_url(address, "invite", issued.value),
            "expires_at": format_iso(issued.invite.expires_at),
        }

    _print_invite(run_with_people(data, run), as_json)


def _print_invite(invite: Json, as_json: bool) -> None:
    link = invite["link"]
    if as_json:
        expires_at = invite["expires_at"]
        print_json({"email": invite["target_email"], "link": link, "expires_at": expires_at})
    else:
        print_link(link, "7 days")


def change_role(  # noqa: PLR0913 - the options of the command
    email: EmailArgument,
    owner: OwnerOption = False,
    member: Annotated[
        bool, typer.Option("--member", help="A member: may do what its roles allow.")
    ] = False,
    role: RoleOption = None,
    no_role: Annotated[
        list[int] | None,
        typer.Option(
            "--no-role", metavar="PROJECT", help="Take away the role in a project. Repeatable."
        ),
    ] = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change the roles of a person.

    The change counts at once, for the sessions and the keys of the person. Roles in projects that
    you do not name stay.

    Example: hedgerow users role ann@example.com --role 1=admin --no-role 2
    """
    if owner and member:
        raise OperatorError("Choose --owner or --member, not both.")

    def combine(present: Mapping[str, str]) -> dict[ProjectId, str]:
        given = {ProjectId(int(id)): each for id, each in present.items()} | _parse_roles(role)
        return {id: each for id, each in given.items() if id not in (no_role or ())}

    async def run(opened: OpenPeople) -> tuple[Json, RoleNames]:
        user = find_user(opened, email)
        roles = combine({str(id): each.id for id, each in user.project_roles.items()})
        fields = MemberFields(
            organization_role=_choose_organization_role(owner) if owner or member else None,
            project_roles=roles,
        )
        changed = await opened.people.members.change(user, fields, COMMAND_LINE, utc_now())
        return _to_json(changed), _name_roles(opened)

    service = find_service(data, server, key, None, WRITE)
    if service is not None:
        found = _find_member(service, email)
        body: Json = {"project_roles": combine(found["project_roles"])}
        body |= {"level": _choose_level(owner)} if owner or member else {}
        answer = service.request_root("PATCH", f"{MEMBERS}{found['uuid']}/", body)
        user, names = _from_member(answer), _fetch_role_names(service)
    else:
        user, names = run_with_people(data, run)
    if as_json:
        print_json(user)
    else:
        print(f"{user['email']}: {user['organization_role']}, {_format_roles(user, names)}.")


def remove_user(
    email: EmailArgument,
    yes: YesOption = False,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a person with its keys and sessions.

    The last owner cannot be removed.
    """
    if as_json and not yes:
        raise OperatorError("Nothing was changed: --json does not ask. Confirm with --yes.")

    def approve(user: Json, owners: Iterable[int]) -> int:
        keys = list(owners).count(user["id"])
        if not yes:
            confirm(f"Remove {user['email']} and revoke {keys} personal key(s)?")
        return keys

    async def run(opened: OpenPeople) -> tuple[Json, int]:
        user = find_user(opened, email)
        found = opened.state.directory.list_keys()
        keys = approve(_to_json(user), [each.user_id for each in found])
        await opened.people.members.remove(user, COMMAND_LINE, utc_now())
        return _to_json(user), keys

    service = find_service(data, server, key, None, WRITE)
    if service is not None:
        user = _find_member(service, email)
        found = service.request_list("/api/personal_api_keys/")
        keys = approve(user, [each["user_id"] for each in found])
        service.request_root("DELETE", f"{MEMBERS}{user['uuid']}/")
    else:
        user, keys = run_with_people(data, run)
    if as_json:
        print_json({"email": user["email"], "removed": True, "revoked_keys": keys})
    else:
        print(f"Removed {user['email']} and revoked {keys} personal key(s).")


def reset_password(
    email: EmailArgument,
    password_stdin: PasswordOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a link with which a person chooses a new password.

    The old password works until then. With --password-stdin the command sets the password itself,
    and ends all sessions of the person.
    """
    password = _read_password() if password_stdin else None
    address = get_address(data)

    async def run(opened: OpenPeople) -> tuple[User, str | None]:
        user, logins = find_user(opened, email), opened.people.logins
        if password is not None:
            await logins.set_password(user, password, COMMAND_LINE, utc_now())
            return user, None
        return user, build_url(address, "reset", await logins.issue_link(user, "reset", utc_now()))

    user, link = run_with_people(data, run)
    if as_json:
        print_json({"email": user.email, "link": link})
    elif link is None:
        print(f"Set the password of {user.email} and ended its sessions.")
    else:
        print_link(link, "24 hours")


def manage_sessions(
    email: EmailArgument,
    end: Annotated[bool, typer.Option("--end", help="End all sessions of the person.")] = False,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List or end the sessions of a person.

    Ended sessions are refused everywhere within a second.
    """

    async def run(opened: OpenPeople) -> list[Json]:
        user, directory = find_user(opened, email), opened.state.directory
        sessions = directory.list_sessions(user.id)
        if end:
            await opened.people.logins.end_sessions(user, sessions, COMMAND_LINE, utc_now())
        return [
            {
                "id": each.id,
                "created_at": format_iso(each.created_at),
                "last_used_at": format_iso(directory.get_session_use(each)),
                "expires_at": format_iso(each.expires_at),
                "address": each.address,
                "user_agent": each.user_agent,
            }
            for each in sessions
        ]

    service = find_service(data, server, key, None, WRITE if end else READ)
    if service is not None:
        path = f"{MEMBERS}{_find_member(service, email)['uuid']}/sessions/"
        sessions = [
            {name: each[name] for name in SESSION_FIELDS} for each in service.request_list(path)
        ]
        if end:
            service.request_root("DELETE", path)
    else:
        sessions = run_with_people(data, run)
    if as_json:
        print_json(sessions)
        return
    if end:
        print(f"Ended {len(sessions)} session(s).")
        return
    columns = ("id", "created_at", "last_used_at", "address", "user_agent")
    rows = [tuple(str(each[name]) for name in columns) for each in sessions]
    print_table(("id", "since", "last used", "address", "browser"), rows, empty="No sessions.")


def disable_totp(
    email: EmailArgument, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Disable two-factor authentication of a person.

    For a person who has lost the authenticator and the recovery codes.
    """

    async def run(opened: OpenPeople) -> User:
        user = find_user(opened, email)
        await opened.people.logins.disable_totp(user, COMMAND_LINE, utc_now())
        return user

    user = run_with_people(data, run)
    if as_json:
        print_json({"email": user.email, "is_2fa_enabled": False})
    else:
        print(f"Disabled two-factor authentication of {user.email}.")


def print_setup_link(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Print a new setup link, with which the owner chooses an email and a password.

    The link works once, for 24 hours. An earlier one stops working.
    """
    address = get_address(data)

    async def run(opened: OpenPeople) -> str:
        owner = opened.state.directory.get_owner()
        if owner.has_password:
            raise OperatorError(
                f"The owner {owner.email} has a password. For a new one, run "
                f"`hedgerow users reset-password {owner.email}`."
            )
        token = await opened.people.logins.issue_link(owner, "setup", utc_now())
        return build_url(address, "setup", token)

    link = run_with_people(data, run)
    if as_json:
        print_json({"link": link})
    else:
        print_link(link, "24 hours")


def run_with_people(data: Path | None, work: Callable[[OpenPeople], Awaitable[T]]) -> T:
    settings = load_installation_settings(data)

    async def run() -> T:
        async with commands.people.open_people(settings) as opened:
            return await work(opened)

    return asyncio.run(run())


def get_address(data: Path | None) -> str:
    return get_public_address(load_installation_settings(data))


def find_user(opened: OpenPeople, email: str) -> User:
    user = opened.state.directory.find_user(email=email.strip().lower())
    if user is None:
        raise NotFound(f"No person has the email {email!r}: see `hedgerow users list`.")
    return user


def _list_members(service: ServiceClient) -> list[Json]:
    return [_from_member(each) for each in service.list_root(MEMBERS)]


def _find_member(service: ServiceClient, email: str) -> Json:
    for each in _list_members(service):
        if each["email"] == email.strip().lower():
            return each
    raise NotFound(f"No person has the email {email!r}: see `hedgerow users list`.")


def _from_member(member: Json) -> Json:
    """Return a member of the API as `_to_json` describes a person."""
    user = member["user"]
    return {
        **{name: user[name] for name in ("id", "uuid", "email", "first_name")},
        "organization_role": "owner" if member["level"] == OWNER_LEVEL else "member",
        **{name: member[name] for name in ("project_roles", "has_password", "is_2fa_enabled")},
        "created_at": member["joined_at"],
        "last_login": member["last_login"],
    }


def _fetch_role_names(service: ServiceClient) -> RoleNames:
    return {each["id"]: each["name"] for each in service.request_list(ROLES)}


def _name_roles(opened: OpenPeople) -> RoleNames:
    return {id: role.name for id, role in opened.state.directory.roles.items()}


def _choose_level(owner: bool) -> int:
    return OWNER_LEVEL if owner else MEMBER_LEVEL


def _choose_organization_role(owner: bool) -> OrganizationRole:
    return "owner" if owner else "member"


def _parse_roles(given: list[str] | None) -> dict[ProjectId, str]:
    roles: dict[ProjectId, str] = {}
    for each in given or ():
        project, _, role = each.partition("=")
        if not (project.isascii() and project.isdecimal() and len(project) < 19 and role):
            raise OperatorError(f"--role {each!r} is not valid. Expected PROJECT=ROLE: 1=viewer.")
        roles[ProjectId(int(project))] = role
    return roles


def _read_password() -> str:
    return sys.stdin.readline().rstrip("\r\n")


def _format_roles(user: Json, names: RoleNames) -> str:
    if user["organization_role"] == "owner":
        return "everything"
    roles = sorted(user["project_roles"].items(), key=lambda each: int(each[0]))
    return " ".join(f"{id}={names.get(role, role)}" for id, role in roles) or "no project"


def print_link(link: str | None, time: str) -> None:
    if link is not None:
        print(f"\n  {link}\n\nIt works once, for {time}. Send it to that person only.")


def _to_json(user: User) -> Json:
    return {
        "id": user.id,
        "uuid": user.uuid,
        "email": user.email,
        "first_name": user.first_name,
        "organization_role": user.organization_role,
        "project_roles": {str(id): role.id for id, role in user.project_roles.items()},
        "has_password": user.has_password,
        "is_2fa_enabled": user.has_totp,
        "created_at": format_iso(user.created_at),
        "last_login": format_iso(user.last_login_at) if user.last_login_at else None,
    }
