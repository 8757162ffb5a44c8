"""The age of the oldest unstored event and the number of dead letters, for metrics and health."""

from datetime import datetime

from hedgerow.ingestion.store import InboxStore
from hedgerow.lib.clock import Clock


class LagMonitor:
    """Holds the last observation. While `refresh` fails, the lag keeps growing."""

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
