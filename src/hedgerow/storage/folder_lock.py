"""The lock on the folder of the event store: chDB itself does not keep a second process out."""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from hedgerow.errors import Unready

# What the engine keeps, beside the lock.
CHDB_FOLDER = "chdb"


class FolderInUse(Unready):
    """Another process has the lock."""


@dataclass(frozen=True, slots=True)
class FolderLock:
    """Held until it is released, or the process ends."""

    file: int

    def release(self) -> None:
        os.close(self.file)


def lock_folder(folder: Path) -> FolderLock:
    """Make the folder if need be. Unready says who has the lock."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unready(f"The event store in {folder} cannot be opened: {error.strerror}.") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(lock, 32).decode(errors="replace").strip()
        os.close(lock)
        raise FolderInUse(
            f"The event store in {folder} is in use by process {holder}. One process at a time can "
            "open it: stop that one first, or give each a data folder of its own."
        ) from None
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    return FolderLock(lock)
