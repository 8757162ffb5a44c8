"""UUIDs as text: time-ordered generation, and normalization of any notation."""

import hashlib
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


def generate_uuid7s(moment: datetime, randomness: bytes) -> Iterator[str]:
    """Yield ascending UUIDv7s of one timestamp, starting at `randomness`: UUID7_RANDOM_BYTES
    unique random bytes."""
    ms = (moment - _EPOCH) // _MILLISECOND
    bits = int.from_bytes(randomness)
    head = f"{ms >> 16 & 0xFFFF_FFFF:08x}-{ms & 0xFFFF:04x}-7{bits >> 61 & 0xFFF:03x}-"
    # The first of the last part's 62 free bits stays clear, so that counting cannot overflow.
    for number in count(1 << 63 | bits & (1 << 61) - 1):
        tail = f"{number:016x}"
        yield f"{head}{tail[:4]}-{tail[4:]}"


def derive_randomness(randomness: bytes) -> bytes:
    """Return other bytes of the same length, the same ones each time."""
    return hashlib.sha256(randomness).digest()[: len(randomness)]


def normalize_uuid(text: str) -> str | None:
    """Return the lower-case form with hyphens, or None if the text is not a UUID. Accepts upper
    case, no hyphens, braces and the URN form."""
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
