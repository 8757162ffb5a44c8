"""Whether there is room for more events. Better to send senders away than to fill the disk: they
keep what they have and come back.
"""

from collections.abc import Callable

from hedgerow.ingestion.progress import Progress


class Room:
    """`free_bytes` tells how much the disk can still take; asked now and then, not each time."""

    def __init__(
        self,
        progress: Progress,
        free_bytes: Callable[[], int],
        *,
        max_waiting: int,
        min_free_bytes: int,
    ) -> None:
        self._progress = progress
        self._free_bytes = free_bytes
        self._max_waiting = max_waiting
        self._min_free_bytes = min_free_bytes
        self._disk_is_full = False

    def lack(self) -> str | None:
        """Why nothing more can be taken; None while it can."""
        if self._disk_is_full:
            return "The disk is nearly full."
        if self._progress.waiting >= self._max_waiting:
            return "Too many events wait to be processed."
        return None

    async def look(self) -> None:
        """One turn of the background loop."""
        self._disk_is_full = self._free_bytes() < self._min_free_bytes
