"""The parts of a table of the embedded engine: their names, and whether their files are complete.

chDB reports success for an INSERT, a merge or a mutation although writing one of its files has
failed. What it intended to write is in the part's checksums.txt, so the files are compared with it.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError, decompress
else:
    from backports.zstd import ZstdError, decompress

# A file that lists the sizes of the others, except of those that follow.
_CHECKSUMS = "checksums.txt"
_HEADER = b"checksums format version: 4\n"
_OTHER_VERSION = re.compile(rb"checksums format version: (?!4\n)\d+\n")
# A compressed block begins with a hash of 16 bytes, its method, and its size, which includes the
# method and two sizes.
_HASH_BYTES, _BLOCK_HEADER_BYTES, _ZSTD = 16, 9, 0x90
_NAME = re.compile(r"(\d+|all)_(\d+)_(\d+)_(\d+)(?:_(\d+))?")
_COLUMN_COUNT = re.compile(rb"(\d+) columns:")
_SUBSTREAM_COUNT = re.compile(rb"(\d+) substreams for column `")


class Part(NamedTuple):
    """Blocks of rows get numbers. A merged part has those of its sources and a higher level, a
    mutated one a higher mutation."""

    partition: str
    first_block: int
    last_block: int
    level: int
    mutation: int
    name: str

    def covers(self, other: "Part") -> bool:
        """Return whether this part was made from the other one."""
        return (
            self.name != other.name
            and self.partition == other.partition
            and self.first_block <= other.first_block
            and self.last_block >= other.last_block
            and self.level >= other.level
            and self.mutation >= other.mutation
        )

    @property
    def is_inserted(self) -> bool:
        """A block of replicas is merged with itself when it is inserted."""
        return self.first_block == self.last_block and self.level <= 1 and self.mutation == 0


def parse_part(name: str) -> Part | None:
    if (match := _NAME.fullmatch(name)) is None:
        return None
    partition, *numbers = match.groups(default="0")
    first, last, level, mutation = map(int, numbers)
    return Part(partition, first, last, level, mutation, name)


def list_parts(table: Path, prefix: str = "") -> list[Part]:
    """List the parts in a folder whose names begin with `prefix`. Without it, these are active
    parts, and those that were merged or mutated into them."""
    names = (name.removeprefix(prefix) for name in os.listdir(table) if name.startswith(prefix))
    return [part for name in names if (part := parse_part(name)) is not None]


def select_uncovered(parts: Iterable[Part]) -> list[Part]:
    """Return the parts that were not merged or mutated into others of the list."""
    uncovered: list[Part] = []
    # A part comes after the ones that cover it, and these have a common first block or follow.
    for part in sorted(parts, key=lambda p: (p[0], p[1], -p[2], -p[3], -p[4])):
        if not (uncovered and uncovered[-1].covers(part)):
            uncovered.append(part)
    return uncovered


def find_defect(folder: Path) -> str:
    """Return which file of a part is not complete, or empty text. Raises FileNotFoundError if the
    part was removed."""
    try:
        return _find_incomplete_file(folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        return f"{error.filename or folder} cannot be read: {error.strerror}"


def _find_incomplete_file(folder: Path) -> str:
    with os.scandir(folder) as entries:
        sizes = {entry.name: entry.stat().st_size for entry in entries}
    try:
        listed = dict(_read_sizes((folder / _CHECKSUMS).read_bytes()))
    except (ValueError, IndexError, ZstdError):
        return f"{_CHECKSUMS} is not complete"
    for name, size in listed.items():
        if sizes.get(name) != size:
            return f"{name} has {sizes.get(name, 0):,} of {size:,} bytes"
    for name in sorted(sizes.keys() - listed.keys() - {_CHECKSUMS}):
        if not _is_complete(folder / name):
            return f"{name} is not complete"
    return ""


def _is_complete(file: Path) -> bool:
    """Look at a file that checksums.txt does not list."""
    if file.is_dir():
        return True
    content = file.read_bytes()
    if file.name == "default_compression_codec.txt":
        return content.startswith(b"CODEC(") and content.endswith(b")")
    if file.name in ("columns.txt", "columns_substreams.txt"):
        return _has_all_columns(content)
    return content != b""


def _has_all_columns(content: bytes) -> bool:
    """After the number of columns, each has a line; or a line with the number of its substreams,
    and a line for each of them."""
    *lines, end = content.split(b"\n")
    if end or len(lines) < 2 or (columns := _COLUMN_COUNT.fullmatch(lines[1])) is None:
        return False
    substreams = sum(int(found[1]) for line in lines if (found := _SUBSTREAM_COUNT.match(line)))
    return len(lines) == 2 + int(columns[1]) + substreams


def _read_sizes(content: bytes) -> Iterator[tuple[str, int]]:
    """Yield the name and the size of each file, nothing if a newer engine has another format.
    Raises ValueError, IndexError or ZstdError."""
    if _OTHER_VERSION.match(content):
        return
    if not content.startswith(_HEADER):
        raise ValueError("it begins too late")
    data = b"".join(_decompress(content[len(_HEADER) :]))
    count, at = _read_number(data, 0)
    for _ in range(count):
        length, at = _read_number(data, at)
        name = data[at : at + length].decode()
        size, at = _read_number(data, at + length)
        at += _HASH_BYTES
        is_compressed = data[at]
        at += 1
        if is_compressed:
            _, at = _read_number(data, at)
            at += _HASH_BYTES
        yield name, size
    if at != len(data):
        raise ValueError("it ends too early")


def _decompress(content: bytes) -> Iterator[bytes]:
    while content:
        block = content[_HASH_BYTES:]
        size = int.from_bytes(block[1:5], "little")
        if block[0] != _ZSTD or not _BLOCK_HEADER_BYTES < size <= len(block):
            raise ValueError("it ends too early")
        yield decompress(block[_BLOCK_HEADER_BYTES:size])
        content = block[size:]


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of seven bits per byte, and return where it ends."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
