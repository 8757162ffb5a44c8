"""Randomness for ids that are made by the thousand."""

from secrets import token_bytes

from hedgerow.lib.ids import UUID7_RANDOM_BYTES


class Randomness:
    """Random bytes, asked of the system in bulk: while it answers, another thread may take over,
    and a busy one then waits for its turn."""

    def __init__(self) -> None:
        self._bytes = b""
        self._taken = 0

    def for_uuid7(self) -> bytes:
        if self._taken == len(self._bytes):
            self._bytes, self._taken = token_bytes(UUID7_RANDOM_BYTES * 1000), 0
        start = self._taken
        self._taken += UUID7_RANDOM_BYTES
        return self._bytes[start : self._taken]
