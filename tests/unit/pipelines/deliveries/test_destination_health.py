"""The health of destinations: rates, errors and latencies."""

from collections.abc import Mapping

import pytest

from hedgerow.pipelines.deliveries.destination_health import (
    DestinationHealth,
    DestinationHealthCache,
    format_delivery_rate,
)
from hedgerow.pipelines.deliveries.model import LATENCY_BOUNDS_MS, DeliveryHour, latency_bucket
from hedgerow.pipelines.model import RecordId
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
def test_rate_is_one_only_without_dead_letters(delivered: int, dead: int, shown: str) -> None:
    assert format_delivery_rate(delivered, dead) == shown


class FakeStore:
    def __init__(self) -> None:
        self.current_errors: dict[RecordId, str] = {}
        self.counted: dict[RecordId, tuple[int, int]] = {}

    async def errors(self) -> Mapping[RecordId, str]:
        return self.current_errors

    async def counts_since(self, since_ms: int) -> Mapping[RecordId, tuple[int, int]]:
        assert since_ms == int(START.timestamp() * 1000) - 86_400_000
        return self.counted


async def test_version_changes_only_with_the_health() -> None:
    store = FakeStore()
    cache = DestinationHealthCache(store, lambda: START)
    await cache.refresh()
    assert (cache.version, cache.get(ONE)) == (0, DestinationHealth())
    store.current_errors, store.counted = {ONE: "HTTP 500"}, {TWO: (1, 1)}
    await cache.refresh()
    await cache.refresh()
    assert cache.version == 1
    assert cache.get(ONE) == DestinationHealth(error="HTTP 500")
    assert cache.get(TWO) == DestinationHealth(delivery_rate="0.500")
    store.current_errors = {}
    await cache.refresh()
    assert (cache.version, cache.get(ONE)) == (2, DestinationHealth())


def hour(*milliseconds: float) -> DeliveryHour:
    latencies = [0] * (len(LATENCY_BOUNDS_MS) + 1)
    for each in milliseconds:
        latencies[latency_bucket(each)] += 1
    return DeliveryHour(hour_ms=0, delivered=0, retried=0, dead=0, latencies=latencies)


def test_latency_percentiles() -> None:
    assert hour().latency_ms(0.5) is None
    assert hour(3).latency_ms(0.99) == 5
    many = hour(*([8] * 90), *([400] * 10))
    assert [many.latency_ms(share) for share in (0.5, 0.9, 0.95)] == [10, 10, 500]
    assert hour(60_000).latency_ms(0.5) is None
