"""Time that moves only when somebody sleeps or a test says so."""

import asyncio
from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 12, tzinfo=UTC)

TICK_S = 2**-20

# Tests that fake sleeping still need to let other tasks run.
give_way = asyncio.sleep


class FakeTime:
    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """Never the same twice, like the real one."""
        self.advance(TICK_S)
        return self.seconds

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def advance(self, seconds: float) -> None:
        self.seconds += seconds

    async def sleep(self, seconds: float) -> None:
        """Instead of asyncio.sleep."""
        self.slept.append(seconds)
        self.advance(seconds)
        await give_way(0)
