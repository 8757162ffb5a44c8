"""A subscription, and what it sends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

from hedgerow.dashboards.model import DashboardId, InsightId
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.model import ProjectId
from hedgerow.projects.recurrence import Frequency, Recurrence, Weekday

SubscriptionId = NewType("SubscriptionId", int)

MAX_SUBSCRIPTIONS = 200
# Charts in a message, as in PostHog.
MAX_CHARTS = 6
TITLE_MAX = 100


class TargetType(StrEnum):
    """EMAIL is known and refused."""

    EMAIL = "email"
    SLACK = "slack"
    WEBHOOK = "webhook"


# The component that a destination of each type uses.
TARGET_COMPONENTS = {
    TargetType.WEBHOOK: "hedgerow/webhook",
    TargetType.SLACK: "hedgerow/slack-message",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Of an insight or of a dashboard. A new one has the id 0."""

    id: SubscriptionId
    project_id: ProjectId
    insight_id: InsightId | None
    dashboard_id: DashboardId | None
    title: str
    target_type: TargetType
    destination_id: RecordId
    frequency: Frequency
    interval: int
    byweekday: Sequence[Weekday]
    bysetpos: int | None
    count: int | None
    start_date: datetime
    until_date: datetime | None
    enabled: bool
    deleted: bool
    created_by: str
    created_at: datetime
    next_delivery_date: datetime | None
    last_delivery_date: datetime | None
    last_error: str

    @property
    def recurrence(self) -> Recurrence:
        return Recurrence(
            frequency=self.frequency,
            interval=self.interval,
            start=self.start_date,
            weekdays=self.byweekday,
            position=self.bysetpos,
            count=self.count,
            until=self.until_date,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSource:
    """An insight to draw."""

    short_id: str
    name: str
    query: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribedContent:
    """What a subscription sends: the name of the insight or the dashboard, and its charts.
    `filters` are those of the dashboard. None of it if the object was deleted."""

    name: str
    charts: Sequence[ChartSource]
    filters: Mapping[str, Any]
    total: int
