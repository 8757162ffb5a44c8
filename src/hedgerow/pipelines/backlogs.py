"""How much waits for each destination, looked at every few seconds for whoever watches."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from hedgerow.lib.clock import Clock
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import Backlog, BacklogStore

# Looking takes this share of the time at most, however much there is to count.
SHARE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    backlog: Backlog
    oldest_s: float


class Backlogs:
    def __init__(self, store: BacklogStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._backlogs: Mapping[RecordId, Backlog] = {}

    async def look(self) -> None:
        began = time.monotonic()
        self._backlogs = await self._store.backlogs()
        await asyncio.sleep((time.monotonic() - began) / SHARE)

    def all(self) -> dict[RecordId, Waiting]:
        now_ms = self._clock().timestamp() * 1000
        return {
            id: Waiting(
                backlog=each,
                oldest_s=max(0.0, now_ms - each.oldest_ms) / 1000 if each.oldest_ms else 0.0,
            )
            for id, each in self._backlogs.items()
        }
