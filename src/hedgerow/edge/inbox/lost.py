"""The list of records that were missing or damaged, until an operator has seen it."""

import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hedgerow.edge.inbox.position import NumberRanges, sync_folder


class _Entry(msgspec.Struct, kw_only=True):
    noticed_at_s: float
    ranges: list[tuple[int, int]]


class LostRecords:
    """By the name of their log. Methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, _Entry] = {}
        self.is_damaged = False
        self.number = 0
        try:
            self._set(msgspec.json.decode(path.read_bytes(), type=dict[str, _Entry]))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EIO):
                raise
            self.is_damaged = error.errno == errno.EIO
        except msgspec.MsgspecError:
            self.is_damaged = True

    def add(self, log: str, lost: NumberRanges) -> None:
        before = self._entries.get(log)
        ranges = NumberRanges([*lost, *(before.ranges if before is not None else ())])
        since_s = time.time() if before is None else before.noticed_at_s
        entry = _Entry(noticed_at_s=since_s, ranges=list(ranges))
        self._save({**self._entries, log: entry})

    def list_all(self) -> Mapping[str, tuple[NumberRanges, float]]:
        """Return the numbers by log, with the Unix time at which the first was missing."""
        return {
            log: (NumberRanges(each.ranges), each.noticed_at_s)
            for log, each in self._entries.items()
        }

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)
        self._set({})

    def _save(self, entries: dict[str, _Entry]) -> None:
        new = self._path.with_suffix(".new")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(entries))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        sync_folder(self._path.parent)
        self._set(entries)

    def _set(self, entries: dict[str, _Entry]) -> None:
        self._entries = entries
        self.number = sum(end - start for each in entries.values() for start, end in each.ranges)
