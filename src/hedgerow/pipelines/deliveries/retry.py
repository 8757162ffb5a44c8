"""Decisions after an attempt: delivered, retry at a time, or dead letter; and when to pause a
destination that keeps failing. Pure.
"""

from dataclasses import dataclass

from hedgerow.plugin.outcomes import Delivered, Outcome

INITIAL_BACKOFF_MS = 1_000
MAX_BACKOFF_MS = 3_600_000
MAX_ATTEMPTS = 25
# A destination is paused after this many failures in a row; then it gets one request at a time.
FAILURES_TO_PAUSE = 5
INITIAL_PROBE_INTERVAL_MS = 5_000
MAX_PROBE_INTERVAL_MS = 300_000
# A destination cannot ask for a longer wait.
MAX_RETRY_AFTER_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAt:
    due_ms: int
    attempts: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadDelivery:
    since_ms: int
    attempts: int
    reason: str


Decision = Delivered | RetryAt | DeadDelivery


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """A delivery before the attempt. A probe of a paused destination does not count as an attempt
    of the event."""

    attempts: int
    created_ms: int
    is_probe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """`jitter`, from 0 to 1, spreads the retries of events that failed together. A delivery older
    than `max_age_ms` is not retried."""

    now_ms: int
    jitter: float
    max_age_ms: int


def decide_next(outcome: Outcome, attempt: DeliveryAttempt, policy: RetryPolicy) -> Decision:
    if isinstance(outcome, Delivered):
        return Delivered()
    attempts = attempt.attempts + (0 if attempt.is_probe else 1)
    final_reason = ""
    if outcome.is_final:
        final_reason = outcome.reason
    elif attempts >= MAX_ATTEMPTS:
        final_reason = f"Gave up after {attempts} attempts: {outcome.reason}"
    elif policy.now_ms - attempt.created_ms >= policy.max_age_ms:
        final_reason = f"Gave up, the delivery is too old: {outcome.reason}"
    if final_reason:
        return DeadDelivery(since_ms=policy.now_ms, attempts=max(attempts, 1), reason=final_reason)
    wait = compute_backoff_ms(attempts) * (0.5 + policy.jitter / 2)
    if outcome.retry_after_s is not None:
        wait = max(wait, min(outcome.retry_after_s * 1000, MAX_RETRY_AFTER_MS))
    return RetryAt(due_ms=policy.now_ms + int(wait), attempts=attempts, reason=outcome.reason)


def compute_backoff_ms(attempts: int) -> int:
    """Return the longest wait after this many attempts, unless the destination asks for more."""
    return min(INITIAL_BACKOFF_MS << max(0, attempts - 1), MAX_BACKOFF_MS)


def compute_probe_interval_ms(failures: int) -> int:
    """Return how long a destination is paused after this many failures in a row."""
    over = min(max(0, failures - FAILURES_TO_PAUSE), 20)
    return min(INITIAL_PROBE_INTERVAL_MS << over, MAX_PROBE_INTERVAL_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseState:
    """The recent failures of a destination. `error` is empty while it works."""

    error: str = ""
    failures: int = 0
    paused_until_ms: int = 0

    @property
    def is_paused(self) -> bool:
        return self.failures >= FAILURES_TO_PAUSE

    def remaining_pause_ms(self, now_ms: int) -> int:
        """Return how long the destination stays paused. A pause beyond the maximum was stored
        before the clock was corrected, so it does not count."""
        left = self.paused_until_ms - now_ms
        return left if 0 < left <= MAX_RETRY_AFTER_MS else 0

    def next_state(self, outcome: Outcome, now_ms: int) -> "PauseState":
        """Return the state after one more request. A destination that rejects an event works."""
        if isinstance(outcome, Delivered):
            return NOT_PAUSED
        if outcome.event_rejected:
            return PauseState(error=outcome.reason)
        failures = self.failures + 1
        if failures < FAILURES_TO_PAUSE:
            return PauseState(error=outcome.reason, failures=failures)
        pause = compute_probe_interval_ms(failures)
        if outcome.retry_after_s is not None:
            pause = max(pause, min(int(outcome.retry_after_s * 1000), MAX_RETRY_AFTER_MS))
        return PauseState(
            error=f"Paused after {failures} failures in a row. Its events wait and Hedgerow probes "
            f"it regularly. Last error: {outcome.reason}",
            failures=failures,
            paused_until_ms=now_ms + pause,
        )


NOT_PAUSED = PauseState()
