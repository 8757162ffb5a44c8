"""A clock that advances only when code sleeps or a test advances it."""

import asyncio
from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 12, tzinfo=UTC)

TICK_S = 2**-20

# Tests that fake sleeping still need to let other tasks run.
real_sleep = asyncio.sleep


class FakeTime:
    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """Return a new time on every call, like a real clock."""
        self.advance(TICK_S)
        return self.seconds

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def advance(self, seconds: float) -> None:
        self.seconds += seconds

    async def sleep(self, seconds: float) -> None:
        """Replace asyncio.sleep."""
        self.slept.append(seconds)
        self.advance(seconds)
        await real_sleep(0)
