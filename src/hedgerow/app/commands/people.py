"""The services for people, which the service and commands share."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hedgerow.app.commands.mail import build_outbox, check_mail_settings
from hedgerow.app.commands.state import open_state
from hedgerow.app.state import State
from hedgerow.errors import OperatorError
from hedgerow.lib.encryption import Cipher
from hedgerow.lib.threads import run_in_thread
from hedgerow.people.logins import Logins
from hedgerow.people.mail.outbox import Outbox
from hedgerow.people.members import Members
from hedgerow.people.passwords import PasswordHasher
from hedgerow.projects.directory import Directory
from hedgerow.settings import Settings
from hedgerow.storage.backup.encryption_key_file import load_encryption_keys
from hedgerow.storage.engine.database import Database
from hedgerow.storage.people.identities import SqlIdentityStore
from hedgerow.storage.people.logins import SqlLoginStore
from hedgerow.storage.people.members import SqlMemberStore


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The services for people."""

    logins: Logins
    members: Members
    login_store: SqlLoginStore
    outbox: Outbox
    identities: SqlIdentityStore

    async def send_mail(self, directory: Directory) -> None:
        await self.outbox.send_due(self.logins, directory)


def build_people(
    settings: Settings, database: Database, directory: Directory, load_cipher: Callable[[], Cipher]
) -> People:
    hasher = PasswordHasher(run_in_thread)
    login_store = SqlLoginStore(database)
    return People(
        logins=Logins(login_store, directory, hasher, load_cipher),
        members=Members(SqlMemberStore(database), directory, hasher),
        login_store=login_store,
        outbox=build_outbox(settings, database, load_cipher),
        identities=SqlIdentityStore(database),
    )


def check_login_settings(settings: Settings) -> None:
    """Raise OperatorError if no one could log in with these settings, or too many could."""
    if settings.smtp_host:
        check_mail_settings(settings)
    if not settings.oidc_issuer:
        if not settings.password_login:
            raise OperatorError(
                "No one could log in: HEDGEROW_PASSWORD_LOGIN is false, and HEDGEROW_OIDC_ISSUER "
                "is not set. Set one of them."
            )
        return
    for name in ("oidc_client_id", "public_url"):
        if not getattr(settings, name):
            raise OperatorError(f"HEDGEROW_OIDC_ISSUER needs HEDGEROW_{name.upper()}. Set it.")
    if "openid" not in settings.oidc_scopes.split():
        raise OperatorError("HEDGEROW_OIDC_SCOPES must contain openid.")
    if settings.oidc_new_members and not settings.oidc_domains:
        raise OperatorError(
            "Everyone whom the provider knows could join. Set HEDGEROW_OIDC_DOMAINS, or no "
            "HEDGEROW_OIDC_NEW_MEMBERS."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPeople:
    """People on an open database."""

    state: State
    people: People


@asynccontextmanager
async def open_people(settings: Settings) -> AsyncIterator[OpenPeople]:
    """Open the database of an existing installation and close it after the block."""
    async with open_state(settings) as state:
        people = build_people(
            settings,
            state.database,
            state.directory,
            lambda: load_encryption_keys(settings.encryption_keys, settings.data_dir),
        )
        yield OpenPeople(state=state, people=people)
