"""Subscriptions to insights and dashboards, in PostHog's format."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

import msgspec
from annotated_types import Len
from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from hedgerow.dashboards.model import DashboardId, InsightId
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
    Date,
    Fields,
    Text,
    require_unset,
)
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.projects.recurrence import (
    MAX_COUNT,
    MAX_INTERVAL,
    Frequency,
    Weekday,
    describe_recurrence,
)
from hedgerow.projects.store import ActivityStore
from hedgerow.subscriptions.model import TITLE_MAX, Subscription, TargetType
from hedgerow.subscriptions.store import SubscriptionFilter
from hedgerow.subscriptions.subscriptions import SCOPE, SubscriptionFields, Subscriptions

MAX_POSITION = 366
TARGET_MAX = 1000
EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
LATEST = datetime(2100, 1, 1, tzinfo=UTC)
# Fields that PostHog returns and its clients send back, or that only mails have.
IGNORED_FIELDS = frozenset(
    (
        *("id", "created_by", "created_at", "next_delivery_date", "last_delivery_date"),
        *("last_error", "summary", "invite_message", "insight_short_id", "resource_name"),
    )
)
LIST_PARAMETERS = tuple(
    Parameter(name, f"Only those of the {name} with this id.", {"type": "integer", "minimum": 1})
    for name in ("insight", "dashboard")
)
Id = Annotated[int, Between(1, INT64_MAX)]


def _check_date(value: datetime) -> datetime:
    if not EARLIEST <= value <= LATEST:
        detail = f"Expected a date from {EARLIEST.year} to {LATEST.year}."
        raise PydanticCustomError("date", detail, {"code": "invalid_date"})
    return value


def _check_position(value: Any) -> Any:
    if value == 0:
        detail = "Expected a position from 1, or from -1 for the last."
        raise PydanticCustomError("position", detail)
    return value


BoundedDate = Annotated[Date, AfterValidator(_check_date)]
Position = Annotated[int, Between(-MAX_POSITION, MAX_POSITION), BeforeValidator(_check_position)]


class SubscriptionItem(msgspec.Struct, kw_only=True):
    """`target_value` is the id of the destination. `last_error` says why the last message was not
    sent; the deliveries of the destination say what became of one that was."""

    id: int
    insight: int | None
    dashboard: int | None
    title: str
    target_type: str
    target_value: str
    frequency: str
    interval: int
    byweekday: Sequence[str] | None
    bysetpos: int | None
    count: int | None
    start_date: str
    until_date: str | None
    enabled: bool
    deleted: bool
    created_by: Mapping[str, Any]
    created_at: str
    next_delivery_date: str | None
    last_delivery_date: str | None
    last_error: str | None
    summary: str


UnsupportedIntegration = Annotated[
    None, require_unset("Integrations are not supported. Send a destination as `target_value`.")
]
UnsupportedSelection = Annotated[
    None, require_unset("A dashboard is sent whole. Leave this field out.")
]
UnsupportedPrompt = Annotated[
    None, require_unset("Summaries by a language model are not supported. Leave this field out.")
]
UNSUPPORTED = frozenset(
    (
        *("integration_id", "dashboard_export_insights", "prompt", "ai_prompt_config"),
        *("summary_enabled", "summary_prompt_guide"),
    )
)


class SubscriptionBody(Fields):
    """A subscription of an insight or of a dashboard. `target_value` is the id of a destination of
    the project: a webhook for the type `webhook`, a Slack message for `slack`. The dates repeat
    the local time of `start_date` in the time zone of the project."""

    ignored_fields: ClassVar[frozenset[str] | None] = IGNORED_FIELDS

    insight: Id | None = None
    dashboard: Id | None = None
    title: Annotated[str, Text(TITLE_MAX, blank=True)] | None = None
    target_type: TargetType = OMITTED
    target_value: Annotated[str, Text(TARGET_MAX)] = OMITTED
    frequency: Frequency = OMITTED
    interval: Annotated[int, Between(1, MAX_INTERVAL)] = OMITTED
    byweekday: Annotated[list[Weekday], Len(0, 7)] | None = None
    bysetpos: (
        Annotated[int, Between(-MAX_POSITION, MAX_POSITION), BeforeValidator(_check_position)]
        | None
    ) = None
    count: Annotated[int, Between(1, MAX_COUNT)] | None = None
    start_date: BoundedDate = OMITTED
    until_date: BoundedDate | None = None
    enabled: Boolean = OMITTED
    deleted: Boolean = OMITTED
    integration_id: UnsupportedIntegration = None
    dashboard_export_insights: UnsupportedSelection = None
    prompt: UnsupportedPrompt = None
    ai_prompt_config: UnsupportedPrompt = None
    summary_enabled: UnsupportedPrompt = None
    summary_prompt_guide: UnsupportedPrompt = None

    def to_fields(self) -> SubscriptionFields:
        sent = {
            _NAMES.get(name, name): getattr(self, name)
            for name in self.model_fields_set - {"target_type", "target_value"} - UNSUPPORTED
        }
        for name, empty in (("title", ""), ("byweekday", ())):
            if name in sent:
                sent[name] = sent[name] or empty
        if "byweekday" in sent:
            sent["byweekday"] = tuple(dict.fromkeys(sent["byweekday"]))
        return SubscriptionFields(
            fields=sent, target_type=self.target_type, target_value=self.target_value
        )


_NAMES = {"insight": "insight_id", "dashboard": "dashboard_id"}


class NewSubscription(SubscriptionBody):
    target_type: TargetType
    target_value: Annotated[str, Text(TARGET_MAX)]
    frequency: Frequency
    start_date: BoundedDate


def _render(call: ProjectCall, subscription: Subscription) -> SubscriptionItem:
    return SubscriptionItem(
        id=subscription.id,
        insight=subscription.insight_id,
        dashboard=subscription.dashboard_id,
        title=subscription.title,
        target_type=subscription.target_type.value,
        target_value=str(subscription.destination_id),
        frequency=subscription.frequency.value,
        interval=subscription.interval,
        byweekday=[each.value for each in subscription.byweekday] or None,
        bysetpos=subscription.bysetpos,
        count=subscription.count,
        start_date=format_iso(subscription.start_date),
        until_date=_format(subscription.until_date),
        enabled=subscription.enabled,
        deleted=subscription.deleted,
        created_by=render_user(call, subscription.created_by),
        created_at=format_iso(subscription.created_at),
        next_delivery_date=_format(subscription.next_delivery_date),
        last_delivery_date=_format(subscription.last_delivery_date),
        last_error=subscription.last_error or None,
        summary=describe_recurrence(subscription.recurrence),
    )


def _format(moment: datetime | None) -> str | None:
    return None if moment is None else format_iso(moment)


SUBSCRIPTIONS = Collection(name="subscription", page=Page[SubscriptionItem], item=SubscriptionItem)


class SubscriptionEndpoints:
    tag = "Subscriptions"

    def __init__(self, activity: ActivityStore, subscriptions: Subscriptions) -> None:
        self._activity = activity
        self._subscriptions = subscriptions

    @SUBSCRIPTIONS.list_endpoint(*LIST_PARAMETERS)
    async def list_subscriptions(self, call: ProjectCall) -> Response:
        """List the project's subscriptions, newest first."""
        window = call.window
        insight, dashboard = _parse_id(call, "insight"), _parse_id(call, "dashboard")
        wanted = SubscriptionFilter(
            insight_id=None if insight is None else InsightId(insight),
            dashboard_id=None if dashboard is None else DashboardId(dashboard),
            limit=window.limit,
            offset=window.offset,
        )
        found, count = await self._subscriptions.list_subscriptions(call.project.id, wanted)
        return JsonResponse(call.page(count, [_render(call, each) for each in found]))

    @SUBSCRIPTIONS.create_endpoint(NewSubscription)
    async def create_subscription(self, call: ProjectCall) -> Response:
        """Create a subscription. Its first message is sent at its next date."""
        fields = (await call.body(NewSubscription)).to_fields()
        created = await self._subscriptions.create(call.project, fields, call.actor, call.now)
        return JsonResponse(_render(call, created), status_code=201)

    @SUBSCRIPTIONS.retrieve_endpoint()
    async def retrieve_subscription(self, call: ProjectCall) -> Response:
        """Retrieve a subscription."""
        found = await self._subscriptions.find(call.project.id, call.path_param("subscription_id"))
        return JsonResponse(_render(call, found))

    @SUBSCRIPTIONS.change_endpoint(SubscriptionBody)
    async def change_subscription(self, call: ProjectCall) -> Response:
        """Change, enable, disable or delete a subscription."""
        id = call.path_param("subscription_id")
        await self._subscriptions.find(call.project.id, id)
        fields = (await call.body(SubscriptionBody)).to_fields()
        changed = await self._subscriptions.change(call.project, id, fields, call.actor, call.now)
        return JsonResponse(_render(call, changed))

    @SUBSCRIPTIONS.delete_endpoint()
    async def delete_subscription(self, call: ProjectCall) -> Response:
        """Delete a subscription."""
        id = call.path_param("subscription_id")
        fields = SubscriptionFields(fields={"deleted": True})
        await self._subscriptions.change(call.project, id, fields, call.actor, call.now)
        return no_content()

    @activity_endpoint("subscriptions/{subscription_id}/activity/", SUBSCRIPTIONS.read)
    async def list_subscription_activity(self, call: ProjectCall) -> Response:
        """List the changes made to a subscription, newest first. Works for deleted ones too."""
        return await respond_with_activity(
            call, self._activity, SCOPE, call.path_param("subscription_id")
        )


def _parse_id(call: ProjectCall, name: str) -> int | None:
    text = call.query_param(name)
    number = parse_positive(text)
    if text and (number is None or number > INT64_MAX):
        raise Invalid("A valid integer is required.", attr=name)
    return number
