"""Limits the memory of request bodies that are being received or wait for a worker process."""

from types import TracebackType
from typing import Self

from hedgerow.errors import Unavailable

MIB = 1024 * 1024
MAX_TOTAL_BYTES = 256 * MIB
# Three of the largest bodies of capture.
MAX_BYTES_PER_SENDER = 64 * MIB
RETRY_AFTER_S = 5


class BodyMemory:
    def __init__(
        self,
        max_bytes: int = MAX_TOTAL_BYTES,
        max_bytes_per_sender: int = MAX_BYTES_PER_SENDER,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_bytes_per_sender = max_bytes_per_sender
        self._bytes_by_sender: dict[str, int] = {}
        self.used_bytes = 0

    def reserve(self, sender: str) -> "Reservation":
        """Return an empty reservation. `sender` is the address of the client."""
        return Reservation(self, sender)

    def take(self, sender: str, size: int) -> None:
        """Raises Unavailable if the total or the share of the sender is used up."""
        of_sender = self._bytes_by_sender.get(sender, 0) + size
        if self.used_bytes + size > self._max_bytes or of_sender > self._max_bytes_per_sender:
            raise Unavailable(
                "Too many large requests at the moment. Try again later.",
                retry_after_s=RETRY_AFTER_S,
            )
        self._bytes_by_sender[sender] = of_sender
        self.used_bytes += size

    def give_back(self, sender: str, size: int) -> None:
        self.used_bytes -= size
        left = self._bytes_by_sender.get(sender, 0) - size
        if left > 0:
            self._bytes_by_sender[sender] = left
        else:
            self._bytes_by_sender.pop(sender, None)


class Reservation:
    """The bytes of one request, until the end of the `with` block."""

    def __init__(self, memory: BodyMemory, sender: str) -> None:
        self._memory = memory
        self._sender = sender
        self._size = 0

    def add(self, size: int) -> None:
        """Raises Unavailable if there is no memory left."""
        self._memory.take(self._sender, size)
        self._size += size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._memory.give_back(self._sender, self._size)
