"""What is decided after a try, and when a destination is left alone."""

from datetime import timedelta

import pytest

from hedgerow.pipelines.answers import outcome_of
from hedgerow.pipelines.retry import (
    FAILURES_TO_PAUSE,
    HEALTHY,
    LONGEST_PAUSE_MS,
    LONGEST_PROBE_MS,
    MAX_ATTEMPTS,
    Dead,
    Delivered,
    Health,
    RetryAt,
    Retrying,
    Tried,
    decided,
)
from hedgerow.pipelines.sending import Failed, Response, Sent
from tests.unit.fake_time import START

NOW = 1_000_000_000
DAY = 24 * 3600 * 1000
FAILED = Failed(reason="HTTP 500")


def decision(outcome: Sent | Failed, attempts: int = 0, **tried: int | bool) -> object:
    given = Tried(**{"attempts": attempts, "created_ms": NOW, **tried})  # type: ignore[arg-type]
    return decided(outcome, given, Retrying(now_ms=NOW, jitter=1.0, keep_ms=7 * DAY))


def test_pauses_grow_up_to_a_bound() -> None:
    waits = []
    for attempts in range(MAX_ATTEMPTS - 1):
        again = decision(FAILED, attempts)
        assert isinstance(again, RetryAt)
        assert again.attempts == attempts + 1
        waits.append(again.due_ms - NOW)
    assert waits[:4] == [1000, 2000, 4000, 8000]
    assert waits[-1] == LONGEST_PAUSE_MS


def test_jitter_never_shortens_a_pause_by_more_than_half() -> None:
    when = Retrying(now_ms=NOW, jitter=0.0, keep_ms=7 * DAY)
    again = decided(FAILED, Tried(attempts=0, created_ms=NOW), when)
    assert again == RetryAt(due_ms=NOW + 500, attempts=1, reason="HTTP 500")


def test_what_arrived_is_delivered() -> None:
    assert decision(Sent()) == Delivered()


@pytest.mark.parametrize(
    ("outcome", "tried", "reason"),
    [
        (Failed(reason="HTTP 400", is_final=True), {}, "HTTP 400"),
        (FAILED, {"attempts": MAX_ATTEMPTS - 1}, "Given up after 25 tries: HTTP 500"),
        (FAILED, {"created_ms": NOW - 7 * DAY}, "Given up, it waited for too long: HTTP 500"),
    ],
    ids=["final", "too often", "too old"],
)
def test_what_is_dead(outcome: Failed, tried: dict[str, int], reason: str) -> None:
    dead = decision(outcome, **tried)
    assert isinstance(dead, Dead)
    assert (dead.reason, dead.since_ms) == (reason, NOW)


def test_a_probe_costs_the_event_nothing() -> None:
    again = decision(FAILED, attempts=3, is_probe=True)
    assert isinstance(again, RetryAt)
    assert again.attempts == 3


def test_nobody_is_asked_before_they_said() -> None:
    again = decision(Failed(reason="HTTP 429", retry_after_s=90))
    assert isinstance(again, RetryAt)
    assert again.due_ms == NOW + 90_000


def test_a_destination_is_paused_after_some_failures_and_well_after_one_success() -> None:
    health = HEALTHY
    for _ in range(FAILURES_TO_PAUSE - 1):
        health = health.after(FAILED, NOW)
        assert not health.is_paused
        assert health.error == "HTTP 500"
    pauses = []
    for _ in range(10):
        health = health.after(FAILED, NOW)
        assert health.is_paused
        assert "HTTP 500" in health.error
        pauses.append(health.paused_until_ms - NOW)
    assert pauses[:3] == [5_000, 10_000, 20_000]
    assert pauses[-1] == LONGEST_PROBE_MS
    assert health.after(Sent(), NOW) == HEALTHY


@pytest.mark.parametrize(
    ("status", "is_final"),
    [(301, True), (400, True), (404, True), (408, False), (425, False), (429, False), (503, False)],
)
def test_what_an_answer_means(status: int, is_final: bool) -> None:
    outcome = outcome_of(Response(status=status, headers={}, body=b"why\0"), START)
    assert isinstance(outcome, Failed)
    assert outcome.is_final is is_final
    assert "\0" not in outcome.reason
    assert str(status) in outcome.reason


@pytest.mark.parametrize("status", [200, 202, 204])
def test_what_arrived(status: int) -> None:
    assert outcome_of(Response(status=status, headers={}, body=b""), START) == Sent()


def test_retry_after_is_seconds_or_a_date() -> None:
    later = (START + timedelta(seconds=120)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    for said, seconds in (("120", 120.0), (later, 120.0), ("soon", None), ("", None)):
        response = Response(status=503, headers={"retry-after": said}, body=b"")
        outcome = outcome_of(response, START.replace(microsecond=0))
        assert isinstance(outcome, Failed)
        assert outcome.retry_after_s == seconds, said


@pytest.mark.parametrize(
    ("until_ms", "left_ms"),
    [(0, 0), (NOW - 1, 0), (NOW + 5000, 5000), (NOW + DAY, DAY), (NOW + 2 * DAY, 0)],
)
def test_a_clock_that_was_wrong_pauses_nobody_for_years(until_ms: int, left_ms: int) -> None:
    assert Health(failures=9, paused_until_ms=until_ms).pause_ms(NOW) == left_ms


def test_a_refused_event_says_nothing_about_its_destination() -> None:
    refused = Failed(reason="HTTP 400", is_final=True, is_events_fault=True)
    health = HEALTHY
    for _ in range(FAILURES_TO_PAUSE - 1):
        health = health.after(FAILED, NOW)
    assert health.after(FAILED, NOW).is_paused
    assert health.after(refused, NOW).failures == 0
    for _ in range(2 * FAILURES_TO_PAUSE):
        health = health.after(refused, NOW)
    assert (health.is_paused, health.error) == (False, "HTTP 400")
