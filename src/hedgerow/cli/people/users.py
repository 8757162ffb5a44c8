"""`hedgerow users`: manage people on the machine that has the data."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, YesOption
from hedgerow.cli.output import confirm, print_json, print_table
from hedgerow.cli.service_client import get_public_address
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


def list_users(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List people with their roles."""

    async def run(opened: OpenPeople) -> list[User]:
        return opened.state.directory.list_users()

    users = run_with_people(data, run)
    if as_json:
        print_json([_to_json(user) for user in users])
        return
    print_table(
        ("email", "name", "organization", "projects", "2FA", "last login"),
        [
            (
                user.email,
                user.first_name,
                user.organization_role,
                _format_roles(user),
                "yes" if user.has_totp else "no",
                f"{user.last_login_at:%Y-%m-%d %H:%M}" if user.last_login_at else "never",
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


def invite_user(
    email: EmailArgument,
    owner: OwnerOption = False,
    role: RoleOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a link with which a person joins.

    The link works once, for 7 days. It fixes the roles.

    Example: hedgerow users invite ann@example.com --role 1=viewer
    """
    address = get_address(data)

    async def run(opened: OpenPeople) -> tuple[str, str]:
        issued = await opened.people.members.invite(
            email,
            "",
            _choose_organization_role(owner),
            _parse_roles(role),
            COMMAND_LINE,
            utc_now(),
        )
        link = build_url(address, "invite", issued.value)
        return link, format_iso(issued.invite.expires_at)

    link, expires_at = run_with_people(data, run)
    if as_json:
        print_json({"email": email.strip().lower(), "link": link, "expires_at": expires_at})
        return
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

    async def run(opened: OpenPeople) -> User:
        user = find_user(opened, email)
        roles = {id: each.id for id, each in user.project_roles.items()} | _parse_roles(role)
        for id in no_role or ():
            roles.pop(ProjectId(id), None)
        fields = MemberFields(
            organization_role=_choose_organization_role(owner) if owner or member else None,
            project_roles=roles,
        )
        return await opened.people.members.change(user, fields, COMMAND_LINE, utc_now())

    user = run_with_people(data, run)
    if as_json:
        print_json(_to_json(user))
    else:
        print(f"{user.email}: {user.organization_role}, {_format_roles(user)}.")


def remove_user(
    email: EmailArgument,
    yes: YesOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a person with its keys and sessions.

    The last owner cannot be removed.
    """
    if as_json and not yes:
        raise OperatorError("Nothing was changed: --json does not ask. Confirm with --yes.")

    async def run(opened: OpenPeople) -> tuple[User, int]:
        user = find_user(opened, email)
        keys = sum(key.user_id == user.id for key in opened.state.directory.list_keys())
        if not yes:
            confirm(f"Remove {user.email} and revoke {keys} personal key(s)?")
        await opened.people.members.remove(user, COMMAND_LINE, utc_now())
        return user, keys

    user, keys = run_with_people(data, run)
    if as_json:
        print_json({"email": user.email, "removed": True, "revoked_keys": keys})
    else:
        print(f"Removed {user.email} and revoked {keys} personal key(s).")


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
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List or end the sessions of a person.

    Ended sessions are refused everywhere within a second.
    """

    async def run(opened: OpenPeople) -> list[dict[str, Any]]:
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


def _format_roles(user: User) -> str:
    if user.is_owner:
        return "everything"
    roles = (f"{id}={role.name}" for id, role in sorted(user.project_roles.items()))
    return " ".join(roles) or "no project"


def print_link(link: str | None, time: str) -> None:
    if link is not None:
        print(f"\n  {link}\n\nIt works once, for {time}. Send it to that person only.")


def _to_json(user: User) -> dict[str, Any]:
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
