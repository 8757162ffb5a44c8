"""A backup folder: state, encryption key and the events of an embedded event store.

The manifest is written last: a backup without it is incomplete.
"""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from hedgerow import __version__
from hedgerow.errors import OperatorError
from hedgerow.lib.clock import format_iso
from hedgerow.storage.backup import encryption_key_file
from hedgerow.storage.backup.postgres_copy import StateCopy

MANIFEST = "backup.json"


@dataclass(frozen=True, slots=True)
class Backup:
    folder: Path

    @property
    def state(self) -> Path:
        return self.folder / "hedgerow.db"

    @property
    def tables(self) -> Path:
        """The folder of the state, if it comes from PostgreSQL."""
        return self.folder / "postgresql"

    @property
    def encryption_key(self) -> Path:
        return encryption_key_file.find_key_file(self.folder)

    @property
    def events(self) -> Path:
        return self.folder / "events"

    def create_folder(self) -> None:
        """Create the folder, readable only by its owner. Raises if it is not empty."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(self.folder.iterdir()):
                raise OperatorError(f"{self.folder} is not empty: a backup needs an empty folder.")
        except OSError as error:
            raise OperatorError(f"Cannot use {self.folder}: {error.strerror}.") from None

    def write_manifest(self, now: datetime, tables: StateCopy | None) -> None:
        note = {
            "hedgerow": __version__,
            "made_at": format_iso(now),
            "events": self.events.is_dir(),
            "postgresql": tables and asdict(tables),
        }
        (self.folder / MANIFEST).write_text(json.dumps(note, indent=2) + "\n")

    def read_manifest(self) -> StateCopy | None:
        """Return what the copy of PostgreSQL contains; None for SQLite. Raises OperatorError for an
        incomplete backup."""
        try:
            tables = json.loads((self.folder / MANIFEST).read_text()).get("postgresql")
            return StateCopy(**tables) if tables else None
        except FileNotFoundError:
            raise OperatorError(
                f"{self.folder} is not a complete backup: it lacks {MANIFEST}."
            ) from None
        except (ValueError, TypeError, AttributeError):
            raise OperatorError(
                f"{self.folder / MANIFEST} is damaged, or of another version of Hedgerow."
            ) from None


def copy_state(source: Path, target: Path) -> None:
    """Copy a snapshot of the database, also while other processes write to it."""
    try:
        target.touch(mode=0o600)
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
        _sync(target)
    except (sqlite3.Error, OSError) as error:
        raise OperatorError(f"Cannot copy the database to {target}: {error}.") from error


def copy_key(source: Path, target: Path) -> None:
    """Copy the key file, if there is one: keys may be set in the environment instead."""
    if not source.is_file():
        return
    try:
        target.touch(mode=0o600)
        shutil.copyfile(source, target)
        _sync(target)
    except OSError as error:
        raise OperatorError(f"Cannot copy the encryption key to {target}: {error}.") from None


def _sync(file: Path) -> None:
    with file.open("rb+") as written:
        os.fsync(written.fileno())
