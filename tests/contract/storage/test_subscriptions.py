"""Subscriptions are sent once per date, and their messages are queued with the next date."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import func, insert, select, update

from hedgerow.dashboards.model import DashboardId, InsightId
from hedgerow.dashboards.store import InsightWrite
from hedgerow.errors import Invalid, NotFound, Unavailable
from hedgerow.lib import jsonio
from hedgerow.pipelines.model import ComponentId, RecordId
from hedgerow.projects.model import Project, ProjectId
from hedgerow.projects.recurrence import Frequency
from hedgerow.storage.alerts.subscriptions import SqlSubscriptionStore
from hedgerow.storage.dashboards.insights import SqlInsightStore
from hedgerow.storage.deletions import SqlDeletionLog
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.tables import chart_pictures, dashboard_tiles, dashboards, saved_insights
from hedgerow.subscriptions.model import Subscription, TargetType
from hedgerow.subscriptions.pictures import ChartPictures
from hedgerow.subscriptions.sender import CLAIM_DURATION, PICTURE_MAX_AGE, SubscriptionSender
from hedgerow.subscriptions.subscriptions import SubscriptionFields, Subscriptions
from tests.contract.storage.conftest import ACTOR, DEFAULT_PROJECT, NOW, Stores
from tests.contract.storage.test_saved_insights import QUERY, new_insight, record

BERLIN = ZoneInfo("Europe/Berlin")
WEBHOOK, SLACK = ComponentId(1), ComponentId(2)
KEYS = {WEBHOOK: "hedgerow/webhook", SLACK: "hedgerow/slack-message"}


class DrawnNames(ChartPictures):
    """Draws the name of an insight instead of a picture, or fails as the test wants."""

    def __init__(self) -> None:
        self.queries: list[Mapping[str, Any]] = []
        self.failure: Exception | None = None
        self.on_draw: Callable[[], Awaitable[None]] | None = None

    async def draw(
        self, project: Project, title: str, query: Mapping[str, Any], form: str = "png"
    ) -> bytes:
        self.queries.append(query)
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        if self.on_draw is not None:
            on_draw, self.on_draw = self.on_draw, None
            await on_draw()
        return title.encode()

    async def draw_message(self, project: Project, picture: Any) -> bytes:
        return str(picture.body.text).encode()


class World:
    """A project in Berlin with a webhook, an insight and a dashboard. `now` is the time."""

    def __init__(self, stores: Stores, project: Project, webhook: RecordId) -> None:
        self.stores = stores
        self.project = project
        self.webhook = webhook
        self.now = datetime(2026, 3, 27, 12, tzinfo=UTC)
        self.pictures = DrawnNames()
        self.store = SqlSubscriptionStore(stores.database)
        self.subscriptions = Subscriptions(self.store, KEYS.get)
        self.sender = self.new_sender()

    def new_sender(self) -> SubscriptionSender:
        return SubscriptionSender(
            SqlSubscriptionStore(self.stores.database),
            self.pictures,
            lambda _: self.project,
            lambda: self.now,
            public_url="https://hedgerow.example.com/",
        )

    async def create(self, **fields: Any) -> Subscription:
        """Create a subscription of the insight, daily at 9:00 in Berlin."""
        sent = {
            "insight_id": InsightId(1),
            "frequency": Frequency.DAILY,
            "start_date": datetime(2026, 3, 28, 9, tzinfo=BERLIN),
            **fields,
        }
        target = SubscriptionFields(
            fields=sent, target_type=TargetType.WEBHOOK, target_value=str(self.webhook)
        )
        return await self.subscriptions.create(self.project, target, ACTOR, self.now)

    async def change(self, id: int, **fields: Any) -> Subscription:
        sent = SubscriptionFields(fields=fields)
        return await self.subscriptions.change(self.project, str(id), sent, ACTOR, self.now)

    async def find(self, id: int) -> Subscription:
        return await self.subscriptions.find(self.project.id, str(id))

    async def messages(self) -> list[dict[str, Any]]:
        due = await SqlDeliveryStore(self.stores.database).due(self.webhook, 100, 2**60)
        return [jsonio.decode(each.event.properties) for each in due]

    async def delete_events(
        self, project_id: ProjectId | None = None, *, is_personal: bool = True
    ) -> None:
        log = SqlDeletionLog(self.stores.database)
        id = await log.begin(project_id or self.project.id, "", NOW)
        await log.end(id, NOW, is_personal=is_personal)

    async def count_pictures(self) -> int:
        count = select(func.count()).select_from(chart_pictures)
        return int(await self.stores.fetch_scalar(count))


def _choose(write: InsightWrite, _: object) -> InsightWrite:
    return write


@pytest.fixture
async def world(stores: Stores) -> World:
    project = await stores.new_project()
    insights = SqlInsightStore(stores.database)
    for number in range(8):
        insight = new_insight(project.id, f"short{number}", name=f"Chart {number}")
        write = InsightWrite(insight=insight, build_entry=record)
        await insights.write_insight(project.id, partial(_choose, write), NOW)
    hook = await stores.new_record(project_id=project.id, enabled=True, component_id=WEBHOOK)
    return World(stores, project, hook.id)


async def add_dashboard(stores: Stores, project: Project) -> DashboardId:
    """A dashboard with eight charts, the last one at the top, and a date range."""
    row = {
        "project_id": project.id,
        "name": "Overview",
        "description": "",
        "pinned": False,
        "deleted": False,
        "tags": [],
        "filters": {"date_from": "-30d"},
        "restriction_level": 21,
        "creation_mode": "default",
        "created_by": "",
        "created_at": NOW,
        "last_modified_by": "",
        "last_modified_at": NOW,
    }
    tiles = [
        {
            "project_id": project.id,
            "dashboard_id": 1,
            "insight_id": number + 1,
            "text": None,
            "layouts": {"sm": {"x": 0, "y": -number}},
            "color": None,
            "created_by": "",
            "last_modified_by": "",
            "last_modified_at": NOW,
        }
        for number in range(8)
    ]

    def change(connection: Any) -> None:
        connection.execute(insert(dashboards), row)
        connection.execute(insert(dashboard_tiles), tiles)

    await stores.database.write(change)
    return DashboardId(1)


async def test_is_sent_at_its_local_time_and_missed_dates_once(world: World) -> None:
    world.project = replace(world.project, timezone="Europe/Berlin")
    id = (await world.create()).id
    await world.sender.send_due()
    assert await world.messages() == []
    world.now = datetime(2026, 4, 5, 12, tzinfo=UTC)
    for _ in range(2):
        await world.sender.send_due()
    [message] = await world.messages()
    assert message["message"] == "the insight “Chart 0”, sent every day."
    [chart] = message["charts"]
    assert (chart["insight_id"], chart["title"]) == ("short0", "Chart 0")
    token = chart["image_url"].removeprefix("https://hedgerow.example.com/exporter/")
    assert await world.store.picture(token.removesuffix(".png")) == b"Chart 0"
    found = await world.find(id)
    assert found.last_delivery_date == world.now
    assert found.next_delivery_date == datetime(2026, 4, 6, 7, tzinfo=UTC)


async def test_pictures_do_not_show_who_was_deleted(world: World) -> None:
    """Pictures of other projects stay, and so do all if no person's data was deleted."""
    await world.create()
    world.now = datetime(2026, 4, 5, 12, tzinfo=UTC)
    await world.sender.send_due()
    counts = []
    for project, is_personal in (
        (world.project.id, False),
        (DEFAULT_PROJECT, True),
        (world.project.id, True),
    ):
        await world.delete_events(project, is_personal=is_personal)
        [message] = await world.messages()
        [chart] = message["charts"]
        counts.append((await world.count_pictures(), "image" in chart, bool(chart["image_url"])))
    assert counts == [(1, True, True), (1, True, True), (0, False, False)]


async def test_a_picture_that_is_drawn_during_a_deletion_is_drawn_again(world: World) -> None:
    """It may show who was deleted."""
    await world.create()
    world.now = datetime(2026, 4, 5, 12, tzinfo=UTC)
    world.pictures.on_draw = world.delete_events
    await world.sender.send_due()
    assert len(world.pictures.queries) == 2
    assert len(await world.messages()) == await world.count_pictures() == 1


async def test_several_processes_send_one_message(world: World) -> None:
    await world.create()
    world.now += timedelta(days=2)
    await asyncio.gather(*(world.new_sender().send_due() for _ in range(4)))
    assert len(await world.messages()) == 1
    assert len(world.pictures.queries) == 1


async def test_an_outage_delays_and_an_error_is_drawn(world: World) -> None:
    await world.create()
    world.now += timedelta(days=2)
    world.pictures.failure = Unavailable("The event store is away.")
    await world.sender.send_due()
    await world.sender.send_due()
    assert await world.messages() == []
    assert len(world.pictures.queries) == 1
    world.now += CLAIM_DURATION
    world.pictures.failure = Invalid("Unknown property.")
    await world.sender.send_due()
    [message] = await world.messages()
    assert message["charts"][0]["image"] == "VW5rbm93biBwcm9wZXJ0eS4="


async def test_a_dashboard_sends_its_first_six_charts_with_its_filters(world: World) -> None:
    dashboard = await add_dashboard(world.stores, world.project)
    await world.create(insight_id=None, dashboard_id=dashboard)
    world.now += timedelta(days=2)
    await world.sender.send_due()
    [message] = await world.messages()
    assert [chart["title"] for chart in message["charts"]] == [
        f"Chart {number}" for number in (7, 6, 5, 4, 3, 2)
    ]
    assert message["message"].endswith("It shows 6 of 8 charts.")
    assert world.pictures.queries[0] == {**QUERY, "dateRange": {"date_from": "-30d"}}
    assert await world.count_pictures() == 6
    world.now += PICTURE_MAX_AGE + timedelta(seconds=1)
    await world.sender.delete_old_pictures()
    assert await world.count_pictures() == 0


async def test_ends_with_its_count(world: World) -> None:
    id = (await world.create(count=1)).id
    world.now += timedelta(days=5)
    await world.sender.send_due()
    assert (await world.find(id)).next_delivery_date is None
    world.now += timedelta(days=5)
    await world.sender.send_due()
    assert len(await world.messages()) == 1


async def test_a_deleted_insight_and_a_disabled_destination_are_errors(world: World) -> None:
    id = (await world.create()).id
    gone = update(saved_insights).values(deleted=True)
    await world.stores.database.write(lambda connection: connection.execute(gone))
    world.now += timedelta(days=2)
    await world.sender.send_due()
    assert (await world.find(id)).last_error == "The insight or dashboard was deleted."
    assert await world.messages() == []


async def test_disabled_and_deleted_ones_are_not_sent(world: World) -> None:
    disabled, deleted = (await world.create()).id, (await world.create()).id
    await world.change(disabled, enabled=False)
    await world.change(deleted, deleted=True)
    world.now += timedelta(days=2)
    await world.sender.send_due()
    assert await world.messages() == []
    with pytest.raises(NotFound):
        await world.find(deleted)
    enabled = await world.change(disabled, enabled=True)
    assert enabled.next_delivery_date is not None
    assert enabled.next_delivery_date > world.now
    entries = await world.stores.list_entries(scope="Subscription")
    assert [each.entry.activity for each in entries] == [
        *("updated", "deleted", "updated", "created", "created")
    ]


@pytest.mark.parametrize(
    ("fields", "attr"),
    [
        ({"insight_id": None}, "insight"),
        ({"dashboard_id": DashboardId(9)}, "insight"),
        ({"insight_id": InsightId(99)}, "insight"),
        ({"insight_id": None, "dashboard_id": DashboardId(9)}, "dashboard"),
        ({"start_date": NOW - timedelta(days=400), "count": 3}, "start_date"),
        ({"until_date": NOW - timedelta(days=400)}, "until_date"),
    ],
)
async def test_refuses_what_cannot_be_sent(
    world: World, fields: Mapping[str, Any], attr: str
) -> None:
    with pytest.raises(Invalid) as raised:
        await world.create(**fields)
    assert raised.value.attr == attr
