"""A log of records on the disk, of which damage anywhere takes only the records that it hits.

Records are numbered without gaps and have a checksum, so that missing ones are noticed. They are in
files, the segments. Each record begins with a marker, random for each segment: a reader finds the
next record behind a damaged part, and nothing that a client sends looks like one.
"""

import errno
import os
import re
import struct
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hedgerow.edge.inbox.position import NumberRanges, Position, make_folder, sync_folder, write_all

SEGMENT_BYTES = 8 << 20
_MARKER_BYTES = 8
# Marker, number, length, and the checksum of these and the content.
_HEAD = struct.Struct(f">{_MARKER_BYTES}sQI")
_CHECKSUM = struct.Struct(">I")
HEAD_BYTES = _HEAD.size + _CHECKSUM.size
# The marker is in the name, which damage of the content does not reach.
_NAME = re.compile(r"(\d{8})-(\d{16})-([0-9a-f]{16})\.log")
_CHUNK_BYTES = 64 << 10
_BLOCK_BYTES = 4 << 10


@dataclass(frozen=True, slots=True)
class _Segment:
    """`first` is the number of its first record. Segments are in the order of their serials."""

    serial: int
    first: int
    marker: bytes
    path: Path


class RecordLog:
    """Its methods block and raise OSError; one thread at a time calls them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segments = _list_segments(folder)
        self._serial = self._segments[-1].serial if self._segments else 0
        # Where the first record that waits is in the first segment, at the earliest.
        self._offset = 0
        self._tail = -1
        self._tail_bytes = 0
        # The end of the numbers that the last segment may have: not known before it is read.
        self._end: int | None = None
        self.position = Position(folder / "position")
        self.lost = NumberRanges()
        self.has_lost_position = bool(self._segments) and not self.position.is_found
        if self.has_lost_position:
            self.position.first = self.position.next = self._segments[0].first

    def read_all(self) -> Iterator[tuple[int, bytes]]:
        """Read the log as another process left it. To be called once, before anything else."""
        yield from self.read()
        self._end = self.position.next

    def read(self) -> Generator[tuple[int, bytes], None, None]:
        """Yield the records that wait with their numbers. What is missing before and between them
        is added to `lost`, until `finish` gets it."""
        position = self.position
        expected = position.first
        for index, segment in enumerate(self._segments):
            is_last = index + 1 == len(self._segments)
            end = self._end if is_last else self._segments[index + 1].first
            frames = _read_frames(segment, self._offset if index == 0 else 0)
            for offset, number, content in frames:
                if index == 0 and number < position.first:
                    self._offset = offset
                # One behind the end was refused when it was written.
                if number < expected or (end is not None and number >= end):
                    continue
                self._note_missing(expected, number)
                expected = number + 1
                position.next = max(position.next, expected)
                if number not in position.done:
                    yield number, content
        self._note_missing(expected, position.next)

    def append(self, contents: Sequence[bytes]) -> None:
        """Store records. They are on the disk when this returns, and not in the log if it fails."""
        first = self.position.next
        if self._tail < 0 or self._tail_bytes >= SEGMENT_BYTES or _is_removed(self._tail):
            self._begin_segment(first)
        marker = self._segments[-1].marker
        frames = b"".join(
            part
            for number, content in enumerate(contents, first)
            for part in (_build_head(marker, number, content), content)
        )
        try:
            write_all(self._tail, frames, self._tail_bytes)
            os.fdatasync(self._tail)
            self._set_next(first + len(contents))
            self.position.save(is_urgent=False)
        except OSError:
            self._set_next(first)
            self._abandon_segment()
            raise
        self._tail_bytes += len(frames)

    def finish(self, ranges: NumberRanges) -> None:
        """Give up records. If this cannot be written, it is with the next change."""
        for start, end in ranges:
            self.position.finish(start, end)
        self.lost = NumberRanges(
            missing for each in self.lost for missing in ranges.find_missing(*each)
        )
        with suppress(OSError):
            self.position.save()
            self._remove_finished()

    def close(self) -> None:
        self._close_tail()
        self.position.close()

    def _note_missing(self, start: int, end: int) -> None:
        for missing in self.position.done.find_missing(start, end):
            self.lost.add(*missing)

    def _set_next(self, number: int) -> None:
        self.position.next = self._end = number

    def _begin_segment(self, first: int) -> None:
        self._close_tail()
        make_folder(self._folder)
        marker = os.urandom(_MARKER_BYTES)
        self._serial += 1
        path = self._folder / f"{self._serial:08}-{first:016}-{marker.hex()}.log"
        self._tail = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._tail_bytes = 0
        self._segments.append(_Segment(self._serial, first, marker, path))
        try:
            sync_folder(self._folder)
        except OSError:
            self._abandon_segment()
            raise

    def _abandon_segment(self) -> None:
        """Write no further after a failure: the next segment says where this one ends."""
        with suppress(OSError):
            os.ftruncate(self._tail, self._tail_bytes)
            os.fsync(self._tail)
        with suppress(OSError):
            self.position.save()
        self._close_tail()
        if self._segments[-1].first == self.position.next:
            _remove(self._segments.pop())

    def _remove_finished(self) -> None:
        first = self.position.first
        while len(self._segments) > 1 and self._segments[1].first <= first:
            _remove(self._segments.pop(0))
            self._offset = 0
        if first == self.position.next:
            self._close_tail()
            while self._segments:
                _remove(self._segments.pop())
            self._offset = 0

    def _close_tail(self) -> None:
        if self._tail >= 0:
            os.close(self._tail)
            self._tail = -1


def _list_segments(folder: Path) -> list[_Segment]:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    return [
        _Segment(int(found[1]), int(found[2]), bytes.fromhex(found[3]), folder / name)
        for name in names
        if (found := _NAME.fullmatch(name)) is not None
    ]


def _remove(segment: _Segment) -> None:
    # One that stays is removed with the next start.
    with suppress(OSError):
        segment.path.unlink()


def _is_removed(file: int) -> bool:
    return os.fstat(file).st_nlink == 0


def _build_head(marker: bytes, number: int, content: bytes) -> bytes:
    head = _HEAD.pack(marker, number, len(content))
    return head + _CHECKSUM.pack(zlib.crc32(content, zlib.crc32(head)))


def _read_frames(segment: _Segment, offset: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the offset behind each intact record, its number and its content."""
    try:
        file = os.open(segment.path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        size = os.fstat(file).st_size
        while offset < size:
            found = _read_frame(file, segment.marker, offset, size)
            if found is None:
                offset = _find_marker(file, segment.marker, offset + 1, size)
            else:
                offset += HEAD_BYTES + len(found[1])
                yield offset, *found
    finally:
        os.close(file)


def _read_frame(file: int, marker: bytes, offset: int, size: int) -> tuple[int, bytes] | None:
    head = _read(file, HEAD_BYTES, offset)
    if len(head) < HEAD_BYTES:
        return None
    found, number, length = _HEAD.unpack_from(head)
    if found != marker or offset + HEAD_BYTES + length > size:
        return None
    content = _read(file, length, offset + HEAD_BYTES)
    is_intact = head == _build_head(marker, number, content)
    return (number, content) if is_intact else None


def _find_marker(file: int, marker: bytes, offset: int, size: int) -> int:
    while offset < size:
        chunk = _read(file, _CHUNK_BYTES, offset)
        if not chunk:
            break
        place = chunk.find(marker)
        if place >= 0:
            return offset + place
        offset += max(1, len(chunk) - len(marker) + 1)
    return size


def _read(file: int, length: int, offset: int) -> bytes:
    """Read. Blocks that the disk cannot read are zeros."""
    try:
        return os.pread(file, length, offset)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    if length <= _BLOCK_BYTES:
        return bytes(length)
    return b"".join(
        _read(file, min(_BLOCK_BYTES, offset + length - place), place)
        for place in range(offset, offset + length, _BLOCK_BYTES)
    )
