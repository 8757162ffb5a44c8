"""Where an identifier falls between 0 and 1, and limits that a digest is compared with as it is.

The place is the first 60 bits of a SHA-1 over 2^60. Instead of making that number for each flag,
a share is turned once into bytes: a digest that sorts below them lies within the share.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

try:
    # The plain implementation: for texts as short as these it takes half of OpenSSL's time.
    from _sha1 import sha1  # type: ignore[import-not-found]
except ImportError:
    from hashlib import sha1

SCALE = 2.0**60
EVERYBODY = b"\xff" * 21
VARIANT = b"variant"
HOLDOUT = b"holdout-"


class Digest(Protocol):
    def digest(self) -> bytes: ...


Hasher = Callable[[bytes], Digest]
hasher: Hasher = sha1


class _Zero:
    def __init__(self, _: bytes) -> None: ...

    def digest(self) -> bytes:
        return bytes(20)


# An empty identifier is at 0: in every rollout, with the first variant.
zero: Hasher = _Zero


def hasher_for(identifier: bytes) -> Hasher:
    return hasher if identifier else zero


def place(prefix: bytes, identifier: bytes, salt: bytes = b"") -> float:
    """For people to read: the number itself."""
    if not identifier:
        return 0.0
    digest = hashlib.sha1(prefix + identifier + salt, usedforsecurity=False).digest()
    return float(int.from_bytes(digest[:8], "big") >> 4) / SCALE


@lru_cache(maxsize=10_000)
def limit_up_to(share: float) -> bytes:
    """A digest is below this exactly when its place is at most `share`."""
    return _limit(lambda number: float(number) <= share * SCALE)


@lru_cache(maxsize=10_000)
def limit_below(share: float) -> bytes:
    """A digest is below this exactly when its place is less than `share`."""
    return _limit(lambda number: float(number) < share * SCALE)


def _limit(is_within: Callable[[int], bool]) -> bytes:
    """The first number that is not within; numbers within come before all others."""
    low, high = 0, 2**60
    while low < high:
        middle = (low + high) // 2
        if is_within(middle):
            low = middle + 1
        else:
            high = middle
    return EVERYBODY if low >= 2**60 else (low << 4).to_bytes(8, "big")


def identifier_bytes(value: Any) -> bytes:
    return str(value).encode("utf-8", "surrogatepass")
