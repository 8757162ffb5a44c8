"""Creates, changes and deletes subscriptions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from hedgerow.dashboards.model import DashboardId, InsightId
from hedgerow.errors import Invalid, NotFound
from hedgerow.lib.clock import format_iso
from hedgerow.lib.text import parse_whole_number, truncate
from hedgerow.pipelines.model import ComponentId, RecordId
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project, ProjectId
from hedgerow.projects.recurrence import find_next_date
from hedgerow.subscriptions.model import (
    MAX_SUBSCRIPTIONS,
    TARGET_COMPONENTS,
    Subscription,
    SubscriptionId,
    TargetType,
)
from hedgerow.subscriptions.store import (
    SubscriptionFilter,
    SubscriptionStore,
    SubscriptionWrite,
    SubscriptionWriteContext,
)

SCOPE = "Subscription"
INT64_MAX = 2**63 - 1
NO_MAIL = (
    "This installation cannot send mail. Use the type `webhook` or `slack` with the id of a "
    "destination."
)

# The key of a component by its id.
FindKey = Callable[[ComponentId], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionFields:
    """The validated fields of a request, by the names of Subscription, and the target."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    target_type: TargetType | None = None
    target_value: str | None = None


class Subscriptions:
    def __init__(self, store: SubscriptionStore, find_key: FindKey) -> None:
        self._store = store
        self._find_key = find_key

    async def list_subscriptions(
        self, project_id: ProjectId, wanted: SubscriptionFilter
    ) -> tuple[Sequence[Subscription], int]:
        return await self._store.subscriptions(project_id, wanted)

    async def find(self, project_id: ProjectId, id: str) -> Subscription:
        found = await self._store.subscription(project_id, _parse_id(id))
        if found is None:
            raise NotFound("Subscription not found.")
        return found

    async def create(
        self, project: Project, sent: SubscriptionFields, actor: Actor, now: datetime
    ) -> Subscription:
        def decide(context: SubscriptionWriteContext) -> SubscriptionWrite:
            if context.count >= MAX_SUBSCRIPTIONS:
                detail = f"A project has at most {MAX_SUBSCRIPTIONS} subscriptions. Delete some."
                raise Invalid(detail)
            blank = _build_blank(project.id, actor, now)
            subscription = self._apply(blank, sent, context)
            subscription = _schedule(subscription, now, project)
            if subscription.next_delivery_date is None:
                raise Invalid("The schedule has no date in the future.", attr="start_date")
            return SubscriptionWrite(
                subscription=subscription,
                build_entry=lambda stored: _entry("created", None, stored, actor),
            )

        return await self._store.write_subscription(project.id, decide, now)

    async def change(
        self, project: Project, id: str, sent: SubscriptionFields, actor: Actor, now: datetime
    ) -> Subscription:
        def decide(context: SubscriptionWriteContext) -> SubscriptionWrite:
            before = context.find(_parse_id(id))
            if before is None:
                raise NotFound("Subscription not found.")
            after = self._apply(before, sent, context)
            if after.recurrence != before.recurrence or after.enabled != before.enabled:
                after = _schedule(after, now, project)
            activity = "deleted" if after.deleted else "updated"
            return SubscriptionWrite(
                subscription=after,
                build_entry=lambda stored: _entry(activity, before, stored, actor),
            )

        return await self._store.write_subscription(project.id, decide, now)

    def _apply(
        self, before: Subscription, sent: SubscriptionFields, context: SubscriptionWriteContext
    ) -> Subscription:
        after = replace(before, **sent.fields)
        target_type = sent.target_type or before.target_type
        if sent.target_type is not None or sent.target_value is not None:
            value = sent.target_value
            value = str(before.destination_id or "") if value is None else value
            after = replace(
                after,
                target_type=target_type,
                destination_id=self._find_destination(target_type, value, context),
            )
        _check_object(before, after, context)
        if after.until_date is not None and after.until_date < after.start_date:
            raise Invalid("The end is before the start.", attr="until_date")
        return after

    def _find_destination(
        self, type: TargetType, value: str, context: SubscriptionWriteContext
    ) -> RecordId:
        if type is TargetType.EMAIL:
            raise Invalid(NO_MAIL, attr="target_type", code="not_supported")
        key = TARGET_COMPONENTS[type]
        id = RecordId(parse_whole_number(value) or 0)
        component = context.destinations.get(id)
        if component is None or self._find_key(component) != key:
            detail = (
                f'"{truncate(value)}" is not the id of a destination of this project with the '
                f"component {key}. Create one and send its id."
            )
            raise Invalid(detail, attr="target_value", code="does_not_exist")
        return id


def _parse_id(text: str) -> SubscriptionId:
    number = parse_whole_number(text)
    if number is None or not 0 < number <= INT64_MAX:
        raise NotFound("Subscription not found.")
    return SubscriptionId(number)


def _build_blank(project_id: ProjectId, actor: Actor, now: datetime) -> Subscription:
    """`fields` of a request have what has no default here."""
    return Subscription(
        id=SubscriptionId(0),
        project_id=project_id,
        insight_id=None,
        dashboard_id=None,
        title="",
        target_type=TargetType.WEBHOOK,
        destination_id=RecordId(0),
        frequency=_UNSET,
        interval=1,
        byweekday=(),
        bysetpos=None,
        count=None,
        start_date=now,
        until_date=None,
        enabled=True,
        deleted=False,
        created_by=actor.email or actor.name,
        created_at=now,
        next_delivery_date=None,
        last_delivery_date=None,
        last_error="",
    )


# Required in the request that creates a subscription.
_UNSET: Any = None


def _check_object(
    before: Subscription, after: Subscription, context: SubscriptionWriteContext
) -> None:
    """Check that the subscription is of one insight or of one dashboard, which exists."""
    if (after.insight_id is None) == (after.dashboard_id is None):
        raise Invalid("Expected either an insight or a dashboard.", attr="insight")
    if after.insight_id != before.insight_id and after.insight_id is not None:
        _check_exists("insight", after.insight_id, context.has_insight(after.insight_id))
    if after.dashboard_id != before.dashboard_id and after.dashboard_id is not None:
        _check_exists("dashboard", after.dashboard_id, context.has_dashboard(after.dashboard_id))


def _check_exists(attr: str, id: InsightId | DashboardId, is_found: bool) -> None:
    if not is_found:
        detail = f'Invalid pk "{id}" - object does not exist.'
        raise Invalid(detail, attr=attr, code="does_not_exist")


def _schedule(subscription: Subscription, now: datetime, project: Project) -> Subscription:
    found = find_next_date(subscription.recurrence, now, ZoneInfo(project.timezone))
    return replace(subscription, next_delivery_date=found)


def _entry(
    activity: str, before: Subscription | None, after: Subscription, actor: Actor
) -> ActivityEntry | None:
    changes = diff_fields(SCOPE, _audit(before) if before else {}, _audit(after))
    if not changes:
        return None
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(after.id),
        item_name=after.title,
        activity=activity,
        actor=actor,
        project_id=after.project_id,
        changes=changes,
    )


def _audit(subscription: Subscription) -> dict[str, Any]:
    """Return the fields that users change."""
    until = subscription.until_date
    return {
        "title": subscription.title,
        "insight": subscription.insight_id,
        "dashboard": subscription.dashboard_id,
        "target_type": subscription.target_type.value,
        "target_value": str(subscription.destination_id),
        "frequency": subscription.frequency.value,
        "interval": subscription.interval,
        "byweekday": [each.value for each in subscription.byweekday],
        "bysetpos": subscription.bysetpos,
        "count": subscription.count,
        "start_date": format_iso(subscription.start_date),
        "until_date": format_iso(until) if until else None,
        "enabled": subscription.enabled,
        "deleted": subscription.deleted,
    }
