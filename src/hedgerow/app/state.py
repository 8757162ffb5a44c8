"""State that every process and command opens first: data directory, database, projects, people."""

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from hedgerow.errors import OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.lib.tokens import generate_token
from hedgerow.people.model import LINK_PREFIX
from hedgerow.projects.bootstrap import InitialKeys, generate_initial_keys
from hedgerow.projects.directory import Directory
from hedgerow.projects.keys import Keys
from hedgerow.projects.model import KEY_BITS
from hedgerow.projects.projects import Projects
from hedgerow.settings import Settings
from hedgerow.storage.connect import DatabaseLocation
from hedgerow.storage.engine.database import Database
from hedgerow.storage.projects.directory import SqlDirectoryStore
from hedgerow.storage.projects.keys import SqlKeyStore
from hedgerow.storage.projects.projects import SqlProjectStore

WRONG_ENCRYPTION_KEY = (
    "the encryption key does not match the stored secrets: restore encryption.key (formerly "
    "sealing.key) or HEDGEROW_ENCRYPTION_KEYS. Until then, these secrets cannot be used"
)


def state_location(settings: Settings) -> DatabaseLocation:
    return DatabaseLocation(
        url=settings.database_url,
        path=settings.sqlite_path,
        timeout_s=settings.database_timeout_s,
        pool_size=settings.database_pool_size,
    )


def events_folder(settings: Settings) -> Path:
    """Return the folder of an embedded event store."""
    return settings.data_dir.resolve() / "events"


def ensure_data_dir(folder: Path) -> None:
    """Create the data directory, readable by its owner only, or raise OperatorError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK | os.X_OK)
        reason = "it is read-only"
        if usable:
            probe = folder / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
    except OSError as error:
        usable, reason = False, error.strerror or str(error)
    if not usable:
        raise OperatorError(
            f"The data directory {folder} is not writable: {reason}. "
            "Choose another one with --data or HEDGEROW_DATA_DIR."
        )


def choose_initial_keys(settings: Settings) -> InitialKeys:
    """Return the keys of a new installation. Raises OperatorError if the settings name an owner by
    half."""
    email, password = settings.bootstrap_owner_email, settings.bootstrap_owner_password
    if password and not email:
        raise OperatorError(
            "HEDGEROW_BOOTSTRAP_OWNER_PASSWORD needs HEDGEROW_BOOTSTRAP_OWNER_EMAIL too."
        )
    keys = generate_initial_keys(settings.bootstrap_project_key, settings.bootstrap_personal_key)
    token = "" if password else generate_token(LINK_PREFIX, KEY_BITS)
    return replace(keys, setup_token=token, owner_email=email, owner_password=password)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The services that commands and the server share, on an open database."""

    database: Database
    directory: Directory
    keys: Keys
    projects: Projects
    project_store: SqlProjectStore


def build_state(database: Database) -> State:
    directory = Directory(SqlDirectoryStore(database), utc_now, time.monotonic)
    project_records = SqlProjectStore(database)
    return State(
        database=database,
        directory=directory,
        keys=Keys(SqlKeyStore(database), directory),
        projects=Projects(project_records, directory),
        project_store=project_records,
    )
