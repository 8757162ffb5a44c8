from unittest.mock import patch

import pytest

from hedgerow.errors import Throttled
from hedgerow.projects.model import KeyId
from hedgerow.projects.rate_limit import API_RATE_LIMITS, RateLimiter

ANN, BOB = KeyId("ann"), KeyId("bob")


def is_admitted(limiter: RateLimiter, now_s: float, key: KeyId = ANN) -> bool:
    try:
        limiter.admit(key, now_s)
    except Throttled:
        return False
    return True


def retry_after_s(limiter: RateLimiter, now_s: float) -> int:
    with pytest.raises(Throttled) as raised:
        limiter.admit(ANN, now_s)
    return int(raised.value.headers["Retry-After"])


def test_480_calls_a_minute_are_admitted() -> None:
    limiter = RateLimiter(API_RATE_LIMITS)
    assert all(is_admitted(limiter, 100.0 + call / 100) for call in range(480))
    assert not is_admitted(limiter, 105.0)
    assert not is_admitted(limiter, 159.99)
    assert is_admitted(limiter, 160.0)
    assert not is_admitted(limiter, 160.0)


def test_4800_calls_an_hour_are_admitted() -> None:
    limiter = RateLimiter(API_RATE_LIMITS)
    assert all(is_admitted(limiter, call * 0.2) for call in range(4800))
    assert not is_admitted(limiter, 1000.0)
    assert not is_admitted(limiter, 3599.9)
    assert is_admitted(limiter, 3600.0)


@pytest.mark.parametrize(("now_s", "wait_s"), [(0.0, 60), (0.5, 60), (24.5, 36), (59.7, 1)])
def test_retry_after_is_rounded_up_to_seconds(now_s: float, wait_s: int) -> None:
    limiter = RateLimiter(API_RATE_LIMITS)
    for _ in range(480):
        limiter.admit(ANN, 0.0)
    assert retry_after_s(limiter, now_s) == wait_s
    assert is_admitted(limiter, now_s + wait_s)


def test_retry_after_is_the_longest_wait() -> None:
    limiter = RateLimiter(API_RATE_LIMITS)
    for call in range(4800):
        limiter.admit(ANN, call * 0.2)
    assert retry_after_s(limiter, 960.5) == 2640


def test_refused_calls_do_not_prolong_the_wait() -> None:
    limiter = RateLimiter(API_RATE_LIMITS)
    for _ in range(480):
        limiter.admit(ANN, 0.0)
    assert not any(is_admitted(limiter, 1.0 + call / 100) for call in range(1000))
    assert is_admitted(limiter, 60.0)


def test_each_key_has_its_own_limit() -> None:
    limiter = RateLimiter(API_RATE_LIMITS)
    for _ in range(480):
        limiter.admit(ANN, 0.0)
    assert not is_admitted(limiter, 1.0, ANN)
    assert is_admitted(limiter, 1.0, BOB)


def test_without_limits_no_call_is_refused_or_counted() -> None:
    limiter = RateLimiter(())
    assert all(is_admitted(limiter, 0.0) for _ in range(5000))
    assert limiter._calls == {}


def test_memory_of_a_key_is_bounded_by_its_limit() -> None:
    limiter = RateLimiter(API_RATE_LIMITS)
    assert all(is_admitted(limiter, call * 0.8) for call in range(20_000))
    assert len(limiter._calls[ANN]) == 4800


def test_calls_in_other_processes_count() -> None:
    limiter = RateLimiter(API_RATE_LIMITS, "api")
    with patch("time.monotonic", lambda: 10.0):
        limiter.take_for_others({"api ann": 479.0, "api bob": 1e9, "sdk ann": 5.0, "apiann": 5.0})
    assert is_admitted(limiter, 10.0)
    assert retry_after_s(limiter, 10.0) == 60
    assert not is_admitted(limiter, 11.0, BOB)
    assert is_admitted(limiter, 70.0)


def test_calls_are_told_to_other_processes_once() -> None:
    limiter = RateLimiter(API_RATE_LIMITS, "api")
    for _ in range(481):
        is_admitted(limiter, 0.0)
    limiter.take_for_others({"api bob": 7.0})
    assert limiter.collect_used() == {"api ann": 480.0}
    assert limiter.collect_used() == {}


def test_without_limits_nothing_is_told_or_counted() -> None:
    limiter = RateLimiter((), "api")
    assert is_admitted(limiter, 0.0)
    limiter.take_for_others({"api ann": 1e9})
    assert is_admitted(limiter, 0.0)
    assert limiter.collect_used() == {}
