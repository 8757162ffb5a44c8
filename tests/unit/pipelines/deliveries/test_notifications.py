"""Notifications are sent until they are delivered or have used up their attempts."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.pipelines.deliveries.notifications import (
    MAX_ATTEMPTS,
    NotificationReceiver,
    Notifier,
    build_notification,
)
from hedgerow.pipelines.store import Notification
from hedgerow.plugin.http import Request, Response, TransportError
from tests.unit.fake_time import START
from tests.unit.pipelines.sample_components import RECORD

BODY = build_notification("destination.paused", RECORD, "Hook", "HTTP 500", START)


class FakeNotificationStore:
    """Stores one notification and its due time."""

    def __init__(self) -> None:
        self.notification: Notification | None = Notification(
            id=7, body=BODY, attempts=0, created_ms=5
        )
        self.due = START

    async def claim(self, now: datetime, until: datetime, limit: int) -> Sequence[Notification]:
        if self.notification is None or self.due > now:
            return []
        self.due = until
        return [self.notification]

    async def postpone(self, id: int, attempts: int, until: datetime) -> None:
        assert self.notification is not None
        self.notification, self.due = replace(self.notification, attempts=attempts), until

    async def remove(self, id: int) -> None:
        self.notification = None


class FakeHttpClient:
    def __init__(self, *statuses: int | None) -> None:
        self.statuses = list(statuses)
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        status = self.statuses.pop(0) if self.statuses else None
        if status is None:
            raise TransportError("Connection refused.")
        return Response(status=status, headers={}, body=b"")

    def stream(self, request: Request) -> Any:
        raise NotImplementedError


class NotifierFixture:
    def __init__(self, *statuses: int | None) -> None:
        self.now = START
        self.store, self.http = FakeNotificationStore(), FakeHttpClient(*statuses)
        self.lost: list[str] = []
        receiver = NotificationReceiver(url="https://example.com/hook", secret="secret")
        self.notifier = Notifier(
            self.store, receiver, self.http, lambda: self.now, self.lost.append
        )

    async def run(self, hours: float) -> None:
        end = self.now + timedelta(hours=hours)
        while self.now < end:
            await self.notifier.send_due()
            self.now += timedelta(seconds=1)


async def test_failed_notification_is_retried_unchanged() -> None:
    fixture = NotifierFixture(503, None, 404, 200)
    await fixture.run(hours=1)
    assert fixture.store.notification is None
    assert fixture.lost == []
    assert len(fixture.http.requests) == 4
    assert {each.body for each in fixture.http.requests} == {BODY.encode()}
    assert len({each.headers["webhook-id"] for each in fixture.http.requests}) == 1
    assert all("webhook-signature" in each.headers for each in fixture.http.requests)


async def test_attempts_are_limited() -> None:
    fixture = NotifierFixture()
    await fixture.run(hours=2)
    assert fixture.store.notification is None
    assert len(fixture.http.requests) == MAX_ATTEMPTS
    assert fixture.lost == ["Connection refused."]


def test_notification_names_the_destination_and_the_error() -> None:
    assert jsonio.decode(BODY)["data"] == {
        "project_id": RECORD.project_id,
        "destination_id": RECORD.id,
        "name": "Hook",
        "error": "HTTP 500",
    }
