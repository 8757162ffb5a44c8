"""Files that grow: lines are appended to a hidden one, which gets its name once it is complete.

An appended line is on the disk before anybody is told so. A reader sees whole files only. Whoever
writes one holds a lock on it, so one that is not locked was left by a process that died: its last
line may be torn and is cut off, the rest is completed.

Folders are walked from descriptor to descriptor and links are not followed, so that nothing that
somebody puts there leads out of the root.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from hedgerow.events.archive import COLUMNS, MOMENTS, rows_of
from hedgerow.lib.parquet import Parquet

GROWING = ".part"
MAKING = ".tmp"
GROUP_LINES = 5_000
GROUP_BYTES = 32 * 1024 * 1024
TAIL_BYTES = 64 * 1024

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC


class Journal:
    """One file that grows. Its descriptors are its own until it is finished or abandoned."""

    def __init__(self, folder: int, name: str, file: int) -> None:
        self.name = name
        self.began = time.monotonic()
        self.size = os.fstat(file).st_size
        self._folder = folder
        self._file = file

    @classmethod
    def begun(cls, root: Path, folder: str, format: str) -> "Journal":
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        name = f"events-{moment}-{secrets.token_hex(4)}.{format}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE
        with contextlib.ExitStack() as unless_it_works:
            opened = _opened_folder(root, folder)
            unless_it_works.callback(os.close, opened)
            file = os.open(_growing(name), flags, 0o640, dir_fd=opened)
            unless_it_works.callback(os.close, file)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fsync(opened)
            unless_it_works.pop_all()
        return cls(opened, name, file)

    @property
    def free_bytes(self) -> int:
        disk = os.fstatvfs(self._file)
        return disk.f_bavail * disk.f_frsize

    def append(self, lines: bytes) -> None:
        """On the disk when this returns. OSError if it is not; then nothing of it is kept."""
        try:
            written = os.pwrite(self._file, lines, self.size)
            while written < len(lines):
                written += os.pwrite(self._file, lines[written:], self.size + written)
            os.fdatasync(self._file)
        except OSError:
            os.ftruncate(self._file, self.size)
            raise
        self.size += len(lines)

    def finish(self) -> None:
        """Give it its name. OSError leaves it to be finished again."""
        if not self.size:
            os.unlink(_growing(self.name), dir_fd=self._folder)
        elif self.name.endswith(".parquet"):
            self._make_parquet()
            self._rename(_making(self.name))
            os.unlink(_growing(self.name), dir_fd=self._folder)
        else:
            self._rename(_growing(self.name))
        os.fsync(self._folder)
        self.abandon()

    def abandon(self) -> None:
        """Let go of it as it is."""
        os.close(self._file)
        os.close(self._folder)

    def _rename(self, hidden: str) -> None:
        os.rename(hidden, self.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _make_parquet(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FILE
        made = os.open(_making(self.name), flags, 0o640, dir_fd=self._folder)
        with os.fdopen(made, "wb") as sink:
            file = Parquet(sink, COLUMNS, MOMENTS)
            with os.fdopen(os.dup(self._file), "rb") as lines:
                lines.seek(0)
                try:
                    for group in _groups(lines):
                        file.write(rows_of(group))
                except (ValueError, msgspec.MsgspecError):
                    raise OSError(errno.EIO, "the disk gives back another text") from None
            file.close()
            sink.flush()
            os.fsync(sink.fileno())


def finish_left_behind(root: Path) -> int:
    """Complete the files below the root that nobody holds. How many there were."""
    finished = 0
    for _, folders, names, opened in os.fwalk(root, follow_symlinks=False):
        folders.sort()
        for name in names:
            if name.startswith(".events-") and name.endswith(GROWING):
                with contextlib.suppress(OSError):
                    finished += _finished(name, opened)
    return finished


def _finished(hidden: str, folder: int) -> bool:
    file = os.open(hidden, os.O_RDWR | _FILE, dir_fd=folder)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(file).st_nlink:  # it was finished meanwhile
            raise BlockingIOError
        _cut_torn_line(file)
        journal = Journal(os.dup(folder), hidden.removeprefix(".").removesuffix(GROWING), file)
    except OSError:
        os.close(file)
        return False
    try:
        journal.finish()
    except OSError:
        journal.abandon()
        return False
    return True


def _cut_torn_line(file: int) -> None:
    end = os.fstat(file).st_size
    while end:
        start = max(0, end - TAIL_BYTES)
        place = os.pread(file, end - start, start).rfind(b"\n")
        if place >= 0:
            end = start + place + 1
            break
        end = start
    os.ftruncate(file, end)
    os.fsync(file)


def _opened_folder(root: Path, folder: str) -> int:
    root.mkdir(parents=True, exist_ok=True)
    opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in folder.split("/"):
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o750, dir_fd=opened)
                os.fsync(opened)
            below = os.open(part, _FOLDER, dir_fd=opened)
        finally:
            os.close(opened)
        opened = below
    return opened


def _groups(lines: BinaryIO) -> Iterator[list[bytes]]:
    """Some lines at a time, so that a file of any size is made in little memory."""
    while group := lines.readlines(GROUP_BYTES):
        yield from (group[at : at + GROUP_LINES] for at in range(0, len(group), GROUP_LINES))


def _growing(name: str) -> str:
    return f".{name}{GROWING}"


def _making(name: str) -> str:
    return f".{name}{MAKING}"
