"""Checks the alerts that are due, and tells their destinations when the state changes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any
from zoneinfo import ZoneInfo

from hedgerow.alerts.check_query import build_check_query, parse_insight
from hedgerow.alerts.evaluate import evaluate
from hedgerow.alerts.model import AlertState, AlertView, CheckVerdict
from hedgerow.alerts.schedule import find_next_check, is_weekend
from hedgerow.alerts.store import AlertStore, CheckedAlert
from hedgerow.errors import AppError
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock, format_iso
from hedgerow.pipelines.deliveries.messages import build_message
from hedgerow.projects.model import Project, ProjectId
from hedgerow.queries.due_work import DueWork
from hedgerow.queries.model import QueryResponse, QueryStatus
from hedgerow.queries.queries import Refresh

# Longer than a query may take. The alert that a process checks while it dies waits this long.
CLAIM_DURATION = timedelta(minutes=2)
# Errors that say nothing about the alert: it is checked again after its claim.
_PASSING = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)

ALERT_EVENTS = {
    AlertState.FIRING: "$insight_alert_firing",
    AlertState.NOT_FIRING: "$insight_alert_resolved",
    AlertState.ERRORED: "$insight_alert_errored",
}

# Queries.execute.
Execute = Callable[
    [Project, Mapping[str, Any], Refresh, str], Awaitable[QueryResponse | QueryStatus]
]
FindProject = Callable[[ProjectId], Project | None]


class AlertChecker:
    def __init__(
        self, store: AlertStore, execute: Execute, find_project: FindProject, clock: Clock
    ) -> None:
        self._store = store
        self._execute = execute
        self._find_project = find_project
        self._clock = clock
        self._work = DueWork(self._list_projects, self._check_next)

    async def check_due(self) -> None:
        """Check all alerts that are due. Projects take turns."""
        await self._work.run()

    async def _list_projects(self) -> Sequence[ProjectId]:
        now = self._clock()
        return await self._store.list_due_projects(now, now + CLAIM_DURATION)

    async def _check_next(self, project_id: ProjectId) -> None:
        now = self._clock()
        claimed_until = now + CLAIM_DURATION
        due = await self._store.claim_due(project_id, now, claimed_until)
        if due is not None:
            await self._check(due, claimed_until)

    async def _check(self, view: AlertView, claimed_until: datetime) -> None:
        project = self._find_project(view.alert.project_id)
        if project is None:  # deleted, and so are its alerts soon
            return
        alert, zone = view.alert, ZoneInfo(project.timezone)
        now = self._clock()
        if is_weekend(alert, now, zone):
            await self._store.postpone(alert, find_next_check(alert, now, zone))
            return
        verdict = await self._reach_verdict(view, project)
        if verdict is None:
            return
        now = self._clock()
        checked = CheckedAlert(
            alert=alert,
            claimed_until=claimed_until,
            verdict=verdict,
            next_check_at=find_next_check(alert, now, zone),
            message=_build_message(view, verdict, now),
        )
        await self._store.save_check(checked, now)

    async def _reach_verdict(self, view: AlertView, project: Project) -> CheckVerdict | None:
        """Return None if the check must be repeated later."""
        if view.insight.deleted:
            return CheckVerdict(error="The insight was deleted.")
        try:
            return await self._compute(view, project)
        except AppError as error:
            return None if error.status in _PASSING else CheckVerdict(error=error.detail)

    async def _compute(self, view: AlertView, project: Project) -> CheckVerdict:
        alert, zone = view.alert, ZoneInfo(project.timezone)
        trend = parse_insight(view.insight.query)
        time = QueryTime(now=self._clock(), zone=zone, week_start=project.week_start_day)
        query = build_check_query(trend, alert.condition, alert.config, time)
        response = await self._execute(project, query, Refresh.BLOCKING, "")
        assert isinstance(response, QueryResponse)
        results = jsonio.decode(bytes(response.results or b"[]"))
        return evaluate(
            results,
            alert.condition,
            alert.config,
            interval=trend.interval.value,
            is_total=trend.is_total,
        )


def _build_message(view: AlertView, verdict: CheckVerdict, now: datetime) -> Event | None:
    """Return what to tell about a change of the state, if it changed."""
    before, state = view.alert.state, verdict.state
    if before is AlertState.SNOOZED:
        before = AlertState.NOT_FIRING
    if state is before:
        return None
    alert, insight = view.alert, view.insight
    breaches = "; ".join(verdict.breaches)
    properties = {
        "alert_id": alert.id,
        "alert_name": alert.name,
        "insight_id": insight.short_id,
        "insight_name": insight.name,
        "state": state.value,
        "last_checked_at": format_iso(now),
        "calculated_value": verdict.value,
        "breaches": breaches,
        "error": verdict.error,
        "message": _describe(alert.name, insight.name, verdict),
    }
    return build_message(alert.project_id, ALERT_EVENTS[state], properties, now)


def remove_values(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Remove the values from the properties of a message: that of a breakdown may be a person."""
    if properties["state"] != AlertState.FIRING.value:
        return properties
    title = _format_title(properties["alert_name"], properties["insight_name"])
    return {**properties, "breaches": "", "message": f"Alert {title} is firing."}


def _describe(alert: str, insight: str, verdict: CheckVerdict) -> str:
    title = _format_title(alert, insight)
    match verdict.state:
        case AlertState.FIRING:
            return f"Alert {title} is firing: {'; '.join(verdict.breaches)}."
        case AlertState.ERRORED:
            return f"Alert {title} could not be checked: {verdict.error}"
    return f"Alert {title} is resolved."


def _format_title(alert: str, insight: str) -> str:
    return f"“{alert or 'Untitled alert'}” on “{insight or 'Untitled insight'}”"
