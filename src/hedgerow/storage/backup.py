"""A copy of an embedded installation in a folder: its state, its sealing key and its events, and
last a note which says that all of it is there.
"""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hedgerow import __version__
from hedgerow.errors import Unready
from hedgerow.lib.clock import iso
from hedgerow.storage import sealing_file

NOTE = "backup.json"


@dataclass(frozen=True, slots=True)
class Backup:
    folder: Path

    @property
    def state(self) -> Path:
        return self.folder / "hedgerow.db"

    @property
    def sealing_key(self) -> Path:
        return self.folder / sealing_file.NAME

    @property
    def events(self) -> Path:
        return self.folder / "events"

    def begin(self) -> None:
        """Make the folder, for its owner alone. One that holds something is not touched."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(self.folder.iterdir()):
                raise Unready(f"{self.folder} is not empty: a backup needs a folder of its own.")
        except OSError as error:
            raise Unready(f"{self.folder} cannot be used: {error.strerror}.") from None

    def finish(self, now: datetime) -> None:
        note = {"hedgerow": __version__, "made_at": iso(now), "events": self.events.is_dir()}
        (self.folder / NOTE).write_text(json.dumps(note, indent=2) + "\n")

    def check(self) -> None:
        if not (self.folder / NOTE).is_file():
            raise Unready(f"There is no complete backup in {self.folder}: it lacks {NOTE}.")


def copy_state(source: Path, target: Path) -> None:
    """The database as it is at one moment, also while others write to it."""
    try:
        target.touch(mode=0o600)
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
        _sync(target)
    except (sqlite3.Error, OSError) as error:
        raise Unready(f"The database cannot be copied to {target}: {error}.") from error


def copy_key(source: Path, target: Path) -> None:
    """The file of sealing keys, if there is one: they may be given in the environment instead."""
    if not source.is_file():
        return
    try:
        target.touch(mode=0o600)
        shutil.copyfile(source, target)
        _sync(target)
    except OSError as error:
        raise Unready(f"The sealing key cannot be copied to {target}: {error}.") from None


def _sync(file: Path) -> None:
    with file.open("rb+") as written:
        os.fsync(written.fileno())
