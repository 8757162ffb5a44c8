"""The times at which a distinct id did something, in a form of bounded size. Pure.

An occurrence has 16 bytes: its time in microseconds, and half of the uuid of its event. So a set of
occurrences can be united with another one as often as necessary, and no event counts twice. A
packed behavior is its first occurrence, then the latest ones in their order.
"""

import struct
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from hedgerow.lib.dates import EPOCH

SIZE = 16
# Occurrences in the future that are kept besides the latest ones. An event is accepted up to 23
# hours before its time.
MAX_FUTURE = 100

_MICROSECOND = timedelta(microseconds=1)
# Added to times, so that those before 1970 sort first.
_OFFSET = 1 << 62
_times = struct.Struct(">Q8x")
_decode = msgspec.msgpack.Decoder(dict[int, bytes]).decode
_encode = msgspec.msgpack.Encoder().encode


class Occurrences(NamedTuple):
    """The first occurrence and the latest ones, in microseconds since 1970."""

    first: int | None
    latest: Sequence[int]


NEVER = Occurrences(None, ())


def to_microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // _MICROSECOND


def pack_occurrence(moment: datetime, uuid: str) -> bytes:
    """Return the 16 bytes of an event."""
    half = bytes.fromhex(uuid.replace("-", "")[-16:])
    return (to_microseconds(moment) + _OFFSET).to_bytes(8) + half


def pack_end(now: datetime) -> bytes:
    """Return what sorts after all occurrences until now, and before those in the future."""
    return (to_microseconds(now) + _OFFSET).to_bytes(8) + b"\xff" * 8


def add_occurrences(packed: bytes, new: Sequence[bytes], depth: int, end: bytes) -> bytes:
    """Return the packed behavior with more occurrences, without those that make no difference.
    `end` separates those in the future."""
    if len(new) == 1 and packed and packed[-SIZE:] < new[0] <= end:
        # The usual case: the latest event so far, and none in the future.
        return packed[:SIZE] + (packed[SIZE:] + new[0])[-depth * SIZE :]
    found = {*_split(packed[SIZE:]), *new}
    ordered = sorted(found)
    first = min(packed[:SIZE] or ordered[0], ordered[0])
    present = bisect_right(ordered, end)
    kept = ordered[max(0, present - depth) : present + MAX_FUTURE]
    return first + b"".join(kept)


def unpack_occurrences(parts: Sequence[bytes]) -> Occurrences:
    """Return the occurrences of a person. `parts` has the packed behavior of each distinct id."""
    if not parts:
        return NEVER
    if len(parts) == 1:
        packed = parts[0]
    else:
        latest = sorted({each for part in parts for each in _split(part[SIZE:])})
        packed = min(part[:SIZE] for part in parts) + b"".join(latest)
    first, *times = (time - _OFFSET for (time,) in _times.iter_unpack(packed))
    return Occurrences(first, times)


def _split(packed: bytes) -> list[bytes]:
    return [packed[at : at + SIZE] for at in range(0, len(packed), SIZE)]


def encode_behaviors(behaviors: Mapping[int, bytes]) -> str:
    """Encode the packed behaviors of a distinct id, by the id of the behavior."""
    return b64encode(_encode(behaviors)).decode()


def decode_behaviors(text: str) -> dict[int, bytes]:
    return _decode(b64decode(text))


def join_behaviors(rows: Iterable[str]) -> dict[int, list[bytes]]:
    """Join the encoded behaviors of the distinct ids of a person."""
    found: dict[int, list[bytes]] = {}
    for row in rows:
        for id, packed in decode_behaviors(row).items():
            found.setdefault(id, []).append(packed)
    return found
