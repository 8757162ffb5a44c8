from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hedgerow.errors import Unavailable
from hedgerow.ingestion.lag import Lag

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


class Since:
    """As much of an inbox as is looked at."""

    def __init__(self) -> None:
        self.answer: datetime | Unavailable | None = None

    async def waits_since(self) -> datetime | None:
        if isinstance(self.answer, Unavailable):
            raise self.answer
        return self.answer

    async def number_set_aside(self) -> int:
        return 3


@pytest.fixture
def world() -> tuple[Lag, Since, list[datetime]]:
    inbox: Any = Since()
    now = [NOON]
    return Lag(inbox, lambda: now[0]), inbox, now


async def test_nothing_waits(world: tuple[Lag, Since, list[datetime]]) -> None:
    lag, _, _ = world
    await lag.look()
    assert lag.seconds() == 0
    assert lag.set_aside == 3


async def test_what_waits_grows_older_between_two_looks_and_while_nobody_can_look(
    world: tuple[Lag, Since, list[datetime]],
) -> None:
    lag, inbox, now = world
    inbox.answer = NOON - timedelta(seconds=3)
    await lag.look()
    assert lag.seconds() == 3
    inbox.answer = Unavailable()
    now[0] += timedelta(seconds=7)
    with pytest.raises(Unavailable):
        await lag.look()
    assert lag.seconds() == 10


async def test_a_clock_that_was_set_back_makes_no_negative_age(
    world: tuple[Lag, Since, list[datetime]],
) -> None:
    lag, inbox, _ = world
    inbox.answer = NOON + timedelta(seconds=3)
    await lag.look()
    assert lag.seconds() == 0
