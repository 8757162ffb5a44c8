"""Rate limits per key: a sliding window in the memory of this process."""

import math
from collections import deque
from dataclasses import dataclass, field

from hedgerow.errors import Throttled
from hedgerow.projects.model import KeyId


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    calls: int
    window_s: float


# The limits of server SDKs for each project.
SDK_RATE_LIMITS = (RateLimit(calls=600, window_s=60),)
API_RATE_LIMITS = (RateLimit(calls=480, window_s=60), RateLimit(calls=4800, window_s=3600))


@dataclass(slots=True)
class RateLimiter:
    """Counts the calls of each key. Refused calls do not count, so waiting always helps."""

    rates: tuple[RateLimit, ...]
    _calls: dict[KeyId, deque[float]] = field(default_factory=dict)

    def admit(self, key_id: KeyId, now_s: float) -> None:
        """Count one call. Raises Throttled with the time until the next call is allowed."""
        if not self.rates:
            return
        calls = self._calls.setdefault(key_id, deque(maxlen=max(r.calls for r in self.rates)))
        wait_s = max(_wait_s(calls, rate, now_s) for rate in self.rates)
        if wait_s > 0:
            raise Throttled(math.ceil(wait_s))
        calls.append(now_s)


def _wait_s(calls: deque[float], rate: RateLimit, now_s: float) -> float:
    if len(calls) < rate.calls:
        return 0.0
    # The call that must leave the window before the next is allowed.
    return max(0.0, calls[-rate.calls] + rate.window_s - now_s)
