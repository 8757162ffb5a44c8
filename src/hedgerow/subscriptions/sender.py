"""Sends the subscriptions that are due: draws the charts, and queues a message for the
destination."""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any
from zoneinfo import ZoneInfo

from hedgerow.charts.from_results import build_error_chart, unwrap_query
from hedgerow.dashboards.saved_query import apply_filters
from hedgerow.errors import AppError
from hedgerow.events.model import Event
from hedgerow.lib.clock import Clock
from hedgerow.lib.tokens import generate_token
from hedgerow.pipelines.deliveries.messages import build_message
from hedgerow.projects.model import Project, ProjectId
from hedgerow.projects.recurrence import describe_recurrence, find_next_date
from hedgerow.queries.due_work import DueWork
from hedgerow.subscriptions.model import (
    MAX_CHARTS,
    ChartSource,
    SubscribedContent,
    Subscription,
    TargetType,
)
from hedgerow.subscriptions.pictures import ChartPictures
from hedgerow.subscriptions.store import SentSubscription, SubscriptionStore

EVENT = "$insight_subscription"
# Longer than the queries and the pictures of a message take.
CLAIM_DURATION = timedelta(minutes=5)
TOKEN_BITS = 192
PICTURE_MAX_AGE = timedelta(days=7)
PICTURE_PATH = "/exporter/"
PICTURE_FIELDS = ("image", "content_type")
DELETED = "The insight or dashboard was deleted."
EMPTY = "The dashboard has no charts."
# Errors that pass: the subscription is sent after its claim.
_PASSING = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)

FindProject = Callable[[ProjectId], Project | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnChart:
    """`token` is part of the link to the picture, empty if there is no link."""

    source: ChartSource
    picture: bytes
    token: str


class _TryLater(Exception):
    """A passing error: nothing is stored."""


class SubscriptionSender:
    """`public_url` is the address of the service for links to pictures, empty if unknown."""

    def __init__(
        self,
        store: SubscriptionStore,
        pictures: ChartPictures,
        find_project: FindProject,
        clock: Clock,
        *,
        public_url: str,
    ) -> None:
        self._store = store
        self._pictures = pictures
        self._find_project = find_project
        self._clock = clock
        self._public_url = public_url.rstrip("/")
        self._work = DueWork(self._list_projects, self._send_next)

    async def send_due(self) -> None:
        """Send all subscriptions that are due. Projects take turns."""
        await self._work.run()

    async def _list_projects(self) -> Sequence[ProjectId]:
        now = self._clock()
        return await self._store.list_due_projects(now, now + CLAIM_DURATION)

    async def _send_next(self, project_id: ProjectId) -> None:
        now = self._clock()
        claimed_until = now + CLAIM_DURATION
        due = await self._store.claim_due(project_id, now, claimed_until)
        if due is not None:
            await self._send(due, claimed_until)

    async def delete_old_pictures(self) -> None:
        await self._store.delete_pictures(self._clock() - PICTURE_MAX_AGE)

    async def _send(self, subscription: Subscription, claimed_until: datetime) -> None:
        project = self._find_project(subscription.project_id)
        if project is None:  # deleted, and so are its subscriptions soon
            return
        content = await self._store.content(subscription, MAX_CHARTS)
        try:
            charts = await self._draw_all(project, content)
        except _TryLater:
            return
        now, zone = self._clock(), ZoneInfo(project.timezone)
        message = self._build_message(subscription, content, charts) if content and charts else None
        sent = SentSubscription(
            subscription=subscription,
            claimed_until=claimed_until,
            message=message,
            pictures={chart.token: chart.picture for chart in charts if chart.token},
            next_delivery_date=find_next_date(subscription.recurrence, now, zone),
            error=DELETED if content is None else ("" if charts else EMPTY),
        )
        await self._store.save_sent(sent, now)

    async def _draw_all(
        self, project: Project, content: SubscribedContent | None
    ) -> Sequence[DrawnChart]:
        if content is None:
            return ()
        return [await self._draw(project, content, source) for source in content.charts]

    async def _draw(
        self, project: Project, content: SubscribedContent, source: ChartSource
    ) -> DrawnChart:
        """Draw a chart, or a picture that says why there is none."""
        query = apply_filters(unwrap_query(source.query), content.filters)
        try:
            picture = await self._pictures.draw(project, source.name, query)
        except AppError as error:
            if error.status in _PASSING:
                raise _TryLater from error
            failed = build_error_chart(source.name, error.detail)
            picture = await self._pictures.draw_message(project, failed)
        token = generate_token("", TOKEN_BITS) if self._public_url else ""
        return DrawnChart(source=source, picture=picture, token=token)

    def _build_message(
        self, subscription: Subscription, content: SubscribedContent, charts: Sequence[DrawnChart]
    ) -> Event:
        is_webhook = subscription.target_type is TargetType.WEBHOOK
        properties = {
            "subscription_id": subscription.id,
            "title": subscription.title,
            "resource": "insight" if subscription.insight_id else "dashboard",
            "resource_name": content.name,
            "summary": describe_recurrence(subscription.recurrence),
            "message": _describe(subscription, content),
            "charts": [self._describe_chart(chart, with_image=is_webhook) for chart in charts],
        }
        return build_message(subscription.project_id, EVENT, properties, self._clock())

    def _describe_chart(self, chart: DrawnChart, *, with_image: bool) -> dict[str, Any]:
        link = f"{self._public_url}{PICTURE_PATH}{chart.token}.png" if chart.token else None
        image = b64encode(chart.picture).decode() if with_image else None
        return {
            "insight_id": chart.source.short_id,
            "title": chart.source.name or "Untitled insight",
            "image_url": link,
            **({"image": image, "content_type": "image/png"} if with_image else {}),
        }


def remove_pictures(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Remove the pictures from the properties of a message, and the links to them: they may show a
    person."""
    charts = [
        {name: value for name, value in chart.items() if name not in PICTURE_FIELDS}
        | {"image_url": None}
        for chart in properties["charts"]
    ]
    return {**properties, "charts": charts}


def _describe(subscription: Subscription, content: SubscribedContent) -> str:
    kind = "insight" if subscription.insight_id else "dashboard"
    name = content.name or f"Untitled {kind}"
    text = f"{subscription.title}: " if subscription.title else ""
    text += f"the {kind} “{name}”, {describe_recurrence(subscription.recurrence)}."
    if content.total > len(content.charts):
        text += f" It shows {len(content.charts)} of {content.total} charts."
    return text
