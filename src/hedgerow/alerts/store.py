"""Storage of alerts, implemented in `storage/alerts/`."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.alerts.model import Alert, AlertInsight, AlertView, CheckVerdict
from hedgerow.dashboards.model import InsightId
from hedgerow.events.model import Event
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertWrite:
    """An alert to store, or to delete if `is_deleted`."""

    alert: Alert
    entry: ActivityEntry | None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertWriteContext:
    """The stored state that a change is based on. `destinations` are all of the project."""

    find: Callable[[str], Alert | None]
    find_insight: Callable[[InsightId], AlertInsight | None]
    count: int
    destinations: Collection[RecordId]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFilter:
    insight_id: InsightId | None
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAlert:
    """The outcome of a check of an alert as it was claimed. `message` is an event for its
    destinations, if there is something to tell."""

    alert: Alert
    claimed_until: datetime
    verdict: CheckVerdict
    next_check_at: datetime
    message: Event | None


class AlertStore(Protocol):
    async def alerts(
        self, project_id: ProjectId, wanted: AlertFilter, checks: int
    ) -> tuple[Sequence[AlertView], int]:
        """Return one page of alerts, newest first, each with its newest checks, and the total."""
        ...

    async def alert(self, project_id: ProjectId, id: str, checks: int) -> AlertView | None: ...

    async def write_alert(
        self,
        project_id: ProjectId,
        decide: Callable[[AlertWriteContext], AlertWrite],
        now: datetime,
    ) -> AlertView: ...

    async def list_due_projects(self, now: datetime, until: datetime) -> Sequence[ProjectId]:
        """Return the projects with alerts that `claim_due` would return."""
        ...

    async def claim_due(
        self, project_id: ProjectId, now: datetime, until: datetime
    ) -> AlertView | None:
        """Return an alert of a project that is due, if any, and keep other processes from it until
        then."""
        ...

    async def postpone(self, alert: Alert, next_check_at: datetime) -> None:
        """Set the time of the next check without a check."""
        ...

    async def save_check(self, checked: CheckedAlert, now: datetime) -> Sequence[RecordId] | None:
        """Store a check, the new state and the deliveries of its message in one transaction.
        Return the destinations that get it: those that are enabled. Return None and store nothing
        if the alert was changed or checked since it was claimed, or data of a person was deleted:
        the check may show it."""
        ...
