"""How destinations stand: the rate of deliveries and the error that their records show."""

from dataclasses import dataclass

from hedgerow.lib.clock import Clock
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import StandingStore

DAY_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Nothing in either where there is nothing to tell."""

    error: str = ""
    delivery_rate: str = ""


_NOTHING = Standing()


class Standings:
    """As they were a moment ago. `number` moves whenever one of them changes."""

    def __init__(self, store: StandingStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._standings: dict[RecordId, Standing] = {}
        self.number = 0

    def of(self, id: RecordId) -> Standing:
        return self._standings.get(id, _NOTHING)

    async def watch(self) -> None:
        since_ms = int(self._clock().timestamp() * 1000) - DAY_MS
        errors = await self._store.errors()
        counts = await self._store.counts_since(since_ms)
        now = {
            id: Standing(error=errors.get(id, ""), delivery_rate=rate(*counts.get(id, (0, 0))))
            for id in errors.keys() | counts.keys()
        }
        if now != self._standings:
            self._standings = now
            self.number += 1


def rate(delivered: int, dead: int) -> str:
    """With three places, and 1.000 only if nothing died."""
    total = delivered + dead
    return f"{delivered * 1000 // total / 1000:.3f}" if total else ""
