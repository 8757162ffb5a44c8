"""Alerts on saved insights, in PostHog's format."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar

import msgspec
from annotated_types import Len
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from hedgerow.alerts.alerts import LISTED_CHECKS, SCOPE, AlertFields, Alerts
from hedgerow.alerts.model import (
    MAX_CHECKS,
    MAX_DESTINATIONS,
    NAME_MAX,
    Alert,
    AlertCheck,
    AlertView,
    CheckInterval,
)
from hedgerow.alerts.parse import render_condition, render_config, render_threshold
from hedgerow.alerts.store import AlertFilter
from hedgerow.dashboards.model import InsightId
from hedgerow.errors import Invalid
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.people.users import render_user
from hedgerow.http.call import ProjectCall
from hedgerow.http.collection import Collection
from hedgerow.http.paging import Page
from hedgerow.http.parameters import Parameter, parse_positive
from hedgerow.http.payload.fields import (
    INT64_MAX,
    OMITTED,
    Between,
    Boolean,
    Fields,
    Text,
    require_unset,
)
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.lib.dates import parse_stored_date
from hedgerow.projects.store import ActivityStore

MAX_USERS = 50
MAX_SNOOZE = timedelta(days=366)
_SNOOZE_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
# Fields that PostHog returns and its clients send back.
READ_ONLY_FIELDS = frozenset(
    (
        *("id", "created_by", "created_at", "state", "last_notified_at", "last_checked_at"),
        *("next_check_at", "last_value", "checks", "insight_short_id"),
    )
)
LIST_PARAMETERS = (
    Parameter(
        "insight_id", "Only alerts on the insight with this id.", {"type": "integer", "minimum": 1}
    ),
)
DETAIL_PARAMETERS = (
    Parameter(
        "checks_limit",
        f"The number of checks, newest first. Default: {LISTED_CHECKS}, maximum: {MAX_CHECKS}.",
        {"type": "integer", "minimum": 1, "maximum": MAX_CHECKS},
    ),
)


def _parse_snooze(value: Any) -> Any:
    """Keep a date or a duration as text: which time it means depends on the time of the request."""
    if isinstance(value, str) and (_parse_duration(value) or _parse_moment(value)):
        return value
    raise PydanticCustomError(
        "date",
        "Expected a duration such as 2h, 1d or 1w, or a date such as 2026-01-31T12:00:00Z.",
        {"code": "invalid_date"},
    )


def _parse_duration(text: str) -> timedelta | None:
    number, unit = text[:-1], text[-1:]
    is_duration = number.isascii() and number.isdecimal() and 0 < len(number) <= 4
    return int(number) * _SNOOZE_UNITS[unit] if is_duration and unit in _SNOOZE_UNITS else None


def _parse_moment(text: str) -> datetime | None:
    try:
        return parse_stored_date(text)
    except ValueError:
        return None


class CheckItem(msgspec.Struct, kw_only=True):
    """One check. `destinations` are the ids of those that got a message."""

    id: int
    created_at: str
    calculated_value: float | None
    state: str
    targets_notified: bool
    destinations: Sequence[int]
    breaches: Sequence[str]
    error: str | None


class AlertInsightItem(msgspec.Struct, kw_only=True):
    id: int
    short_id: str
    name: str


class AlertItem(msgspec.Struct, kw_only=True):
    """An alert with its newest checks. `destinations` are the ids of those that get a message
    when it fires, is resolved, or cannot be checked."""

    id: str
    name: str
    insight: AlertInsightItem
    enabled: bool
    condition: Mapping[str, Any]
    threshold: Mapping[str, Any] | None
    config: Mapping[str, Any]
    calculation_interval: str
    skip_weekend: bool
    snoozed_until: str | None
    subscribed_users: Sequence[Mapping[str, Any]]
    destinations: Sequence[int]
    state: str
    created_by: Mapping[str, Any]
    created_at: str
    last_checked_at: str | None
    next_check_at: str
    last_notified_at: str | None
    last_value: float | None
    checks: Sequence[CheckItem]


UnsupportedHours = Annotated[
    None, require_unset("Quiet hours are not supported. Leave this field out, or snooze the alert.")
]


class AlertBody(Fields):
    """`condition` and `threshold` say when the alert fires, `config` which series it reads.
    `snoozed_until` is a date or a duration such as 2h; null ends it. `destinations` are ids of
    destinations of the project. No mail is sent: `subscribed_users` is only stored."""

    ignored_fields: ClassVar[frozenset[str] | None] = READ_ONLY_FIELDS

    name: Annotated[str, Text(NAME_MAX, blank=True)] | None = None
    insight: Annotated[int, Between(1, INT64_MAX)] = OMITTED
    enabled: Boolean = OMITTED
    condition: dict[str, Any] = OMITTED
    threshold: dict[str, Any] | None = None
    config: dict[str, Any] | None = None
    calculation_interval: CheckInterval | None = None
    skip_weekend: Boolean | None = None
    snoozed_until: Annotated[str, BeforeValidator(_parse_snooze)] | None = None
    subscribed_users: Annotated[list[Annotated[int, Between(1, INT64_MAX)]], Len(0, MAX_USERS)] = (
        OMITTED
    )
    destinations: Annotated[
        list[Annotated[int, Between(1, INT64_MAX)]], Len(0, MAX_DESTINATIONS)
    ] = OMITTED
    schedule_restriction: UnsupportedHours = None

    def to_fields(self, call: ProjectCall) -> AlertFields:
        named = self.model_fields_set - {"schedule_restriction"}
        sent = {name: getattr(self, name) for name in named}
        if (snooze := sent.get("snoozed_until")) is not None:
            sent["snoozed_until"] = _choose_snooze(snooze, call.now)
        for name in ("subscribed_users", "destinations"):
            if name in sent:
                sent[name] = tuple(dict.fromkeys(sent[name]))
        _check_users(call, sent.get("subscribed_users", ()))
        return AlertFields(sent=frozenset(sent), **sent)


class NewAlert(AlertBody):
    insight: Annotated[int, Between(1, INT64_MAX)]
    condition: dict[str, Any]


def _choose_snooze(text: str, now: datetime) -> datetime:
    duration = _parse_duration(text)
    until = now + duration if duration else parse_stored_date(text)
    if not now < until <= now + MAX_SNOOZE:
        raise Invalid("Expected a time within the next year.", attr="snoozed_until")
    return until


def _check_users(call: ProjectCall, ids: Sequence[int]) -> None:
    for id in ids:
        if not call.context.directory.get_email(id):
            detail = f'Invalid pk "{id}" - object does not exist.'
            raise Invalid(detail, attr="subscribed_users", code="does_not_exist")


def _render_alert(call: ProjectCall, view: AlertView) -> AlertItem:
    alert, insight = view.alert, view.insight
    return AlertItem(
        id=alert.id,
        name=alert.name,
        insight=AlertInsightItem(id=insight.id, short_id=insight.short_id, name=insight.name),
        enabled=alert.enabled,
        condition=render_condition(alert.condition),
        threshold=render_threshold(alert.condition),
        config=render_config(alert.config),
        calculation_interval=alert.calculation_interval.value,
        skip_weekend=alert.skip_weekend,
        snoozed_until=_format(alert.snoozed_until),
        subscribed_users=_render_users(call, alert),
        destinations=alert.destinations,
        state=alert.state.value,
        created_by=render_user(call, alert.created_by),
        created_at=format_iso(alert.created_at),
        last_checked_at=_format(alert.last_checked_at),
        next_check_at=format_iso(alert.next_check_at),
        last_notified_at=_format(alert.last_notified_at),
        last_value=alert.last_value,
        checks=[_render_check(check) for check in view.checks],
    )


def _render_users(call: ProjectCall, alert: Alert) -> list[Mapping[str, Any]]:
    directory = call.context.directory
    return [
        {"id": id, "email": email}
        for id in alert.subscribed_users
        if (email := directory.get_email(id))
    ]


def _render_check(check: AlertCheck) -> CheckItem:
    return CheckItem(
        id=check.id,
        created_at=format_iso(check.created_at),
        calculated_value=check.value,
        state=check.state.value,
        targets_notified=bool(check.notified),
        destinations=check.notified,
        breaches=check.breaches,
        error=check.error or None,
    )


def _format(moment: datetime | None) -> str | None:
    return None if moment is None else format_iso(moment)


ALERTS = Collection(name="alert", page=Page[AlertItem], item=AlertItem)


class AlertEndpoints:
    tag = "Alerts"

    def __init__(self, activity: ActivityStore, alerts: Alerts) -> None:
        self._activity = activity
        self._alerts = alerts

    @ALERTS.list_endpoint(*LIST_PARAMETERS)
    async def list_alerts(self, call: ProjectCall) -> Response:
        """List the project's alerts, newest first, each with its newest checks."""
        window, wanted = call.window, call.query_param("insight_id")
        insight = parse_positive(wanted)
        if wanted and (insight is None or insight > INT64_MAX):
            raise Invalid("A valid integer is required.", attr="insight_id")
        found, count = await self._alerts.list_alerts(
            call.project.id,
            AlertFilter(
                insight_id=None if insight is None else InsightId(insight),
                limit=window.limit,
                offset=window.offset,
            ),
        )
        return JsonResponse(call.page(count, [_render_alert(call, each) for each in found]))

    @ALERTS.create_endpoint(NewAlert)
    async def create_alert(self, call: ProjectCall) -> Response:
        """Create an alert. It is checked within seconds, and then on its schedule."""
        fields = (await call.body(NewAlert)).to_fields(call)
        created = await self._alerts.create(call.project, fields, call.actor, call.now)
        return JsonResponse(_render_alert(call, created), status_code=201)

    @ALERTS.retrieve_endpoint(*DETAIL_PARAMETERS)
    async def retrieve_alert(self, call: ProjectCall) -> Response:
        """Retrieve an alert with its newest checks."""
        limit = parse_positive(call.query_param("checks_limit")) or LISTED_CHECKS
        found = await self._alerts.find(call.project.id, call.path_param("alert_id"), limit)
        return JsonResponse(_render_alert(call, found))

    @ALERTS.change_endpoint(AlertBody)
    async def change_alert(self, call: ProjectCall) -> Response:
        """Change, snooze, enable or disable an alert. After a change of what it checks, it is
        checked within seconds."""
        id = call.path_param("alert_id")
        await self._alerts.find(call.project.id, id)
        fields = (await call.body(AlertBody)).to_fields(call)
        changed = await self._alerts.change(call.project, id, fields, call.actor, call.now)
        return JsonResponse(_render_alert(call, changed))

    @ALERTS.delete_endpoint()
    async def delete_alert(self, call: ProjectCall) -> Response:
        """Delete an alert and its history."""
        id = call.path_param("alert_id")
        await self._alerts.delete(call.project, id, call.actor, call.now)
        return no_content()

    @activity_endpoint("alerts/{alert_id}/activity/", ALERTS.read)
    async def list_alert_activity(self, call: ProjectCall) -> Response:
        """List the changes made to an alert, newest first. Works for deleted alerts too."""
        return await respond_with_activity(call, self._activity, SCOPE, call.path_param("alert_id"))
