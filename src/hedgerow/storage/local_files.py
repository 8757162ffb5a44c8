"""The files of destinations, all below one folder. Threads do the work, so that no slow disk holds
up the event loop.
"""

import asyncio
import contextlib
import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hedgerow.lib.threads import in_daemon_thread
from hedgerow.pipelines.sending import CannotSend, FilePlace
from hedgerow.storage.journals import Journal, finish_left_behind

CLOSE_S = 5.0

# Where lines go: a folder, a format, and whether each time to a file of its own.
_Key = tuple[str, str, bool]


class LocalFiles:
    """`min_free_bytes` is what the disk must have left. `note` hears of files that cannot be
    completed: they are tried again."""

    def __init__(
        self, root: Path, *, min_free_bytes: int, note: Callable[[str, OSError], None]
    ) -> None:
        self._root = root
        self._min_free_bytes = min_free_bytes
        self._note = note
        self._locks: dict[_Key, threading.Lock] = {}
        self._growing: dict[_Key, tuple[Journal, FilePlace]] = {}
        self._full: list[Journal] = []
        self._has_looked = False

    async def append(self, place: FilePlace, lines: bytes) -> str:
        try:
            name = await in_daemon_thread(lambda: self._append(place, lines))
        except OSError as error:
            raise CannotSend(_told(place, error)) from None
        return f"{place.folder}/{name}"

    async def tidy(self) -> None:
        """Complete the files that are full or old, and once those that a dead process left."""
        if self._growing or self._full or not self._has_looked:
            await in_daemon_thread(self._tidy)

    async def close(self) -> None:
        """Complete every file. What takes too long is completed when we start again."""
        if self._growing or self._full:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await in_daemon_thread(self._close)

    def _append(self, place: FilePlace, lines: bytes) -> str:
        key = (place.folder, place.format, place.max_age_s == 0)
        with self._lock(key):
            if key not in self._growing:
                self._growing[key] = (
                    Journal.begun(self._root, place.folder, place.format),
                    place,
                )
            journal, _ = self._growing[key]
            self._growing[key] = (journal, place)
            if journal.free_bytes < self._min_free_bytes:
                raise OSError(errno.ENOSPC, "the disk is nearly full")
            try:
                journal.append(lines)
            except OSError:
                # Who knows what is on the disk: the rest goes to another file.
                self._full.append(self._growing.pop(key)[0])
                raise
            if journal.size >= place.max_bytes or not place.max_age_s:
                self._full.append(self._growing.pop(key)[0])
        if not place.max_age_s:
            self._finish_full()
        return journal.name

    def _lock(self, key: _Key) -> threading.Lock:
        return self._locks.setdefault(key, threading.Lock())

    def _tidy(self) -> None:
        if not self._has_looked and self._root.is_dir():
            finish_left_behind(self._root)
        self._has_looked = True
        for key in list(self._growing):
            self._set_aside(key, lambda journal, place: _age_s(journal) >= place.max_age_s)
        self._finish_full()

    def _close(self) -> None:
        for key in list(self._growing):
            self._set_aside(key, lambda journal, place: True)
        self._finish_full()

    def _set_aside(self, key: _Key, is_done: Callable[[Journal, FilePlace], bool]) -> None:
        with self._lock(key):
            if key in self._growing and is_done(*self._growing[key]):
                self._full.append(self._growing.pop(key)[0])

    def _finish_full(self) -> None:
        for _ in range(len(self._full)):
            try:
                journal = self._full.pop()
            except IndexError:  # another thread has it
                return
            try:
                journal.finish()
            except OSError as error:
                self._note(journal.name, error)
                self._full.insert(0, journal)


def _age_s(journal: Journal) -> float:
    return time.monotonic() - journal.began


def _told(place: FilePlace, error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return f"{place.folder} is no folder of its own: nothing below it may be a link or a file."
    if error.errno == errno.ENOSPC:
        return "The disk is nearly full: make room, or lower HEDGEROW_MIN_FREE_MB."
    return f"{place.folder} cannot be written to: {error.strerror or error}."
