"""What every verb and the service open first: the data folder, the database, projects and keys."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from hedgerow.errors import Unready
from hedgerow.lib.clock import utc_now
from hedgerow.projects.bootstrap import FirstKeys, first_keys
from hedgerow.projects.directory import Directory
from hedgerow.projects.keys import Keys
from hedgerow.projects.projects import Projects
from hedgerow.settings import Settings
from hedgerow.storage.connect import Place, open_database
from hedgerow.storage.database import Database
from hedgerow.storage.directory import DirectoryRecords
from hedgerow.storage.keys import KeyRecords
from hedgerow.storage.projects import ProjectRecords


def place_of(settings: Settings) -> Place:
    return Place(
        url=settings.database_url,
        path=settings.sqlite_path,
        timeout_s=settings.database_timeout_s,
        pool_size=settings.database_pool_size,
    )


def ensure_data_folder(folder: Path) -> None:
    """Make the data folder for its owner alone, or say why it cannot be used."""
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
        raise Unready(
            f"The data folder {folder} cannot be written: {reason}. "
            "Choose another with --data or HEDGEROW_DATA."
        )


def wished_keys(settings: Settings) -> FirstKeys:
    return first_keys(settings.bootstrap_project_key, settings.bootstrap_personal_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The rooms that the CLI and the service share, on an open database."""

    database: Database
    directory: Directory
    keys: Keys
    projects: Projects
    project_records: ProjectRecords


def join_state(database: Database) -> State:
    directory = Directory(DirectoryRecords(database), utc_now, time.monotonic)
    project_records = ProjectRecords(database)
    return State(
        database=database,
        directory=directory,
        keys=Keys(KeyRecords(database), directory),
        projects=Projects(project_records, directory),
        project_records=project_records,
    )


@asynccontextmanager
async def opened_state(settings: Settings) -> AsyncIterator[State]:
    """For verbs that work on a prepared database and go away again."""
    database = open_database(place_of(settings))
    try:
        state = join_state(database)
        await state.directory.refresh()
        if not state.directory.all_projects():
            raise Unready("The database is empty: run `hedgerow init` first.")
        yield state
    finally:
        await database.close()
