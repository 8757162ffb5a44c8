"""Storage of subscriptions, implemented in `storage/alerts/subscriptions.py`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.dashboards.model import DashboardId, InsightId
from hedgerow.events.model import Event
from hedgerow.pipelines.model import ComponentId, RecordId
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.subscriptions.model import SubscribedContent, Subscription, SubscriptionId


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionFilter:
    """Which subscriptions to list; None means any. Deleted ones are never listed."""

    insight_id: InsightId | None
    dashboard_id: DashboardId | None
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionWrite:
    subscription: Subscription
    build_entry: Callable[[Subscription], ActivityEntry | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionWriteContext:
    """The stored state that a change is based on. `destinations` are those of the project, with
    their components."""

    find: Callable[[SubscriptionId], Subscription | None]
    has_insight: Callable[[InsightId], bool]
    has_dashboard: Callable[[DashboardId], bool]
    destinations: Mapping[RecordId, ComponentId]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SentSubscription:
    """A subscription as it was claimed, and what to store after it was drawn: the message, the
    pictures that it links to by token, and the next date. Without a message there is an error."""

    subscription: Subscription
    claimed_until: datetime
    message: Event | None
    pictures: Mapping[str, bytes]
    next_delivery_date: datetime | None
    error: str = ""


class SubscriptionStore(Protocol):
    async def subscriptions(
        self, project_id: ProjectId, wanted: SubscriptionFilter
    ) -> tuple[Sequence[Subscription], int]:
        """Return one page of subscriptions, newest first, and the total."""
        ...

    async def subscription(
        self, project_id: ProjectId, id: SubscriptionId
    ) -> Subscription | None: ...

    async def write_subscription(
        self,
        project_id: ProjectId,
        decide: Callable[[SubscriptionWriteContext], SubscriptionWrite],
        now: datetime,
    ) -> Subscription: ...

    async def content(self, subscription: Subscription, limit: int) -> SubscribedContent | None:
        """Return what to send, None if it was deleted."""
        ...

    async def list_due_projects(self, now: datetime, until: datetime) -> Sequence[ProjectId]:
        """Return the projects with subscriptions that `claim_due` would return."""
        ...

    async def claim_due(
        self, project_id: ProjectId, now: datetime, until: datetime
    ) -> Subscription | None:
        """Return a subscription of a project that is due, if any, and keep other processes from it
        until then."""
        ...

    async def save_sent(self, sent: SentSubscription, now: datetime) -> bool:
        """Store the delivery of a message and the next date in one transaction. Return False and
        store nothing if the subscription was changed or sent since it was claimed, or data of a
        person was deleted: the message may show it."""
        ...

    async def picture(self, token: str) -> bytes | None: ...

    async def delete_pictures(self, before: datetime) -> None: ...
