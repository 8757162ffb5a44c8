"""`hedgerow login` and `logout`: choose the service that commands call."""

import sys
from typing import Annotated

import typer

from hedgerow.cli.options import JsonOption, KeyOption
from hedgerow.cli.output import print_json
from hedgerow.cli.service_client import (
    ServiceClient,
    ServiceForbidden,
    ServiceRejectedKey,
    load_service_settings,
    read_field,
)
from hedgerow.cli.stored_login import StoredLogin, delete_login, write_login
from hedgerow.errors import OperatorError


def log_in(
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of the service.")],
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store the address of a service and a personal API key, for later commands.

    Asks for the key, or reads it from standard input. The file is readable by you only. In CI, set
    HEDGEROW_SERVER_URL and HEDGEROW_PERSONAL_KEY instead.

    Example: hedgerow login https://flags.example.com
    """
    settings = load_service_settings(url, key)
    if not settings.personal_key:
        settings = load_service_settings(url, _ask_for_key())
    login = StoredLogin(url=settings.server_url, key=settings.personal_key)
    email = _find_email(login)
    path = write_login(login)
    if as_json:
        print_json({"url": login.url, "email": email, "file": str(path)})
    else:
        user = f" as {email}" if email else ""
        print(f"Commands now call {login.url}{user}. The key is in {path}.")


def _find_email(login: StoredLogin) -> str | None:
    """Return whose key it is, None if it may not know. Raises OperatorError for an unknown key."""
    try:
        user = ServiceClient(login.url, login.key).request_root("GET", "/api/users/@me/")
        return str(read_field(login.url, user, "email"))
    except ServiceRejectedKey:
        raise
    except ServiceForbidden:
        return None


def _ask_for_key() -> str:
    if sys.stdin.isatty():
        key = str(typer.prompt("Personal API key", hide_input=True))
    else:
        key = sys.stdin.readline()
    if not key.strip():
        raise OperatorError("There is no key. Enter a personal API key, which begins with phx_.")
    return key.strip()


def log_out(as_json: JsonOption = False) -> None:
    """Forget the service and the key of `hedgerow login`.

    The key stays valid: revoke it with `hedgerow keys revoke` on the server.
    """
    found = delete_login()
    if as_json:
        print_json({"url": found.url if found else None})
    else:
        print(f"Logged out of {found.url}." if found else "You were not logged in.")
