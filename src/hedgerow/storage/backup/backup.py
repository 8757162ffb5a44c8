"""A backup folder: state, encryption key and the events of an embedded event store.

The manifest is written last: a backup without it is incomplete.
"""

import hashlib
import json
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hedgerow import __version__
from hedgerow.errors import OperatorError
from hedgerow.lib.clock import format_iso
from hedgerow.storage.backup import encryption_key_file
from hedgerow.storage.backup.postgres_copy import StateCopy
from hedgerow.storage.backup.verified_copy import copy_file

MANIFEST = "backup.json"
# The folder of a backup that is being made, or was not finished.
UNFINISHED = "unfinished-backup"


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

    def begin(self) -> "Backup":
        """Create the folder, readable only by its owner, and return the backup to make: it is in a
        folder of this one, so that it is not taken for a complete backup. What an earlier attempt
        has left is removed. Raises if something else is there."""
        unfinished = Backup(self.folder / UNFINISHED)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if unfinished.folder.exists() and not (self.folder / MANIFEST).exists():
                self._remove_copies()
            if any(self.folder.iterdir()):
                raise OperatorError(f"{self.folder} is not empty: a backup needs an empty folder.")
            unfinished.folder.mkdir(mode=0o700)
        except OSError as error:
            raise OperatorError(f"Cannot use {self.folder}: {error.strerror}.") from None
        return unfinished

    def _remove_copies(self) -> None:
        """Remove what an earlier attempt has left, also if it failed while it was moved."""
        for folder in (self.tables, self.events, self.folder / UNFINISHED):
            if folder.exists():
                shutil.rmtree(folder)
        for file in (self.state, self.encryption_key):
            file.unlink(missing_ok=True)

    def finish(self, unfinished: "Backup") -> None:
        """Move everything to its place, the manifest last. Raises OSError."""
        entries = [entry for entry in unfinished.folder.iterdir() if entry.name != MANIFEST]
        for entry in (*entries, unfinished.folder / MANIFEST):
            entry.rename(self.folder / entry.name)
        with suppress(OSError):  # the backup is complete
            unfinished.folder.rmdir()

    def write_manifest(self, now: datetime, tables: StateCopy | None) -> None:
        """Raises OSError."""
        content = {
            "hedgerow": __version__,
            "made_at": format_iso(now),
            "events": self.events.is_dir(),
            "postgresql": tables and asdict(tables),
            "files": self._hash_files(),
        }
        content["checksum"] = _hash_content(content)
        manifest = self.folder / MANIFEST
        manifest.write_text(json.dumps(content, indent=2) + "\n")
        for file in _list_files(self.folder):
            _sync(file)

    def read_manifest(self) -> StateCopy | None:
        """Compare all files with their checksums and return what the copy of PostgreSQL contains;
        None for SQLite. Raises OperatorError for an incomplete or damaged backup."""
        try:
            content = json.loads((self.folder / MANIFEST).read_text())
            # Backups of versions before the first release have no checksums.
            if content.get("files"):
                self._check_files(content)
            tables = content.get("postgresql")
            return StateCopy(**tables) if tables else None
        except FileNotFoundError:
            is_unfinished = (self.folder / UNFINISHED).is_dir()
            reason = "it was not finished" if is_unfinished else f"it lacks {MANIFEST}"
            raise OperatorError(f"{self.folder} is not a complete backup: {reason}.") from None
        except (ValueError, TypeError, AttributeError):
            raise OperatorError(
                f"{self.folder / MANIFEST} is damaged, or of another version of Hedgerow."
            ) from None

    def _hash_files(self) -> dict[str, str]:
        return {
            str(file.relative_to(self.folder)): _hash_file(file)
            for file in _list_files(self.folder)
            if file != self.folder / MANIFEST
        }

    def _check_files(self, content: dict[str, Any]) -> None:
        if content.pop("checksum", None) != _hash_content(content):
            raise ValueError
        expected: dict[str, str] = content["files"]
        actual = self._hash_files()
        for name, checksum in expected.items():
            if name not in actual:
                raise OperatorError(f"{self.folder} is not a complete backup: it lacks {name}.")
            if actual[name] != checksum:
                raise OperatorError(
                    f"{self.folder / name} is damaged: its checksum is not the one in {MANIFEST}. "
                    "Use another backup."
                )


def _list_files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if file.is_file()]


def _hash_file(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _hash_content(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def copy_state(source: Path, target: Path) -> None:
    """Copy a snapshot of the database, also while other processes write to it. Raises OperatorError
    if the copy is damaged, because the source was."""
    try:
        target.touch(mode=0o600)
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
            (finding,) = new.execute("PRAGMA integrity_check(1)").fetchone()
        _sync(target)
        if finding != "ok":
            raise OperatorError(f"The database {source} is damaged: {finding}. Use another copy.")
    except (sqlite3.Error, OSError) as error:
        raise OperatorError(f"Cannot copy the database to {target}: {error}.") from error


def copy_key(source: Path, target: Path) -> None:
    """Copy the key file, if there is one: keys may be set in the environment instead."""
    if not source.is_file():
        return
    try:
        copy_file(source, target)
    except OSError as error:
        raise OperatorError(f"Cannot copy the encryption key to {target}: {error}.") from None


def _sync(file: Path) -> None:
    with file.open("rb+") as written:
        os.fsync(written.fileno())
