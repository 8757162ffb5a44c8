"""Reject new events while the disk or the inbox is full. SDKs keep rejected events and retry."""

from collections.abc import Callable

from hedgerow.ingestion.progress import Progress


class AdmissionControl:
    """`free_bytes` returns the free disk space. It is called by `refresh`, not for each request."""

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
        self._is_disk_full = False

    def rejection_reason(self) -> str | None:
        """Return why no events can be accepted, None if they can."""
        if self._is_disk_full:
            return "The disk is nearly full."
        if self._progress.waiting >= self._max_waiting:
            return "Too many events wait to be processed."
        return None

    async def refresh(self) -> None:
        """Check the free disk space. A periodic task calls this."""
        self._is_disk_full = self._free_bytes() < self._min_free_bytes
