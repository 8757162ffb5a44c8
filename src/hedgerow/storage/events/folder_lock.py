"""A lock on the folder of the event store: chDB itself does not exclude a second process."""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from hedgerow.errors import OperatorError

# The engine's own folder, next to the lock file.
CHDB_FOLDER = "chdb"


class FolderInUseError(OperatorError):
    """Another process holds the lock."""


@dataclass(frozen=True, slots=True)
class FolderLock:
    """Held until it is released or the process ends."""

    file: int

    def release(self) -> None:
        os.close(self.file)


def lock_folder(folder: Path) -> FolderLock:
    """Lock the folder, creating it if needed. Raises FolderInUseError if it is locked."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise OperatorError(
            f"The event store in {folder} cannot be opened: {error.strerror}."
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(lock, 32).decode(errors="replace").strip()
        os.close(lock)
        raise FolderInUseError(
            f"The event store in {folder} is in use by process {holder}. Only one process can open "
            "it: stop that process, or use another data directory."
        ) from None
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    return FolderLock(lock)
