"""Deliveries as values: what waits for a destination, and what became of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hedgerow.events.model import Event
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.retry import Dead, Health, RetryAt
from hedgerow.projects.activity import Entry

# Requests are counted by how many milliseconds they took: so many, at most. The last has no bound.
LATENCY_BOUNDS_MS = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)


class DeliveryStatus(StrEnum):
    WAITING = "waiting"  # never tried
    RETRYING = "retrying"  # tried, and due again at some moment
    DEAD = "dead"  # not tried again unless somebody says so


class LogLevel(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    record_id: RecordId
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    id: int
    event: Event
    attempts: int
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    level: LogLevel
    message: str
    uuid: str = ""


@dataclass(slots=True, kw_only=True)
class Report:
    """What became of some deliveries of one record, by their ids. `latencies` counts requests by
    the bounds above; `notice` is what somebody is to be told of it."""

    record_id: RecordId
    health: Health
    delivered: list[int] = field(default_factory=list)
    # The events of these, to be remembered.
    arrived: list[Event] = field(default_factory=list)
    retried: dict[int, RetryAt] = field(default_factory=dict)
    dead: dict[int, Dead] = field(default_factory=dict)
    latencies: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_MS) + 1))
    logs: list[LogLine] = field(default_factory=list)
    entry: Entry | None = None
    notice: str = ""

    def took(self, milliseconds: float) -> None:
        self.latencies[latency_place(milliseconds)] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """How long deliveries are kept that wait, and those that are dead, and how long it is known
    what has been delivered."""

    waiting_ms: int
    dead_ms: int
    delivered_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldDelivery:
    """A delivery as people see it. `due_ms` is 0 for one that is due at once; there is no `event`
    where that cannot be read."""

    id: int
    uuid: str
    distinct_id: str
    event: Event | None
    status: DeliveryStatus
    attempts: int
    due_ms: int
    error: str
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldLine:
    id: int
    line: LogLine
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """What was counted in an hour."""

    hour_ms: int
    delivered: int
    retried: int
    dead: int
    latencies: Sequence[int]

    def latency_ms(self, share: float) -> int | None:
        """So many milliseconds or fewer took that share of requests; None if there were none or it
        was longer than we count."""
        wanted = share * sum(self.latencies)
        seen = 0
        for bound, number in zip(LATENCY_BOUNDS_MS, self.latencies, strict=False):
            seen += number
            if number and seen >= wanted:
                return bound
        return None


def latency_place(milliseconds: float) -> int:
    for place, bound in enumerate(LATENCY_BOUNDS_MS):
        if milliseconds <= bound:
            return place
    return len(LATENCY_BOUNDS_MS)


NewDeliveries = Mapping[int, Sequence[NewDelivery]]
