"""Append-only files: lines go to a hidden file, which gets its final name once it is complete.

Appended lines are durable when `append` returns, and readers see only complete files. The writer
holds a lock, so an unlocked hidden file was orphaned by a process that died: its torn last line is
cut off and the rest is finished.

Folders are opened by descriptor and links are not followed, so no path leads out of the root.
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

from hedgerow.events.archive import COLUMNS, TIME_COLUMNS, decode_rows
from hedgerow.lib.parquet import ParquetFile

APPEND_SUFFIX = ".part"
CONVERT_SUFFIX = ".tmp"
ROW_GROUP_LINES = 5_000
ROW_GROUP_BYTES = 32 * 1024 * 1024
TAIL_BYTES = 64 * 1024

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC


class AppendFile:
    """One append-only file. It owns its descriptors until it is finished or closed."""

    def __init__(self, folder: int, name: str, file: int) -> None:
        self.name = name
        self.created_at = time.monotonic()
        self.size = os.fstat(file).st_size
        self._folder = folder
        self._file = file

    @classmethod
    def create(cls, root: Path, folder: str, format: str) -> "AppendFile":
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        name = f"events-{moment}-{secrets.token_hex(4)}.{format}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE
        with contextlib.ExitStack() as unless_it_works:
            opened = _open_folder(root, folder)
            unless_it_works.callback(os.close, opened)
            file = os.open(_get_append_name(name), flags, 0o640, dir_fd=opened)
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
        """Append lines; durable when this returns. On OSError none of them is kept."""
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
        """Give the file its final name. After OSError it can be finished again."""
        if not self.size:
            os.unlink(_get_append_name(self.name), dir_fd=self._folder)
        elif self.name.endswith(".parquet"):
            self._convert_to_parquet()
            self._rename(_get_convert_name(self.name))
            os.unlink(_get_append_name(self.name), dir_fd=self._folder)
        else:
            self._rename(_get_append_name(self.name))
        os.fsync(self._folder)
        self.close()

    def close(self) -> None:
        """Close the descriptors and leave the file as it is."""
        os.close(self._file)
        os.close(self._folder)

    def _rename(self, hidden: str) -> None:
        os.rename(hidden, self.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _convert_to_parquet(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FILE
        made = os.open(_get_convert_name(self.name), flags, 0o640, dir_fd=self._folder)
        with os.fdopen(made, "wb") as sink:
            file = ParquetFile(sink, COLUMNS, TIME_COLUMNS)
            with os.fdopen(os.dup(self._file), "rb") as lines:
                lines.seek(0)
                try:
                    for group in _read_groups(lines):
                        file.write(decode_rows(group))
                except (ValueError, msgspec.MsgspecError):
                    raise OSError(errno.EIO, "the file does not contain what was written") from None
            file.close()
            sink.flush()
            os.fsync(sink.fileno())


def recover_orphans(root: Path) -> int:
    """Finish the files below the root that no process holds, and return their number."""
    finished = 0
    for _, folders, names, opened in os.fwalk(root, follow_symlinks=False):
        folders.sort()
        for name in names:
            if name.startswith(".events-") and name.endswith(APPEND_SUFFIX):
                with contextlib.suppress(OSError):
                    finished += _recover_orphan(name, opened)
    return finished


def _recover_orphan(hidden: str, folder: int) -> bool:
    file = os.open(hidden, os.O_RDWR | _FILE, dir_fd=folder)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(file).st_nlink:  # another process finished it
            raise BlockingIOError
        _cut_torn_line(file)
        name = hidden.removeprefix(".").removesuffix(APPEND_SUFFIX)
        orphan = AppendFile(os.dup(folder), name, file)
    except OSError:
        os.close(file)
        return False
    try:
        orphan.finish()
    except OSError:
        orphan.close()
        return False
    return True


def _cut_torn_line(file: int) -> None:
    end = os.fstat(file).st_size
    while end:
        start = max(0, end - TAIL_BYTES)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    os.ftruncate(file, end)
    os.fsync(file)


def _open_folder(root: Path, folder: str) -> int:
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


def _read_groups(lines: BinaryIO) -> Iterator[list[bytes]]:
    """Read lines in groups, so that a file of any size is converted in little memory."""
    while group := lines.readlines(ROW_GROUP_BYTES):
        for start in range(0, len(group), ROW_GROUP_LINES):
            yield group[start : start + ROW_GROUP_LINES]


def _get_append_name(name: str) -> str:
    return f".{name}{APPEND_SUFFIX}"


def _get_convert_name(name: str) -> str:
    return f".{name}{CONVERT_SUFFIX}"
