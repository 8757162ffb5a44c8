"""How far the records of a log are done, in a small file with checksums."""

import errno
import os
import struct
import time
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

# Two slots take turns, so that a write that a crash interrupts leaves the one before.
SLOT_BYTES = 4096
# Ranges above this number are left out of the file: their records are sent again after a restart.
MAX_STORED_RANGES = 200
SYNC_INTERVAL_S = 1.0
_MAGIC = b"hginbox1"
_HEAD = struct.Struct(">8sQII")


class NumberRanges:
    """A set of numbers, as ranges that include their start and exclude their end."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._ranges: list[tuple[int, int]] = []
        for start, end in ranges:
            self.add(start, end)

    def add(self, start: int, end: int) -> None:
        if start >= end:
            return
        first = bisect_right(self._ranges, start, key=lambda each: each[0])
        if first and self._ranges[first - 1][1] >= start:
            first -= 1
            start = self._ranges[first][0]
        last = first
        while last < len(self._ranges) and self._ranges[last][0] <= end:
            end = max(end, self._ranges[last][1])
            last += 1
        self._ranges[first:last] = [(start, end)]

    def take_from(self, start: int) -> int:
        """Remove the range that begins at or before this number. Return where it ends, or `start`
        if there is none."""
        while self._ranges and self._ranges[0][0] <= start:
            start = max(start, self._ranges.pop(0)[1])
        return start

    def find_missing(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges between these numbers that are not in the set."""
        for low, high in self._ranges:
            if high > start:
                if low >= end:
                    break
                if low > start:
                    yield start, low
                start = high
        if start < end:
            yield start, end

    def count(self) -> int:
        return sum(end - start for start, end in self._ranges)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._ranges, number, key=lambda each: each[0])
        return place > 0 and self._ranges[place - 1][1] > number

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._ranges)

    def __str__(self) -> str:
        return ", ".join(
            str(start) if end == start + 1 else f"{start}-{end - 1}" for start, end in self._ranges
        )


class Position:
    """All numbers below `first` are done, and those in `done`. `next` is the next one to be given.
    Methods raise OSError."""

    def __init__(self, path: Path) -> None:
        """Reads the file. `is_found` says whether it has a valid slot."""
        self._path = path
        self._file = -1
        self._turn = 0
        self._synced_at_s = 0.0
        self.is_found = False
        self.first = self.next = 1
        self.done = NumberRanges()
        self._read()

    def finish(self, start: int, end: int) -> None:
        self.done.add(start, end)
        self.first = self.done.take_from(self.first)

    def save(self, *, is_urgent: bool = True) -> None:
        """Write to the file, and to the disk if it is urgent or was not for a while."""
        if self._file < 0 or not os.fstat(self._file).st_nlink:
            self._create()
        ranges = list(self.done)[:MAX_STORED_RANGES]
        content = msgspec.msgpack.encode((self.first, self.next, ranges))
        self._turn += 1
        checksum = zlib.crc32(content, self._turn & 0xFFFFFFFF)
        slot = _HEAD.pack(_MAGIC, self._turn, len(content), checksum) + content
        write_all(self._file, slot, self._turn % 2 * SLOT_BYTES)
        now_s = time.monotonic()
        if is_urgent or now_s > self._synced_at_s + SYNC_INTERVAL_S:
            os.fdatasync(self._file)
            self._synced_at_s = now_s

    def close(self) -> None:
        if self._file >= 0:
            with suppress(OSError):
                os.fdatasync(self._file)
            os.close(self._file)
            self._file = -1

    def _read(self) -> None:
        try:
            content = self._path.read_bytes()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EIO):
                raise
            return
        for slot in (content[:SLOT_BYTES], content[SLOT_BYTES:]):
            try:
                magic, turn, length, checksum = _HEAD.unpack_from(slot)
                packed = slot[_HEAD.size : _HEAD.size + length]
                if magic != _MAGIC or zlib.crc32(packed, turn & 0xFFFFFFFF) != checksum:
                    continue
                first, next, ranges = msgspec.msgpack.decode(
                    packed, type=tuple[int, int, list[tuple[int, int]]]
                )
            except (struct.error, msgspec.MsgspecError):
                continue
            if turn > self._turn:
                self._turn, self.is_found = turn, True
                self.first, self.next, self.done = first, next, NumberRanges(ranges)

    def _create(self) -> None:
        """Reserve the space, so that it can be written while the disk is full."""
        self.close()
        make_folder(self._path.parent)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        missing = 2 * SLOT_BYTES - os.fstat(self._file).st_size
        if missing > 0:
            write_all(self._file, bytes(missing), 2 * SLOT_BYTES - missing)
        os.fsync(self._file)
        sync_folder(self._path.parent)


def write_all(file: int, content: bytes, offset: int) -> None:
    """Write at an offset. A short write is continued, until the disk refuses the rest."""
    rest = memoryview(content)
    while rest:
        written = os.pwrite(file, rest, offset)
        rest, offset = rest[written:], offset + written


def make_folder(folder: Path) -> None:
    """Create a folder, so that a power failure does not take it."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
