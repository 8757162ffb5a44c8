"""What is decided after a try: delivered, again at some moment, or dead. And when a destination is
left alone for a while because it keeps failing. Pure.
"""

from dataclasses import dataclass

from hedgerow.pipelines.sending import Outcome, Sent

FIRST_PAUSE_MS = 1_000
LONGEST_PAUSE_MS = 3_600_000
MAX_ATTEMPTS = 25
# After so many failed requests in a row a destination is paused; then one is tried at a time.
FAILURES_TO_PAUSE = 5
FIRST_PROBE_MS = 5_000
LONGEST_PROBE_MS = 300_000
# Nobody may put us off for longer than this.
LONGEST_RETRY_AFTER_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Delivered:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAt:
    due_ms: int
    attempts: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    since_ms: int
    attempts: int
    reason: str


Decision = Delivered | RetryAt | Dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A delivery as it was before the try. A probe of a paused destination is no fault of the
    event's, so it does not count."""

    attempts: int
    created_ms: int
    is_probe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying:
    """When, by whom: `jitter` from 0 to 1 spreads those who failed together, `keep_ms` is how long
    a delivery may wait in all."""

    now_ms: int
    jitter: float
    keep_ms: int


def decided(outcome: Outcome, tried: Tried, when: Retrying) -> Decision:
    if isinstance(outcome, Sent):
        return Delivered()
    attempts = tried.attempts + (0 if tried.is_probe else 1)
    why_dead = ""
    if outcome.is_final:
        why_dead = outcome.reason
    elif attempts >= MAX_ATTEMPTS:
        why_dead = f"Given up after {attempts} tries: {outcome.reason}"
    elif when.now_ms - tried.created_ms >= when.keep_ms:
        why_dead = f"Given up, it waited for too long: {outcome.reason}"
    if why_dead:
        return Dead(since_ms=when.now_ms, attempts=max(attempts, 1), reason=why_dead)
    pause = min(FIRST_PAUSE_MS * 2 ** max(0, attempts - 1), LONGEST_PAUSE_MS)
    wait = pause * (0.5 + when.jitter / 2)
    if outcome.retry_after_s is not None:
        wait = max(wait, min(outcome.retry_after_s * 1000, LONGEST_RETRY_AFTER_MS))
    return RetryAt(due_ms=when.now_ms + int(wait), attempts=attempts, reason=outcome.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a destination fares. `error` is empty while all is well."""

    error: str = ""
    failures: int = 0
    paused_until_ms: int = 0

    @property
    def is_paused(self) -> bool:
        return self.failures >= FAILURES_TO_PAUSE

    def pause_ms(self, now_ms: int) -> int:
        """How long it is still left alone. Nobody pauses for longer than we may be put off: such
        a moment was set before somebody put the clock right."""
        left = self.paused_until_ms - now_ms
        return left if 0 < left <= LONGEST_RETRY_AFTER_MS else 0

    def after(self, outcome: Outcome, now_ms: int) -> "Health":
        """After one more request. A destination that refuses an event for the event's own sake
        works."""
        if isinstance(outcome, Sent):
            return HEALTHY
        if outcome.is_events_fault:
            return Health(error=outcome.reason)
        failures = self.failures + 1
        over = failures - FAILURES_TO_PAUSE
        if over < 0:
            return Health(error=outcome.reason, failures=failures)
        pause = min(FIRST_PROBE_MS * 2 ** min(over, 20), LONGEST_PROBE_MS)
        if outcome.retry_after_s is not None:
            pause = max(pause, min(int(outcome.retry_after_s * 1000), LONGEST_RETRY_AFTER_MS))
        return Health(
            error=f"Paused after {failures} failures in a row, and tried again from time to time;"
            f" its events wait. Last: {outcome.reason}",
            failures=failures,
            paused_until_ms=now_ms + pause,
        )


HEALTHY = Health()
