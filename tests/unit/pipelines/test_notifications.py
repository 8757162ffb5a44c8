"""Notifications are sent until they arrive, or were tried often enough."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.pipelines.notifications import MAX_TRIES, Notifier, Receiver, notice
from hedgerow.pipelines.sending import CannotSend, Request, Response
from hedgerow.pipelines.store import Notification
from tests.unit.fake_time import START
from tests.unit.pipelines.world import RECORD

BODY = notice("destination.paused", RECORD, "Hook", "HTTP 500", START)


class Kept:
    """One notification, and when it is due."""

    def __init__(self) -> None:
        self.one: Notification | None = Notification(id=7, body=BODY, attempts=0, created_ms=5)
        self.due = START

    async def claimed(self, now: datetime, until: datetime, limit: int) -> Sequence[Notification]:
        if self.one is None or self.due > now:
            return []
        self.due = until
        return [self.one]

    async def put_off(self, id: int, attempts: int, until: datetime) -> None:
        assert self.one is not None
        self.one, self.due = replace(self.one, attempts=attempts), until

    async def end(self, id: int) -> None:
        self.one = None


class Watcher:
    def __init__(self, *answers: int | None) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        status = self.answers.pop(0) if self.answers else None
        if status is None:
            raise CannotSend("Nobody is there.")
        return Response(status=status, headers={}, body=b"")

    def stream(self, request: Request) -> Any:
        raise NotImplementedError


class World:
    def __init__(self, *answers: int | None) -> None:
        self.now = START
        self.kept, self.watcher = Kept(), Watcher(*answers)
        self.lost: list[str] = []
        receiver = Receiver(url="https://example.com/hook", secret="secret")
        self.notifier = Notifier(
            self.kept, receiver, self.watcher, lambda: self.now, self.lost.append
        )

    async def run(self, hours: float) -> None:
        end = self.now + timedelta(hours=hours)
        while self.now < end:
            await self.notifier.send()
            self.now += timedelta(seconds=1)


async def test_what_is_not_heard_is_said_again_in_the_same_words() -> None:
    world = World(503, None, 404, 200)
    await world.run(hours=1)
    assert world.kept.one is None
    assert world.lost == []
    assert len(world.watcher.requests) == 4
    assert {each.body for each in world.watcher.requests} == {BODY.encode()}
    assert len({each.headers["webhook-id"] for each in world.watcher.requests}) == 1
    assert all("webhook-signature" in each.headers for each in world.watcher.requests)


async def test_nobody_is_told_for_ever() -> None:
    world = World()
    await world.run(hours=2)
    assert world.kept.one is None
    assert len(world.watcher.requests) == MAX_TRIES
    assert world.lost == ["Nobody is there."]


def test_a_notice_says_which_destination_and_why() -> None:
    assert jsonio.decode(BODY)["data"] == {
        "project_id": RECORD.project_id,
        "destination_id": RECORD.id,
        "name": "Hook",
        "error": "HTTP 500",
    }
