"""Limits on flag evaluation and capture, per project and per client address.

Anyone can read the key of a project from a web page, so these calls are limited without regard to
who makes them. A limit is a token bucket: a rate, and a burst of `BURST_S` times the rate.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from hedgerow.errors import RateLimitExceeded
from hedgerow.projects.model import ProjectId

BURST_S = 10.0
# Processes that each admit a burst before they hear of each other owe as much together. A process
# that was frozen hears of more than that, so there is a bound.
MAX_SHARED_DEBT_S = 60.0
# Beyond it, the buckets that were not used for longest are forgotten.
MAX_BUCKETS = 20_000
# Processes exchange what they used of a bucket once it is this share of a second's worth.
EXCHANGED_SHARE = 0.02
MAX_EXCHANGED = 1000

# Counts and logs a refused call: the name of the limit, and the project if it is one of a project.
OnRefusal = Callable[[str, ProjectId | None], None]


class TokenBucket:
    __slots__ = ("tokens", "updated_at_s", "used")

    def __init__(self, tokens: float, now_s: float) -> None:
        self.tokens = tokens
        self.updated_at_s = now_s
        # What has not been published to other processes yet.
        self.used = 0.0


class TokenBuckets:
    """A bucket for each key. A call is admitted while its bucket holds a token. It may cost more
    than the bucket holds: then the next call waits until the debt, at most one burst, is paid."""

    def __init__(self, rate_per_s: float, max_buckets: int = MAX_BUCKETS) -> None:
        self.rate_per_s = rate_per_s
        self._burst = max(1.0, rate_per_s * BURST_S)
        self._max_buckets = max_buckets
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, key: str, now_s: float, cost: float = 1.0) -> float:
        """Take tokens. Return 0, or the seconds to wait if there are none."""
        bucket = self._buckets.get(key) or self._add(key, now_s)
        self._buckets.move_to_end(key)
        burst, rate = self._burst, self.rate_per_s
        tokens = bucket.tokens + (now_s - bucket.updated_at_s) * rate
        bucket.updated_at_s = now_s
        if tokens < 1.0:
            bucket.tokens = tokens
            return (1.0 - tokens) / rate
        tokens = tokens if tokens < burst else burst
        bucket.tokens = tokens - cost if tokens - cost > -burst else -burst
        bucket.used += tokens - bucket.tokens
        return 0.0

    def take_for_others(self, key: str, now_s: float, cost: float) -> None:
        """Take the tokens that other processes used."""
        bucket = self._buckets.get(key) or self._add(key, now_s)
        tokens = bucket.tokens + (now_s - bucket.updated_at_s) * self.rate_per_s
        most = max(self._burst, self.rate_per_s * MAX_SHARED_DEBT_S)
        bucket.tokens = max(min(tokens, self._burst) - cost, -most)
        bucket.updated_at_s = now_s

    def collect_used(self) -> dict[str, float]:
        """Return how many tokens were used since the last call, if they are worth exchanging."""
        least = max(1.0, self.rate_per_s * EXCHANGED_SHARE)
        used = {key: each.used for key, each in self._buckets.items() if each.used >= least}
        for key in used:
            self._buckets[key].used = 0.0
        return used

    def _add(self, key: str, now_s: float) -> TokenBucket:
        bucket = self._buckets[key] = TokenBucket(self._burst, now_s)
        if len(self._buckets) > self._max_buckets:
            self._buckets.popitem(last=False)
        return bucket


class CallLimits:
    """The limits of an installation. A rate of 0 means no limit."""

    def __init__(
        self,
        *,
        project_calls_per_s: float,
        project_events_per_s: float,
        address_calls_per_s: float,
        on_refusal: OnRefusal,
    ) -> None:
        rates = {
            "evaluation": project_calls_per_s,
            "capture": project_calls_per_s,
            "events": project_events_per_s,
            "address": address_calls_per_s,
        }
        self._limits = {name: TokenBuckets(rate) for name, rate in rates.items() if rate}
        self._evaluations = self._limits.get("evaluation")
        self._captures = self._limits.get("capture")
        self._events = self._limits.get("events")
        self._addresses = self._limits.get("address")
        self._on_refusal = on_refusal

    def admit_evaluation(self, project_id: ProjectId) -> None:
        """Count one evaluation of flags. Raises RateLimitExceeded."""
        if self._evaluations is not None:
            wait_s = self._evaluations.take(str(project_id), time.monotonic())
            if wait_s:
                self._refuse("evaluation", "flag evaluations of this project", wait_s, project_id)

    def admit_capture(self, project_id: ProjectId, events: int) -> None:
        """Count one call with events. Raises RateLimitExceeded."""
        key, now_s = str(project_id), time.monotonic()
        if self._captures is not None:
            wait_s = self._captures.take(key, now_s)
            if wait_s:
                self._refuse("capture", "capture calls of this project", wait_s, project_id)
        if self._events is not None:
            wait_s = self._events.take(key, now_s, events)
            if wait_s:
                self._refuse("events", "events of this project", wait_s, project_id)

    def admit_address(self, address: str) -> None:
        """Count one call of a client. Raises RateLimitExceeded."""
        if self._addresses is not None:
            wait_s = self._addresses.take(address, time.monotonic())
            if wait_s:
                self._refuse("address", "calls from this address", wait_s, None)

    def _refuse(self, name: str, what: str, wait_s: float, project_id: ProjectId | None) -> None:
        self._on_refusal(name, project_id)
        rate = self._limits[name].rate_per_s
        raise RateLimitExceeded(f"more than {rate:g} {what} per second", math.ceil(wait_s))

    def collect_used(self) -> dict[str, float]:
        """Return the tokens used since the last call, by limit and key; the largest numbers if
        there are many."""
        used = {
            f"{name} {key}": number
            for name, buckets in self._limits.items()
            for key, number in buckets.collect_used().items()
        }
        largest = sorted(used, key=lambda each: used[each], reverse=True)[:MAX_EXCHANGED]
        return {each: used[each] for each in largest}

    def take_for_others(self, used: Mapping[str, float]) -> None:
        """Take the tokens that other processes used, in the form of `collect_used`."""
        now_s = time.monotonic()
        for bucket, number in used.items():
            name, _, key = bucket.partition(" ")
            if name in self._limits:
                self._limits[name].take_for_others(key, now_s, number)


class UsageExchange(Protocol):
    """What the processes of an installation used of their shared limits."""

    async def exchange(self, used: Mapping[str, float]) -> Mapping[str, float]:
        """Publish what this process used since the last call, and return what others used."""
        ...


class SharedLimits(Protocol):
    """Limits that hold for all processes together. What is used has the name of its limit before
    the key, so that each of them finds its own."""

    def collect_used(self) -> Mapping[str, float]: ...

    def take_for_others(self, used: Mapping[str, float]) -> None: ...


async def share_usage(limits: Sequence[SharedLimits], exchange: UsageExchange) -> None:
    """Tell other processes what this one used, and take what they used. A periodic task calls
    this: between two calls each process decides alone."""
    used = {bucket: number for each in limits for bucket, number in each.collect_used().items()}
    others = await exchange.exchange(used)
    for each in limits:
        each.take_for_others(others)
