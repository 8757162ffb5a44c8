"""Since when the oldest event waits, and how many are set aside, for whoever watches over the
service.
"""

from datetime import datetime

from hedgerow.ingestion.store import InboxStore
from hedgerow.lib.clock import Clock


class Lag:
    """Looked at now and then; while nobody can look, what waited then counts as waiting still."""

    def __init__(self, inbox: InboxStore, clock: Clock) -> None:
        self._inbox = inbox
        self._clock = clock
        self._since: datetime | None = None
        self.set_aside = 0

    async def look(self) -> None:
        """One turn of the background loop."""
        self._since = await self._inbox.waits_since()
        self.set_aside = await self._inbox.number_set_aside()

    def seconds(self) -> float:
        if self._since is None:
            return 0.0
        return max(0.0, (self._clock() - self._since).total_seconds())
