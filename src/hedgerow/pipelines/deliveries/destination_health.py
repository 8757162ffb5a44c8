"""Health of destinations: error and delivery rate for the API, backlogs for the metrics."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from hedgerow.lib.clock import Clock
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import Backlog, BacklogStore, DestinationHealthStore

DAY_MS = 24 * 3_600_000
# Counting backlogs uses at most this share of the time, however large they are.
MAX_TIME_SHARE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationHealth:
    """Both fields are empty if there is nothing to show."""

    error: str = ""
    delivery_rate: str = ""


_NO_HEALTH = DestinationHealth()


class DestinationHealthCache:
    """The health of all destinations at the last refresh. `version` changes with any of them."""

    def __init__(self, store: DestinationHealthStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._health: dict[RecordId, DestinationHealth] = {}
        self.version = 0

    def get(self, id: RecordId) -> DestinationHealth:
        return self._health.get(id, _NO_HEALTH)

    async def refresh(self) -> None:
        since_ms = int(self._clock().timestamp() * 1000) - DAY_MS
        errors = await self._store.errors()
        counts = await self._store.counts_since(since_ms)
        now = {
            id: DestinationHealth(
                error=errors.get(id, ""),
                delivery_rate=format_delivery_rate(*counts.get(id, (0, 0))),
            )
            for id in errors.keys() | counts.keys()
        }
        if now != self._health:
            self._health = now
            self.version += 1


def format_delivery_rate(delivered: int, dead: int) -> str:
    """Format with three decimals, rounded down: 1.000 only if there is no dead letter."""
    total = delivered + dead
    return f"{delivered * 1000 // total / 1000:.3f}" if total else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogAge:
    backlog: Backlog
    oldest_s: float


class BacklogMonitor:
    def __init__(self, store: BacklogStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._backlogs: Mapping[RecordId, Backlog] = {}

    async def refresh(self) -> None:
        began = time.monotonic()
        self._backlogs = await self._store.backlogs()
        await asyncio.sleep((time.monotonic() - began) / MAX_TIME_SHARE)

    def get(self, id: RecordId) -> Backlog | None:
        return self._backlogs.get(id)

    def all(self) -> dict[RecordId, BacklogAge]:
        now_ms = self._clock().timestamp() * 1000
        return {
            id: BacklogAge(
                backlog=each,
                oldest_s=max(0.0, now_ms - each.oldest_ms) / 1000 if each.oldest_ms else 0.0,
            )
            for id, each in self._backlogs.items()
        }
