"""Decisions after an attempt, pauses of destinations, and outcomes of HTTP responses."""

from datetime import timedelta

import pytest

from hedgerow.pipelines.deliveries.retry import (
    FAILURES_TO_PAUSE,
    MAX_ATTEMPTS,
    MAX_BACKOFF_MS,
    MAX_PROBE_INTERVAL_MS,
    NOT_PAUSED,
    DeadDelivery,
    DeliveryAttempt,
    PauseState,
    RetryAt,
    RetryPolicy,
    decide_next,
)
from hedgerow.plugin.http import Response
from hedgerow.plugin.outcomes import Delivered, Failed, classify_response
from tests.unit.fake_time import START

NOW = 1_000_000_000
DAY = 24 * 3600 * 1000
FAILED = Failed(reason="HTTP 500")


def decision(outcome: Delivered | Failed, attempts: int = 0, **fields: int | bool) -> object:
    attempt = DeliveryAttempt(**{"attempts": attempts, "created_ms": NOW, **fields})  # type: ignore[arg-type]
    return decide_next(outcome, attempt, RetryPolicy(now_ms=NOW, jitter=1.0, max_age_ms=7 * DAY))


def test_pauses_grow_up_to_a_bound() -> None:
    delays = []
    for attempts in range(MAX_ATTEMPTS - 1):
        again = decision(FAILED, attempts)
        assert isinstance(again, RetryAt)
        assert again.attempts == attempts + 1
        delays.append(again.due_ms - NOW)
    assert delays[:4] == [1000, 2000, 4000, 8000]
    assert delays[-1] == MAX_BACKOFF_MS


def test_jitter_never_shortens_a_pause_by_more_than_half() -> None:
    when = RetryPolicy(now_ms=NOW, jitter=0.0, max_age_ms=7 * DAY)
    again = decide_next(FAILED, DeliveryAttempt(attempts=0, created_ms=NOW), when)
    assert again == RetryAt(due_ms=NOW + 500, attempts=1, reason="HTTP 500")


def test_delivered_event_is_not_retried() -> None:
    assert decision(Delivered()) == Delivered()


@pytest.mark.parametrize(
    ("outcome", "fields", "reason"),
    [
        (Failed(reason="HTTP 400", is_final=True), {}, "HTTP 400"),
        (FAILED, {"attempts": MAX_ATTEMPTS - 1}, "Gave up after 25 attempts: HTTP 500"),
        (FAILED, {"created_ms": NOW - 7 * DAY}, "Gave up, the delivery is too old: HTTP 500"),
    ],
    ids=["final", "too often", "too old"],
)
def test_dead_letters(outcome: Failed, fields: dict[str, int], reason: str) -> None:
    dead = decision(outcome, **fields)
    assert isinstance(dead, DeadDelivery)
    assert (dead.reason, dead.since_ms) == (reason, NOW)


def test_probe_does_not_count_as_an_attempt() -> None:
    again = decision(FAILED, attempts=3, is_probe=True)
    assert isinstance(again, RetryAt)
    assert again.attempts == 3


def test_retry_after_delays_the_retry() -> None:
    again = decision(Failed(reason="HTTP 429", retry_after_s=90))
    assert isinstance(again, RetryAt)
    assert again.due_ms == NOW + 90_000


def test_destination_is_paused_after_failures_and_resumed_after_a_success() -> None:
    health = NOT_PAUSED
    for _ in range(FAILURES_TO_PAUSE - 1):
        health = health.next_state(FAILED, NOW)
        assert not health.is_paused
        assert health.error == "HTTP 500"
    pauses = []
    for _ in range(10):
        health = health.next_state(FAILED, NOW)
        assert health.is_paused
        assert "HTTP 500" in health.error
        pauses.append(health.paused_until_ms - NOW)
    assert pauses[:3] == [5_000, 10_000, 20_000]
    assert pauses[-1] == MAX_PROBE_INTERVAL_MS
    assert health.next_state(Delivered(), NOW) == NOT_PAUSED


@pytest.mark.parametrize(
    ("status", "is_final"),
    [(301, True), (400, True), (404, True), (408, False), (425, False), (429, False), (503, False)],
)
def test_failed_responses(status: int, is_final: bool) -> None:
    outcome = classify_response(Response(status=status, headers={}, body=b"why\0"), START)
    assert isinstance(outcome, Failed)
    assert outcome.is_final is is_final
    assert "\0" not in outcome.reason
    assert str(status) in outcome.reason


@pytest.mark.parametrize("status", [200, 202, 204])
def test_successful_responses(status: int) -> None:
    assert classify_response(Response(status=status, headers={}, body=b""), START) == Delivered()


def test_retry_after_is_seconds_or_a_date() -> None:
    later = (START + timedelta(seconds=120)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    for value, seconds in (("120", 120.0), (later, 120.0), ("soon", None), ("", None)):
        response = Response(status=503, headers={"retry-after": value}, body=b"")
        outcome = classify_response(response, START.replace(microsecond=0))
        assert isinstance(outcome, Failed)
        assert outcome.retry_after_s == seconds, value


@pytest.mark.parametrize(
    ("until_ms", "left_ms"),
    [(0, 0), (NOW - 1, 0), (NOW + 5000, 5000), (NOW + DAY, DAY), (NOW + 2 * DAY, 0)],
)
def test_corrected_clock_causes_no_endless_pause(until_ms: int, left_ms: int) -> None:
    assert PauseState(failures=9, paused_until_ms=until_ms).remaining_pause_ms(NOW) == left_ms


def test_rejected_event_does_not_count_against_its_destination() -> None:
    refused = Failed(reason="HTTP 400", is_final=True, event_rejected=True)
    health = NOT_PAUSED
    for _ in range(FAILURES_TO_PAUSE - 1):
        health = health.next_state(FAILED, NOW)
    assert health.next_state(FAILED, NOW).is_paused
    assert health.next_state(refused, NOW).failures == 0
    for _ in range(2 * FAILURES_TO_PAUSE):
        health = health.next_state(refused, NOW)
    assert (health.is_paused, health.error) == (False, "HTTP 400")
