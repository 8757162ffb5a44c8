import pytest

from hedgerow.errors import Throttled
from hedgerow.projects.model import KeyId
from hedgerow.projects.throttle import API_RATES, Throttle

ANN, BOB = KeyId("ann"), KeyId("bob")


def admitted(throttle: Throttle, now_s: float, key: KeyId = ANN) -> bool:
    try:
        throttle.admit(key, now_s)
    except Throttled:
        return False
    return True


def retry_after_s(throttle: Throttle, now_s: float) -> int:
    with pytest.raises(Throttled) as raised:
        throttle.admit(ANN, now_s)
    return int(raised.value.headers["Retry-After"])


def test_480_calls_a_minute_pass_and_the_next_waits_for_the_first_to_leave_the_window() -> None:
    throttle = Throttle(API_RATES)
    assert all(admitted(throttle, 100.0 + call / 100) for call in range(480))
    assert not admitted(throttle, 105.0)
    assert not admitted(throttle, 159.99)
    assert admitted(throttle, 160.0)
    assert not admitted(throttle, 160.0)


def test_4800_calls_an_hour_pass_and_the_next_waits_for_the_hour() -> None:
    throttle = Throttle(API_RATES)
    assert all(admitted(throttle, call * 0.2) for call in range(4800))
    assert not admitted(throttle, 1000.0)
    assert not admitted(throttle, 3599.9)
    assert admitted(throttle, 3600.0)


@pytest.mark.parametrize(("now_s", "wait_s"), [(0.0, 60), (0.5, 60), (24.5, 36), (59.7, 1)])
def test_the_caller_is_told_the_whole_seconds_until_the_next_call_passes(
    now_s: float, wait_s: int
) -> None:
    throttle = Throttle(API_RATES)
    for _ in range(480):
        throttle.admit(ANN, 0.0)
    assert retry_after_s(throttle, now_s) == wait_s
    assert admitted(throttle, now_s + wait_s)


def test_the_longest_of_the_waits_is_told() -> None:
    throttle = Throttle(API_RATES)
    for call in range(4800):
        throttle.admit(ANN, call * 0.2)
    assert retry_after_s(throttle, 960.5) == 2640


def test_refused_calls_do_not_prolong_the_wait() -> None:
    throttle = Throttle(API_RATES)
    for _ in range(480):
        throttle.admit(ANN, 0.0)
    assert not any(admitted(throttle, 1.0 + call / 100) for call in range(1000))
    assert admitted(throttle, 60.0)


def test_each_key_has_its_own_allowance() -> None:
    throttle = Throttle(API_RATES)
    for _ in range(480):
        throttle.admit(ANN, 0.0)
    assert not admitted(throttle, 1.0, ANN)
    assert admitted(throttle, 1.0, BOB)


def test_without_rates_nothing_is_refused_or_remembered() -> None:
    throttle = Throttle(())
    assert all(admitted(throttle, 0.0) for _ in range(5000))
    assert throttle._calls == {}


def test_a_key_is_remembered_by_no_more_calls_than_its_allowance() -> None:
    throttle = Throttle(API_RATES)
    assert all(admitted(throttle, call * 0.8) for call in range(20_000))
    assert len(throttle._calls[ANN]) == 4800
