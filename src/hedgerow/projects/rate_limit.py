"""Rate limits per key: a sliding window, with the calls that other processes tell of."""

import math
import time
from collections import Counter, deque
from collections.abc import Mapping
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
    """Counts the calls of each key. Refused calls do not count, so waiting always helps. `name`
    distinguishes the limit from others that processes share."""

    rates: tuple[RateLimit, ...]
    name: str = "key"
    _calls: dict[KeyId, deque[float]] = field(default_factory=dict)
    # Calls that are not shared with other processes yet.
    _used: Counter[KeyId] = field(default_factory=Counter)

    def admit(self, key_id: KeyId, now_s: float) -> None:
        """Count one call. Raises Throttled with the time until the next call is allowed."""
        if not self.rates:
            return
        calls = self._list_calls(key_id)
        wait_s = max(_wait_s(calls, rate, now_s) for rate in self.rates)
        if wait_s > 0:
            raise Throttled(math.ceil(wait_s))
        calls.append(now_s)
        self._used[key_id] += 1

    def collect_used(self) -> dict[str, float]:
        """Return the calls since the last time, by the name of the limit and key."""
        used, self._used = self._used, Counter()
        return {f"{self.name} {key_id}": float(number) for key_id, number in used.items()}

    def take_for_others(self, used: Mapping[str, float]) -> None:
        """Count the calls of other processes, in the form of `collect_used`, as calls of now."""
        now_s, prefix = time.monotonic(), f"{self.name} "
        for bucket, number in used.items():
            if self.rates and bucket.startswith(prefix):
                calls = self._list_calls(KeyId(bucket.removeprefix(prefix)))
                calls.extend([now_s] * int(min(number, calls.maxlen or 0)))

    def _list_calls(self, key_id: KeyId) -> deque[float]:
        return self._calls.setdefault(key_id, deque(maxlen=max(r.calls for r in self.rates)))


def _wait_s(calls: deque[float], rate: RateLimit, now_s: float) -> float:
    if len(calls) < rate.calls:
        return 0.0
    # The call that must leave the window before the next is allowed.
    return max(0.0, calls[-rate.calls] + rate.window_s - now_s)
