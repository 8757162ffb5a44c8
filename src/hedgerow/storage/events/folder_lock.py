"""A lock on the folder of the event store: chDB itself does not exclude a second process."""

import fcntl
import os
import time
from pathlib import Path

from hedgerow.errors import OperatorError

# The engine's own folder, next to the lock file.
CHDB_FOLDER = "chdb"
# How long the engine of a process that was killed may take to end.
ENGINE_END_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.05


class FolderInUseError(OperatorError):
    """Another process holds the lock."""


class FolderLock:
    """Held until it is released, by its only owner, or until this process and all processes that
    share the descriptor have ended."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @property
    def descriptor(self) -> int:
        if self._descriptor is None:
            raise OSError("The lock of the event store is released.")
        return self._descriptor

    def release(self) -> None:
        """Release the lock. Further calls have no effect: the number may belong to another file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Return whether a process holds the lock."""
    try:
        file = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def lock_folder(folder: Path) -> FolderLock:
    """Lock the folder, creating it if needed. Raises FolderInUseError if it is locked."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FolderLock(os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            _acquire_or_refuse(lock.descriptor, folder)
            _write_holder(lock.descriptor)
        except (OSError, FolderInUseError):
            lock.release()
            raise
    except OSError as error:
        raise OperatorError(
            f"The event store in {folder} cannot be opened: {error.strerror}."
        ) from None
    return lock


def _acquire_or_refuse(lock: int, folder: Path) -> None:
    if not _acquire(lock):
        raise FolderInUseError(
            f"The event store in {folder} is in use by process {_read_holder(lock)}. Only one "
            "process can open it: stop that process, or use another data directory."
        )


def _acquire(lock: int) -> bool:
    """Try to lock. If the holder has died, its engine ends within moments: wait for that."""
    deadline = time.monotonic() + ENGINE_END_TIMEOUT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if _is_running(_read_holder(lock)) or time.monotonic() > deadline:
                return False
        time.sleep(POLL_INTERVAL_S)


def _write_holder(lock: int) -> None:
    """Replace the text before the length, so that an existing file needs no more space."""
    holder = f"{os.getpid()}\n".encode()
    os.pwrite(lock, holder, 0)
    os.ftruncate(lock, len(holder))


def _read_holder(lock: int) -> str:
    return os.pread(lock, 32, 0).decode(errors="replace").strip()


def _is_running(holder: str) -> bool:
    """A process that has died but was not waited for does not run."""
    try:
        os.kill(int(holder), 0)
        state = Path("/proc", holder, "stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError, ValueError):
        return False
    except OSError:  # it belongs to another user
        return True
    return state != "Z"
