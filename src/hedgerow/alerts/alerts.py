"""Creates, changes and deletes alerts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from hedgerow.alerts.check_query import check_insight
from hedgerow.alerts.model import (
    MAX_ALERTS,
    MAX_CHECKS,
    Alert,
    AlertState,
    AlertView,
    CheckInterval,
)
from hedgerow.alerts.parse import (
    parse_condition,
    parse_config,
    render_condition,
    render_config,
    render_threshold,
)
from hedgerow.alerts.store import AlertFilter, AlertStore, AlertWrite, AlertWriteContext
from hedgerow.dashboards.model import InsightId
from hedgerow.errors import Invalid, NotFound
from hedgerow.lib.clock import format_iso
from hedgerow.lib.ids import normalize_uuid
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project, ProjectId

SCOPE = "AlertConfiguration"
# Checks of each alert in a list, as in PostHog.
LISTED_CHECKS = 5

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFields:
    """The fields of a request; those that are not in `sent` keep their value."""

    sent: frozenset[str]
    name: str | None = None
    insight: InsightId | None = None
    enabled: bool | None = None
    condition: Document | None = None
    threshold: Document | None = None
    config: Document | None = None
    calculation_interval: CheckInterval | None = None
    skip_weekend: bool | None = None
    snoozed_until: datetime | None = None
    subscribed_users: Sequence[int] | None = None
    destinations: Sequence[RecordId] | None = None


class Alerts:
    def __init__(self, store: AlertStore) -> None:
        self._store = store

    async def list_alerts(
        self, project_id: ProjectId, wanted: AlertFilter
    ) -> tuple[Sequence[AlertView], int]:
        return await self._store.alerts(project_id, wanted, LISTED_CHECKS)

    async def find(self, project_id: ProjectId, id: str, checks: int = LISTED_CHECKS) -> AlertView:
        uuid = normalize_uuid(id)
        checks = min(checks, MAX_CHECKS)
        found = await self._store.alert(project_id, uuid, checks) if uuid else None
        if found is None:
            raise NotFound("Alert not found.")
        return found

    async def create(
        self, project: Project, sent: AlertFields, actor: Actor, now: datetime
    ) -> AlertView:
        def decide(context: AlertWriteContext) -> AlertWrite:
            if context.count >= MAX_ALERTS:
                raise Invalid(f"A project has at most {MAX_ALERTS} alerts. Delete some first.")
            alert = _build_alert(project, sent, context, actor, now)
            return AlertWrite(alert=alert, entry=_entry("created", None, alert, actor))

        return await self._store.write_alert(project.id, decide, now)

    async def change(
        self, project: Project, id: str, sent: AlertFields, actor: Actor, now: datetime
    ) -> AlertView:
        def decide(context: AlertWriteContext) -> AlertWrite:
            before = _get(context, id)
            after = _schedule(before, _apply(before, sent, context), sent, now)
            entry = (
                None if _audit(before) == _audit(after) else _entry("updated", before, after, actor)
            )
            return AlertWrite(alert=after, entry=entry)

        await self._store.write_alert(project.id, decide, now)
        return await self.find(project.id, id)

    async def delete(self, project: Project, id: str, actor: Actor, now: datetime) -> None:
        def decide(context: AlertWriteContext) -> AlertWrite:
            alert = _get(context, id)
            entry = _entry("deleted", alert, alert, actor)
            return AlertWrite(alert=alert, entry=entry, is_deleted=True)

        await self._store.write_alert(project.id, decide, now)


def _get(context: AlertWriteContext, id: str) -> Alert:
    uuid = normalize_uuid(id)
    if uuid is None or (found := context.find(uuid)) is None:
        raise NotFound("Alert not found.")
    return found


def _build_alert(
    project: Project, sent: AlertFields, context: AlertWriteContext, actor: Actor, now: datetime
) -> Alert:
    assert sent.insight is not None
    condition = parse_condition(sent.condition or {}, sent.threshold or {})
    blank = Alert(
        id=str(uuid4()),
        project_id=project.id,
        insight_id=sent.insight,
        name="",
        enabled=True,
        condition=condition,
        config=parse_config(sent.config or {}, condition),
        calculation_interval=CheckInterval.DAILY,
        skip_weekend=False,
        snoozed_until=None,
        subscribed_users=(),
        destinations=(),
        state=AlertState.NOT_FIRING,
        created_by=actor.email or actor.name,
        created_at=now,
        last_checked_at=None,
        next_check_at=now,
        last_notified_at=None,
        last_value=None,
    )
    alert = _apply(blank, sent, context)
    if alert.snoozed_until is None:
        return alert
    return replace(alert, state=AlertState.SNOOZED, next_check_at=alert.snoozed_until)


_COPIED = (
    *("name", "enabled", "calculation_interval", "skip_weekend", "snoozed_until"),
    *("subscribed_users", "destinations"),
)
# Null in a request means the empty value of these.
_EMPTY: Mapping[str, Any] = {
    "name": "",
    "skip_weekend": False,
    "subscribed_users": (),
    "destinations": (),
    "calculation_interval": CheckInterval.DAILY,
    "enabled": True,
}


def _apply(before: Alert, sent: AlertFields, context: AlertWriteContext) -> Alert:
    changes: dict[str, Any] = {}
    for name in _COPIED:
        if name in sent.sent:
            value = getattr(sent, name)
            changes[name] = _EMPTY.get(name) if value is None else value
    if sent.insight is not None:
        changes["insight_id"] = sent.insight
    if sent.sent & {"condition", "threshold"}:
        condition, threshold = _complete(before, sent)
        changes["condition"] = parse_condition(condition, threshold)
    after = replace(before, **changes)
    config = sent.config if "config" in sent.sent else render_config(before.config)
    after = replace(after, config=parse_config(config or {}, after.condition))
    _check_destinations(after, context)
    if after != before or before.last_checked_at is None:
        _check_insight(before, after, context)
    return after


def _complete(before: Alert, sent: AlertFields) -> tuple[Document, Document]:
    """Return the sent documents, and the stored one in place of one that was not sent."""
    condition = sent.condition if "condition" in sent.sent else render_condition(before.condition)
    threshold = sent.threshold if "threshold" in sent.sent else render_threshold(before.condition)
    return condition or {}, threshold or {}


def _check_destinations(alert: Alert, context: AlertWriteContext) -> None:
    unknown = [id for id in alert.destinations if id not in context.destinations]
    if unknown:
        detail = f"The project has no destination with the id {unknown[0]}."
        raise Invalid(detail, attr="destinations", code="does_not_exist")


def _check_insight(before: Alert, after: Alert, context: AlertWriteContext) -> None:
    """Check that the insight can be checked. An alert whose insight was changed since can still be
    renamed or disabled."""
    checked = ("insight_id", "condition", "config")
    is_new = before.last_checked_at is None
    if not is_new and all(getattr(before, name) == getattr(after, name) for name in checked):
        return
    insight = context.find_insight(after.insight_id)
    if insight is None or insight.deleted:
        detail = f'Invalid pk "{after.insight_id}" - object does not exist.'
        raise Invalid(detail, attr="insight", code="does_not_exist")
    check_insight(insight.query, after.condition, after.config)


# A change of these makes an earlier result meaningless.
_RESTARTING = ("insight_id", "condition", "config", "calculation_interval")


def _schedule(before: Alert, after: Alert, sent: AlertFields, now: datetime) -> Alert:
    """Set the state and the time of the next check after a change."""
    is_changed = any(getattr(before, name) != getattr(after, name) for name in _RESTARTING)
    is_enabled = after.enabled and not before.enabled
    if after.snoozed_until is not None and "snoozed_until" in sent.sent:
        return replace(after, state=AlertState.SNOOZED, next_check_at=after.snoozed_until)
    is_woken = before.state is AlertState.SNOOZED and after.snoozed_until is None
    if is_changed or is_enabled or is_woken:
        return replace(after, state=AlertState.NOT_FIRING, next_check_at=now, snoozed_until=None)
    return after


def _entry(activity: str, before: Alert | None, after: Alert, actor: Actor) -> ActivityEntry:
    is_deleted = activity == "deleted"
    return ActivityEntry(
        scope=SCOPE,
        item_id=after.id,
        item_name=after.name,
        activity=activity,
        actor=actor,
        project_id=after.project_id,
        changes=diff_fields(
            SCOPE, _audit(before) if before else {}, {} if is_deleted else _audit(after)
        ),
    )


def _audit(alert: Alert) -> dict[str, Any]:
    """Return the fields that users change."""
    snoozed = alert.snoozed_until
    return {
        "name": alert.name,
        "insight": alert.insight_id,
        "enabled": alert.enabled,
        "condition": render_condition(alert.condition),
        "threshold": render_threshold(alert.condition),
        "config": render_config(alert.config),
        "calculation_interval": alert.calculation_interval.value,
        "skip_weekend": alert.skip_weekend,
        "snoozed_until": format_iso(snoozed) if snoozed else None,
        "subscribed_users": list(alert.subscribed_users),
        "destinations": list(alert.destinations),
    }
