"""The services for people, which the service and commands share."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hedgerow.app.commands.state import open_state
from hedgerow.app.state import State
from hedgerow.lib.encryption import Cipher
from hedgerow.lib.threads import run_in_thread
from hedgerow.people.logins import Logins
from hedgerow.people.members import Members
from hedgerow.people.passwords import PasswordHasher
from hedgerow.projects.directory import Directory
from hedgerow.settings import Settings
from hedgerow.storage.backup.encryption_key_file import load_encryption_keys
from hedgerow.storage.engine.database import Database
from hedgerow.storage.people.logins import SqlLoginStore
from hedgerow.storage.people.members import SqlMemberStore


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The services for people."""

    logins: Logins
    members: Members
    login_store: SqlLoginStore


def build_people(
    database: Database, directory: Directory, load_cipher: Callable[[], Cipher]
) -> People:
    hasher = PasswordHasher(run_in_thread)
    login_store = SqlLoginStore(database)
    return People(
        logins=Logins(login_store, directory, hasher, load_cipher),
        members=Members(SqlMemberStore(database), directory, hasher),
        login_store=login_store,
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
            state.database,
            state.directory,
            lambda: load_encryption_keys(settings.encryption_keys, settings.data_dir),
        )
        yield OpenPeople(state=state, people=people)
