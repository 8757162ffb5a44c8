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
    ms = (moment - _EPOCH) // _MILLISECOND
    bits = int.from_bytes(randomness)
    head = f"{ms >> 16 & 0xFFFF_FFFF:08x}-{ms & 0xFFFF:04x}-7{bits >> 61 & 0xFFF:03x}-"
    # Of the last part's 62 free bits the first stays clear, so that counting cannot run over.
    for number in count(1 << 63 | bits & (1 << 61) - 1):
        tail = f"{number:016x}"
        yield f"{head}{tail[:4]}-{tail[4:]}"


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
