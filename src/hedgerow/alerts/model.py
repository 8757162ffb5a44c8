"""An alert, its state and its checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hedgerow.dashboards.model import InsightId
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.model import ProjectId

MAX_ALERTS = 500
MAX_DESTINATIONS = 10
# Checks that are kept for each alert.
MAX_CHECKS = 100
NAME_MAX = 255


class AlertState(StrEnum):
    NOT_FIRING = "Not firing"
    FIRING = "Firing"
    ERRORED = "Errored"
    SNOOZED = "Snoozed"


class CheckInterval(StrEnum):
    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


class ConditionType(StrEnum):
    ABSOLUTE = "absolute_value"
    INCREASE = "relative_increase"
    DECREASE = "relative_decrease"
    ANOMALY = "anomaly"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCondition:
    """When an alert fires. `lower` and `upper` bound the value or its change, which is a share of
    the value before if `is_percentage`. The others are for anomalies: the number of intervals to
    compare with, and the allowed deviation."""

    type: ConditionType
    is_percentage: bool = False
    lower: float | None = None
    upper: float | None = None
    window: int = 0
    sensitivity: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertConfig:
    """Which series of the insight, and whether the interval that is not over counts."""

    series_index: int
    checks_ongoing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """`next_check_at` is in the past when the alert is due, as a new one is."""

    id: str
    project_id: ProjectId
    insight_id: InsightId
    name: str
    enabled: bool
    condition: AlertCondition
    config: AlertConfig
    calculation_interval: CheckInterval
    skip_weekend: bool
    snoozed_until: datetime | None
    subscribed_users: Sequence[int]
    destinations: Sequence[RecordId]
    state: AlertState
    created_by: str
    created_at: datetime
    last_checked_at: datetime | None
    next_check_at: datetime
    last_notified_at: datetime | None
    last_value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVerdict:
    """The outcome of a check. `breaches` say what is out of bounds, one text for each value of a
    breakdown; `error` says why nothing could be checked."""

    value: float | None = None
    breaches: Sequence[str] = ()
    error: str = ""

    @property
    def state(self) -> AlertState:
        if self.error:
            return AlertState.ERRORED
        return AlertState.FIRING if self.breaches else AlertState.NOT_FIRING


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCheck:
    """A check in the history. `notified` are the destinations that got a message."""

    id: int
    created_at: datetime
    value: float | None
    state: AlertState
    breaches: Sequence[str]
    error: str
    notified: Sequence[RecordId]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertInsight:
    """What an alert reads of its insight."""

    id: InsightId
    short_id: str
    name: str
    query: Mapping[str, Any]
    deleted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertView:
    """An alert with its insight and its newest checks."""

    alert: Alert
    insight: AlertInsight
    checks: Sequence[AlertCheck] = ()
