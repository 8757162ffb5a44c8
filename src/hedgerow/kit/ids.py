"""UUIDs as text: made in the order of time, and read in whatever form somebody writes them."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

UUID7_RANDOM_BYTES = 10

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PLAIN = re.compile(r"[0-9a-f]{32}")
_LONGEST = len("urn:uuid:00000000-0000-0000-0000-000000000000")


def uuid7s(moment: datetime, randomness: bytes) -> Iterator[str]:
    """UUIDv7s of one moment, each greater than the one before. `randomness` is where they begin:
    UUID7_RANDOM_BYTES that nobody else has."""
    prefix = f"{(moment - _EPOCH) // _MILLISECOND & 0xFFFF_FFFF_FFFF:012x}"
    head = f"{prefix[:8]}-{prefix[8:]}-7"
    # Of the 74 free bits the first stays clear, so that counting cannot run over.
    start = int.from_bytes(randomness) & (1 << 73) - 1
    for number in count(start):
        digits = f"{number >> 62:03x}{number & (1 << 62) - 1 | 1 << 63:016x}"
        yield f"{head}{digits[:3]}-{digits[3:7]}-{digits[7:]}"


def canonical_uuid(text: str) -> str | None:
    """Lower case with hyphens, however it was written: upper case, without hyphens, in braces, as
    a URN. None for what is no UUID."""
    if _CANONICAL.fullmatch(text):
        return text
    if len(text) > _LONGEST:
        return None
    bare = text.lower().removeprefix("urn:uuid:")
    if bare.startswith("{") and bare.endswith("}"):
        bare = bare[1:-1]
    if _CANONICAL.fullmatch(bare):
        return bare
    if _PLAIN.fullmatch(bare):
        return f"{bare[:8]}-{bare[8:12]}-{bare[12:16]}-{bare[16:20]}-{bare[20:]}"
    return None
