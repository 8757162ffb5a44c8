"""Deliveries, their reports, logs and hourly counts, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hedgerow.events.model import Event
from hedgerow.pipelines.deliveries.retry import DeadDelivery, PauseState, RetryAt
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.activity import ActivityEntry

# Upper bounds of the latency histogram; one more bucket has no bound.
LATENCY_BOUNDS_MS = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)


class DeliveryStatus(StrEnum):
    WAITING = "waiting"  # not attempted yet
    RETRYING = "retrying"  # failed, and due again at a later time
    DEAD = "dead"  # a dead letter: retried only on request


class LogLevel(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    """An event, and the destinations that get it."""

    event: Event
    record_ids: Sequence[RecordId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An event that a destination gets. `id` is that of the event."""

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
class DeliveryReport:
    """The outcome of a round for one record, by delivery id. `latencies` is a histogram over
    LATENCY_BOUNDS_MS; `notification` is the body to send to the operator, if any."""

    record_id: RecordId
    pause_state: PauseState
    delivered: list[int] = field(default_factory=list)
    # Remembered, so that a replay can skip them.
    delivered_events: list[Event] = field(default_factory=list)
    retried: dict[int, RetryAt] = field(default_factory=dict)
    dead: dict[int, DeadDelivery] = field(default_factory=dict)
    latencies: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_MS) + 1))
    logs: list[LogLine] = field(default_factory=list)
    entry: ActivityEntry | None = None
    notification: str = ""

    def record_latency(self, milliseconds: float) -> None:
        self.latencies[latency_bucket(milliseconds)] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPeriods:
    """How long to keep waiting deliveries, dead letters, and the uuids of delivered events."""

    waiting_ms: int
    dead_ms: int
    delivered_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryView:
    """A delivery as the API shows it. `id` is unique within its destination. `due_ms` is 0 if it is
    due now; `event` is None if the stored event cannot be decoded."""

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
class StoredLogLine:
    id: int
    line: LogLine
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryHour:
    """Counts of one hour."""

    hour_ms: int
    delivered: int
    retried: int
    dead: int
    latencies: Sequence[int]

    def latency_ms(self, share: float) -> int | None:
        """Return the upper bound of a percentile; None without requests or above the last bound."""
        threshold = share * sum(self.latencies)
        counted = 0
        for bound, number in zip(LATENCY_BOUNDS_MS, self.latencies, strict=False):
            counted += number
            if number and counted >= threshold:
                return bound
        return None


def latency_bucket(milliseconds: float) -> int:
    for bucket, bound in enumerate(LATENCY_BOUNDS_MS):
        if milliseconds <= bound:
            return bucket
    return len(LATENCY_BOUNDS_MS)


# By the inbox row that the events come from.
NewDeliveries = Mapping[int, Sequence[NewDelivery]]
