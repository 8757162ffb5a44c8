"""Token buckets, and the limits of projects and addresses that use them."""

from collections import Counter
from collections.abc import Mapping
from unittest.mock import patch

import pytest

from hedgerow.errors import RateLimitExceeded
from hedgerow.projects.call_limits import (
    BURST_S,
    MAX_SHARED_DEBT_S,
    CallLimits,
    TokenBuckets,
    share_usage,
)
from hedgerow.projects.model import ProjectId
from tests.unit.fake_time import FakeTime

ONE, TWO = ProjectId(1), ProjectId(2)


def test_burst_is_admitted_then_the_rate() -> None:
    buckets = TokenBuckets(5)
    burst = int(5 * BURST_S)
    assert [buckets.take("a", 100.0) for _ in range(burst)] == [0.0] * burst
    assert buckets.take("a", 100.0) == pytest.approx(0.2)
    assert buckets.take("a", 100.1) == pytest.approx(0.1)
    assert buckets.take("a", 100.2) == 0.0
    assert buckets.take("b", 100.2) == 0.0


def test_large_cost_is_admitted_and_paid_later() -> None:
    buckets = TokenBuckets(10)
    assert buckets.take("a", 0.0, 150) == 0.0
    assert buckets.take("a", 0.0) == pytest.approx(5.1)
    assert buckets.take("a", 5.1) == 0.0


def test_debt_is_bounded() -> None:
    buckets = TokenBuckets(10)
    assert buckets.take("a", 0.0, 1_000_000) == 0.0
    assert buckets.take("a", 0.0) == pytest.approx(BURST_S + 0.1)


def test_buckets_are_bounded_and_the_least_used_is_forgotten() -> None:
    buckets = TokenBuckets(1, max_buckets=2)
    for _ in range(10):
        buckets.take("a", 0.0)
    buckets.take("b", 0.0)
    assert buckets.take("a", 0.0) > 0
    buckets.take("c", 0.0)  # b is forgotten, not a
    assert len(buckets._buckets) == 2
    assert buckets.take("a", 0.0) > 0


class Limits:
    """Call limits on a clock of their own, with the refusals that they reported."""

    def __init__(self, **rates: float) -> None:
        self.time = FakeTime()
        self.refused: Counter[tuple[str, ProjectId | None]] = Counter()
        none = {"project_calls_per_s": 0, "project_events_per_s": 0, "address_calls_per_s": 0}
        self.limits = CallLimits(**{**none, **rates}, on_refusal=self._count)

    def _count(self, limit: str, project_id: ProjectId | None) -> None:
        self.refused[limit, project_id] += 1

    def count_evaluations(self, calls: int, project_id: ProjectId = ONE) -> int:
        """Return how many of the calls are admitted."""
        with patch("time.monotonic", self.time.monotonic):
            admitted = 0
            for _ in range(calls):
                try:
                    self.limits.admit_evaluation(project_id)
                except RateLimitExceeded:
                    continue
                admitted += 1
        return admitted


def test_each_project_has_its_own_limit() -> None:
    limits = Limits(project_calls_per_s=1)
    assert limits.count_evaluations(15) == 10
    assert limits.count_evaluations(15, TWO) == 10
    assert limits.refused == {("evaluation", ONE): 5, ("evaluation", TWO): 5}


def test_capture_does_not_use_up_the_limit_of_evaluations() -> None:
    limits = Limits(project_calls_per_s=1)
    assert limits.count_evaluations(15) == 10
    limits.limits.admit_capture(ONE, 5)


def test_events_count_as_well_as_calls() -> None:
    limits = Limits(project_events_per_s=10)
    limits.limits.admit_capture(ONE, 150)
    with pytest.raises(RateLimitExceeded) as raised:
        limits.limits.admit_capture(ONE, 1)
    assert raised.value.status == 429
    assert raised.value.headers == {"Retry-After": "6"}
    assert raised.value.detail == (
        "Rate limit exceeded: more than 10 events of this project per second. "
        "Try again in 6 seconds."
    )
    limits.limits.admit_capture(TWO, 1)


def test_addresses_are_limited() -> None:
    limits = Limits(address_calls_per_s=0.1)
    limits.limits.admit_address("192.0.2.1")
    with pytest.raises(RateLimitExceeded):
        limits.limits.admit_address("192.0.2.1")
    limits.limits.admit_address("192.0.2.2")
    assert limits.refused == {("address", None): 1}


def test_rate_of_zero_is_no_limit() -> None:
    limits = Limits()
    assert limits.count_evaluations(10_000) == 10_000
    limits.limits.admit_capture(ONE, 1_000_000)
    limits.limits.admit_address("192.0.2.1")
    assert limits.limits.collect_used() == {}


class Exchange:
    """Hands over what one process used, and returns what others used."""

    def __init__(self, others: Mapping[str, float]) -> None:
        self.others = others
        self.received: Mapping[str, float] = {}

    async def exchange(self, used: Mapping[str, float]) -> Mapping[str, float]:
        self.received = used
        return self.others


async def test_use_in_other_processes_counts() -> None:
    limits = Limits(project_calls_per_s=1)
    assert limits.count_evaluations(3) == 3
    exchange = Exchange({"evaluation 1": 5.0, "unknown 1": 5.0})
    with patch("time.monotonic", limits.time.monotonic):
        await share_usage([limits.limits], exchange)
        assert exchange.received == {"evaluation 1": 3.0}
        assert limits.count_evaluations(15) == 2
        await share_usage([limits.limits], exchange)
    assert exchange.received == {"evaluation 1": 2.0}
    assert limits.count_evaluations(15) == 0


async def test_processes_that_each_admit_a_burst_admit_no_more_than_one_in_the_end() -> None:
    """Three full bursts before the first exchange are paid back until one alone would admit the
    next call."""
    limits = Limits(project_calls_per_s=1)
    assert limits.count_evaluations(15) == 10
    with patch("time.monotonic", limits.time.monotonic):
        await share_usage([limits.limits], Exchange({"evaluation 1": 20.0}))
    limits.time.advance(20)
    assert limits.count_evaluations(15) == 0
    limits.time.advance(5)
    assert limits.count_evaluations(15) == 5


async def test_debt_to_other_processes_is_bounded() -> None:
    limits = Limits(project_calls_per_s=1)
    with patch("time.monotonic", limits.time.monotonic):
        await share_usage([limits.limits], Exchange({"evaluation 1": 1_000_000.0}))
    limits.time.advance(MAX_SHARED_DEBT_S)
    assert limits.count_evaluations(15) == 0
    limits.time.advance(1)
    assert limits.count_evaluations(15) == 1


def test_other_processes_pay_what_this_one_pays_for_a_large_batch() -> None:
    limits = Limits(project_events_per_s=1)
    limits.limits.admit_capture(ONE, 1_000_000)
    assert limits.limits.collect_used() == {"events 1": 2 * BURST_S}


def test_little_use_is_not_exchanged() -> None:
    limits = Limits(project_calls_per_s=1000)
    assert limits.count_evaluations(19) == 19
    assert limits.limits.collect_used() == {}
    assert limits.count_evaluations(1) == 1
    assert limits.limits.collect_used() == {"evaluation 1": 20.0}
