"""`hedgerow users login-link`, `hedgerow users disconnect` and `hedgerow mail test`: what an
operator needs if people cannot log in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption
from hedgerow.cli.output import print_json
from hedgerow.cli.people.users import (
    EmailArgument,
    find_user,
    get_address,
    print_link,
    run_with_people,
)
from hedgerow.errors import OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.people.mail.outbox import MailError
from hedgerow.people.model import build_url, parse_email

if TYPE_CHECKING:
    from hedgerow.app.commands.people import OpenPeople


def print_login_link(
    email: EmailArgument, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Print a link that logs a person in, without a password or the provider.

    The link works once, for 15 minutes. It is for an emergency: the provider is down, or the only
    owner has lost the authenticator. Earlier links of the person stop working.

    Example: hedgerow users login-link olga@example.com
    """
    address = get_address(data)

    async def run(opened: OpenPeople) -> str:
        user = find_user(opened, email)
        token = await opened.people.logins.issue_link(user, "login", utc_now())
        return build_url(address, "login", token)

    link = run_with_people(data, run)
    if as_json:
        print_json({"email": email.strip().lower(), "link": link})
    else:
        print_link(link, "15 minutes")


def disconnect_user(
    email: EmailArgument, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Forget who a person is at the OpenID Connect provider.

    For a person who has a new account at the provider. The next login with the same verified email
    connects the new one.
    """

    async def run(opened: OpenPeople) -> bool:
        return await opened.people.identities.remove(find_user(opened, email), utc_now())

    is_removed = run_with_people(data, run)
    if as_json:
        print_json({"email": email.strip().lower(), "disconnected": is_removed})
    elif is_removed:
        print(f"Disconnected {email.strip().lower()} from the provider.")
    else:
        print(f"{email.strip().lower()} was not connected.")


def send_test_mail(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Address to send it to.")],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a test message, and tell whether it worked.

    The message is sent at once, with the mail settings of this shell. If the mail server does not
    accept it, the command fails with the reason.

    Example: hedgerow mail test olga@example.com
    """
    settings, recipient = load_installation_settings(data), parse_email(address)
    try:
        asyncio.run(commands.mail.send_test_mail(settings, recipient))
    except MailError as error:
        raise OperatorError(f"The mail was not sent. {error}") from None
    place = f"{settings.smtp_host}:{settings.smtp_port}"
    if as_json:
        print_json({"address": recipient, "server": place, "sent": True})
    else:
        print(f"{place} has accepted a message to {recipient}. Look for it there.")
