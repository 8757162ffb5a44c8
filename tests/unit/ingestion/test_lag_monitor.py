from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hedgerow.errors import Unavailable
from hedgerow.ingestion.backpressure import LagMonitor

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


class FakeInbox:
    """An inbox with the two queries of the lag monitor."""

    def __init__(self) -> None:
        self.answer: datetime | Unavailable | None = None

    async def oldest_accepted_at(self) -> datetime | None:
        if isinstance(self.answer, Unavailable):
            raise self.answer
        return self.answer

    async def count_dead_letters(self) -> int:
        return 3


@pytest.fixture
def monitor() -> tuple[LagMonitor, FakeInbox, list[datetime]]:
    inbox: Any = FakeInbox()
    now = [NOON]
    return LagMonitor(inbox, lambda: now[0]), inbox, now


async def test_empty_inbox_has_no_lag(
    monitor: tuple[LagMonitor, FakeInbox, list[datetime]],
) -> None:
    lag, _, _ = monitor
    await lag.refresh()
    assert lag.seconds() == 0
    assert lag.dead_letters == 3


async def test_lag_grows_between_refreshes_and_while_they_fail(
    monitor: tuple[LagMonitor, FakeInbox, list[datetime]],
) -> None:
    lag, inbox, now = monitor
    inbox.answer = NOON - timedelta(seconds=3)
    await lag.refresh()
    assert lag.seconds() == 3
    inbox.answer = Unavailable()
    now[0] += timedelta(seconds=7)
    with pytest.raises(Unavailable):
        await lag.refresh()
    assert lag.seconds() == 10


async def test_lag_is_never_negative(
    monitor: tuple[LagMonitor, FakeInbox, list[datetime]],
) -> None:
    lag, inbox, _ = monitor
    inbox.answer = NOON + timedelta(seconds=3)
    await lag.refresh()
    assert lag.seconds() == 0
