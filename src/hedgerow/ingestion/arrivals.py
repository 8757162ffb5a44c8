"""For those who read: what was accepted before they asked is there, or they waited long enough."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from hedgerow.errors import Unavailable, Unready
from hedgerow.ingestion.progress import Progress

# The engine is loaded by the first event of all; a busy machine takes its time for that.
LOAD_S = 30.0


class Arrivals:
    """`load` returns once the event store is open: only then the time to wait for events begins."""

    def __init__(
        self, progress: Progress, load: Callable[[], Awaitable[object]], *, at_most_s: float
    ) -> None:
        self._progress = progress
        self._load = load
        self._at_most_s = at_most_s

    async def settled(self) -> None:
        """Until all that was accepted has changed its persons and groups."""
        await self._progress.wait_until_all_settled(at_most_s=self._at_most_s)

    async def stored(self) -> None:
        """Until all that was accepted can be queried."""
        if self._at_most_s and not self._progress.is_all_stored:
            with suppress(Unready, Unavailable, TimeoutError):
                async with asyncio.timeout(LOAD_S):
                    await self._load()
        await self._progress.wait_until_stored(at_most_s=self._at_most_s)
