"""How destinations stand, and what is counted of them."""

from collections.abc import Mapping

import pytest

from hedgerow.pipelines.deliveries import LATENCY_BOUNDS_MS, Hour, latency_place
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.standings import Standing, Standings, rate
from tests.unit.fake_time import START

ONE, TWO = RecordId(1), RecordId(2)


@pytest.mark.parametrize(
    ("delivered", "dead", "shown"),
    [
        (0, 0, ""),
        (5, 5, "0.500"),
        (998, 2, "0.998"),
        (3, 0, "1.000"),
        (99999, 1, "0.999"),
        (0, 1, "0.000"),
    ],
)
def test_a_rate_is_one_only_if_nothing_died(delivered: int, dead: int, shown: str) -> None:
    assert rate(delivered, dead) == shown


class Told:
    def __init__(self) -> None:
        self.said: dict[RecordId, str] = {}
        self.counted: dict[RecordId, tuple[int, int]] = {}

    async def errors(self) -> Mapping[RecordId, str]:
        return self.said

    async def counts_since(self, since_ms: int) -> Mapping[RecordId, tuple[int, int]]:
        assert since_ms == int(START.timestamp() * 1000) - 86_400_000
        return self.counted


async def test_the_number_moves_with_every_change_and_only_then() -> None:
    told = Told()
    standings = Standings(told, lambda: START)
    await standings.watch()
    assert (standings.number, standings.of(ONE)) == (0, Standing())
    told.said, told.counted = {ONE: "HTTP 500"}, {TWO: (1, 1)}
    await standings.watch()
    await standings.watch()
    assert standings.number == 1
    assert standings.of(ONE) == Standing(error="HTTP 500")
    assert standings.of(TWO) == Standing(delivery_rate="0.500")
    told.said = {}
    await standings.watch()
    assert (standings.number, standings.of(ONE)) == (2, Standing())


def hour(*milliseconds: float) -> Hour:
    latencies = [0] * (len(LATENCY_BOUNDS_MS) + 1)
    for each in milliseconds:
        latencies[latency_place(each)] += 1
    return Hour(hour_ms=0, delivered=0, retried=0, dead=0, latencies=latencies)


def test_how_long_requests_took() -> None:
    assert hour().latency_ms(0.5) is None
    assert hour(3).latency_ms(0.99) == 5
    many = hour(*([8] * 90), *([400] * 10))
    assert [many.latency_ms(share) for share in (0.5, 0.9, 0.95)] == [10, 10, 500]
    assert hour(60_000).latency_ms(0.5) is None
