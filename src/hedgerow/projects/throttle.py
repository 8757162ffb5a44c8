"""Rate limits per personal key: a sliding window, kept in this process, bounded by its own
limit.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from hedgerow.errors import Throttled
from hedgerow.projects.model import KeyId


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    calls: int
    window_s: float


# What SDKs on servers may ask for, of each project.
SDK_RATES = (Rate(calls=600, window_s=60),)
API_RATES = (Rate(calls=480, window_s=60), Rate(calls=4800, window_s=3600))


@dataclass(slots=True)
class Throttle:
    """Counts calls of each key. Refused calls are not counted, so that waiting always helps."""

    rates: tuple[Rate, ...]
    _calls: dict[KeyId, deque[float]] = field(default_factory=dict)

    def admit(self, key_id: KeyId, now_s: float) -> None:
        """Count one call, or raise Throttled with the time until the next would pass."""
        if not self.rates:
            return
        calls = self._calls.setdefault(key_id, deque(maxlen=max(r.calls for r in self.rates)))
        wait_s = max(_wait_s(calls, rate, now_s) for rate in self.rates)
        if wait_s > 0:
            raise Throttled(math.ceil(wait_s))
        calls.append(now_s)


def _wait_s(calls: deque[float], rate: Rate, now_s: float) -> float:
    if len(calls) < rate.calls:
        return 0.0
    # The call that must leave the window before another fits.
    return max(0.0, calls[-rate.calls] + rate.window_s - now_s)
