"""Files that destinations write, all below one folder. Threads do the work, so that a slow disk
does not block the event loop.
"""

import asyncio
import contextlib
import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hedgerow.lib.threads import run_in_thread
from hedgerow.outbound.append_files import AppendFile, recover_orphans
from hedgerow.plugin.delivery import FileTarget, FileWriter
from hedgerow.plugin.http import TransportError

CLOSE_TIMEOUT_S = 5.0

# A folder, a format, and whether each batch gets its own file.
_TargetKey = tuple[str, str, bool]


class LocalFileWriter(FileWriter):
    """`min_free_bytes` must stay free on the disk. `note` is called for files that cannot be
    finished; they are retried."""

    def __init__(
        self, root: Path, *, min_free_bytes: int, note: Callable[[str, OSError], None]
    ) -> None:
        self._root = root
        self._min_free_bytes = min_free_bytes
        self._report_failure = note
        self._locks: dict[_TargetKey, threading.Lock] = {}
        self._open_files: dict[_TargetKey, tuple[AppendFile, FileTarget]] = {}
        self._closed_files: list[AppendFile] = []
        self._has_recovered = False

    async def append(self, target: FileTarget, lines: bytes) -> str:
        try:
            name = await run_in_thread(lambda: self._append(target, lines))
        except OSError as error:
            raise TransportError(_describe_error(target, error)) from None
        return f"{target.folder}/{name}"

    async def finish_due_files(self) -> None:
        """Finish files that are full or old. The first call also recovers orphaned files."""
        if self._open_files or self._closed_files or not self._has_recovered:
            await run_in_thread(self._finish_due_files)

    async def close(self) -> None:
        """Finish all files. Those that take too long are recovered after the next start."""
        if self._open_files or self._closed_files:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await run_in_thread(self._close)

    def _append(self, target: FileTarget, lines: bytes) -> str:
        key = (target.folder, target.format, target.max_age_s == 0)
        with self._get_lock(key):
            if key not in self._open_files:
                self._open_files[key] = (
                    AppendFile.create(self._root, target.folder, target.format),
                    target,
                )
            file, _ = self._open_files[key]
            self._open_files[key] = (file, target)
            if file.free_bytes < self._min_free_bytes:
                raise OSError(errno.ENOSPC, "the disk is nearly full")
            try:
                file.append(lines)
            except OSError:
                # The content of the file is uncertain: continue in a new one.
                self._closed_files.append(self._open_files.pop(key)[0])
                raise
            if file.size >= target.max_bytes or not target.max_age_s:
                self._closed_files.append(self._open_files.pop(key)[0])
        if not target.max_age_s:
            self._finish_closed_files()
        return file.name

    def _get_lock(self, key: _TargetKey) -> threading.Lock:
        return self._locks.setdefault(key, threading.Lock())

    def _finish_due_files(self) -> None:
        if not self._has_recovered and self._root.is_dir():
            recover_orphans(self._root)
        self._has_recovered = True
        for key in list(self._open_files):
            self._close_if(key, lambda file, target: _age_s(file) >= target.max_age_s)
        self._finish_closed_files()

    def _close(self) -> None:
        for key in list(self._open_files):
            self._close_if(key, lambda file, target: True)
        self._finish_closed_files()

    def _close_if(self, key: _TargetKey, is_done: Callable[[AppendFile, FileTarget], bool]) -> None:
        with self._get_lock(key):
            if key in self._open_files and is_done(*self._open_files[key]):
                self._closed_files.append(self._open_files.pop(key)[0])

    def _finish_closed_files(self) -> None:
        for _ in range(len(self._closed_files)):
            try:
                file = self._closed_files.pop()
            except IndexError:  # another thread took it
                return
            try:
                file.finish()
            except OSError as error:
                self._report_failure(file.name, error)
                self._closed_files.insert(0, file)


def _age_s(file: AppendFile) -> float:
    return time.monotonic() - file.created_at


def _describe_error(target: FileTarget, error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return (
            f"{target.folder} is not a plain folder: no part of its path may be a link or a file."
        )
    if error.errno == errno.ENOSPC:
        return "The disk is nearly full: free some space, or lower HEDGEROW_MIN_FREE_DISK_MB."
    return f"{target.folder} cannot be written to: {error.strerror or error}."
