"""Reject new events while the disk or the inbox is full. SDKs keep rejected events and retry.

If there are several projects, none may fill the inbox for the others: a project may have as many
events waiting as the inbox has free places. So one project gets at most half of the inbox, and
there is always a place for the next one.
"""

from collections.abc import Callable
from datetime import datetime

from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.store import InboxStore
from hedgerow.lib.clock import Clock
from hedgerow.projects.model import ProjectId

FULL_DISK = "The disk is nearly full."
FULL_INBOX = "Too many events wait to be processed."
FULL_SHARE = "Too many events of this project wait to be processed."


class AdmissionControl:
    """`free_bytes` returns the free disk space. It is called by `refresh`, not for each request.
    `has_several_projects` is called for each request. `on_refusal` receives a project
    that has used up its share of the inbox."""

    def __init__(
        self,
        progress: Progress,
        free_bytes: Callable[[], int],
        *,
        max_waiting: int,
        min_free_bytes: int,
        has_several_projects: Callable[[], bool] = lambda: False,
        on_refusal: Callable[[ProjectId], None] = lambda _: None,
    ) -> None:
        self._progress = progress
        self._free_bytes = free_bytes
        self._max_waiting = max_waiting
        self._min_free_bytes = min_free_bytes
        self._has_several_projects = has_several_projects
        self._on_refusal = on_refusal
        self._is_disk_full = False

    def rejection_reason(self, project_id: ProjectId) -> str | None:
        """Return why no events of the project can be accepted, None if they can."""
        if self._is_disk_full:
            return FULL_DISK
        free = self._max_waiting - self._progress.waiting
        if free <= 0:
            return FULL_INBOX
        # Most of the time the inbox is nearly empty, and no project can have used up its share.
        if free > self._max_waiting // 2 or not self._has_several_projects():
            return None
        if self._progress.count_waiting(project_id) < free:
            return None
        self._on_refusal(project_id)
        return FULL_SHARE

    async def refresh(self) -> None:
        """Check the free disk space. A periodic task calls this."""
        self._is_disk_full = self._free_bytes() < self._min_free_bytes


class LagMonitor:
    """The age of the oldest unstored event and the number of dead letters, for metrics and health.
    Holds the last observation. While `refresh` fails, the lag keeps growing."""

    def __init__(self, inbox: InboxStore, clock: Clock) -> None:
        self._inbox = inbox
        self._clock = clock
        self._oldest_at: datetime | None = None
        self.dead_letters = 0

    async def refresh(self) -> None:
        """Read the state of the inbox. A periodic task calls this."""
        self._oldest_at = await self._inbox.oldest_accepted_at()
        self.dead_letters = await self._inbox.count_dead_letters()

    def seconds(self) -> float:
        if self._oldest_at is None:
            return 0.0
        return max(0.0, (self._clock() - self._oldest_at).total_seconds())
