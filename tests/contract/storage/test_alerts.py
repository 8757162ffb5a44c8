"""Alerts are checked once per occasion, and their messages are queued with the check."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from sqlalchemy import func, select

from hedgerow.alerts.alerts import AlertFields, Alerts
from hedgerow.alerts.checker import CLAIM_DURATION, AlertChecker
from hedgerow.alerts.model import MAX_CHECKS, AlertState, AlertView, CheckInterval
from hedgerow.dashboards.model import InsightId
from hedgerow.dashboards.store import InsightWrite
from hedgerow.errors import Invalid, NotFound, Unavailable
from hedgerow.lib import jsonio
from hedgerow.pipelines.deliveries.messages import build_message
from hedgerow.pipelines.deliveries.model import NewDelivery
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.model import Project
from hedgerow.queries.model import QueryResponse
from hedgerow.queries.queries import Refresh
from hedgerow.storage.alerts.alerts import SqlAlertStore
from hedgerow.storage.dashboards.insights import SqlInsightStore
from hedgerow.storage.deletions import SqlDeletionLog
from hedgerow.storage.deliveries.new_deliveries import add_deliveries
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.tables import alert_checks
from tests.contract.storage.conftest import ACTOR, NOW, Stores
from tests.contract.storage.test_saved_insights import new_insight, record

THRESHOLD = {"configuration": {"type": "absolute", "bounds": {"lower": 10}}}


class World:
    """A project with a destination and an alert that fires below 10. `visits` is the value of the
    last complete day, `now` the time."""

    def __init__(self, stores: Stores, project: Project, destination: RecordId) -> None:
        self.project = project
        self.destination = destination
        self.alerts = Alerts(SqlAlertStore(stores.database))
        self.deliveries = SqlDeliveryStore(stores.database)
        self.stores = stores
        self.now = datetime(2026, 6, 10, 12, tzinfo=UTC)
        self.visits = 20.0
        self.failure: Exception | None = None
        self.on_query: Callable[[], Awaitable[None]] | None = None
        self.queries = 0
        self.checker = self.new_checker()

    def new_checker(self) -> AlertChecker:
        store = SqlAlertStore(self.stores.database)
        return AlertChecker(store, self.execute, lambda _: self.project, lambda: self.now)

    async def execute(
        self, project: Project, query: Mapping[str, Any], refresh: Refresh, id: str
    ) -> QueryResponse:
        self.queries += 1
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        if self.on_query is not None:
            on_query, self.on_query = self.on_query, None
            await on_query()
        results = [{"label": "visit", "data": [50, self.visits, 3]}]
        return QueryResponse(
            results=msgspec.Raw(jsonio.encode(results)),
            query=query,
            timezone="UTC",
            is_cached=False,
            cache_key="",
        )

    async def create(self, **fields: Any) -> AlertView:
        sent: dict[str, Any] = {
            "name": "Too few",
            "insight": InsightId(1),
            "condition": {"type": "absolute_value"},
            "threshold": THRESHOLD,
            "calculation_interval": CheckInterval.DAILY,
            "destinations": (self.destination,),
            **fields,
        }
        given = AlertFields(sent=frozenset(sent), **sent)
        return await self.alerts.create(self.project, given, ACTOR, self.now)

    async def change(self, id: str, **sent: Any) -> AlertView:
        given = AlertFields(sent=frozenset(sent), **sent)
        return await self.alerts.change(self.project, id, given, ACTOR, self.now)

    async def messages(self) -> list[dict[str, Any]]:
        due = await self.deliveries.due(self.destination, 100, 2**60)
        return [{"event": each.event.event, **jsonio.decode(each.event.properties)} for each in due]

    async def delete_events(self, *, is_personal: bool = True) -> None:
        log = SqlDeletionLog(self.stores.database)
        id = await log.begin(self.project.id, "", NOW)
        await log.end(id, NOW, is_personal=is_personal)

    async def names(self) -> list[str]:
        return [message["event"] for message in await self.messages()]


@pytest.fixture
async def world(stores: Stores) -> World:
    project = await stores.new_project()
    insights = SqlInsightStore(stores.database)
    insight = new_insight(project.id, "short1", name="Visits")
    await insights.write_insight(
        project.id, lambda _: InsightWrite(insight=insight, build_entry=record), NOW
    )
    destination = await stores.new_record(project_id=project.id, enabled=True)
    return World(stores, project, destination.id)


async def test_tells_once_that_it_fires_and_once_that_it_is_resolved(world: World) -> None:
    id = (await world.create()).alert.id
    await world.checker.check_due()
    assert await world.messages() == []
    world.visits = 9
    for _ in range(3):
        world.now += timedelta(days=1)
        await world.checker.check_due()
    [fired] = await world.messages()
    assert fired["event"] == "$insight_alert_firing"
    assert fired["message"] == (
        "Alert “Too few” on “Visits” is firing: The value of visit in the last day is 9, below the "
        "lower bound 10."
    )
    assert fired | {"alert_id": id, "insight_id": "short1", "calculated_value": 9} == fired
    world.visits = 10
    world.now += timedelta(days=1)
    await world.checker.check_due()
    assert await world.names() == ["$insight_alert_firing", "$insight_alert_resolved"]
    found = await world.alerts.find(world.project.id, id, 10)
    assert [check.state.value for check in found.checks] == [
        *("Not firing", "Firing", "Firing", "Firing", "Not firing")
    ]
    assert [len(check.notified) for check in found.checks] == [1, 0, 0, 1, 0]
    assert found.alert.last_notified_at == world.now


@pytest.mark.parametrize(("is_personal", "left"), [(True, 0), (False, 1)])
async def test_checks_do_not_name_who_was_deleted(
    world: World, *, is_personal: bool, left: int
) -> None:
    """The value of a breakdown may be a person."""
    world.visits = 9
    id = (await world.create()).alert.id
    await world.checker.check_due()
    await world.delete_events(is_personal=is_personal)
    [check] = (await world.alerts.find(world.project.id, id, 10)).checks
    assert (check.state.value, check.value, len(check.breaches)) == ("Firing", 9, left)
    [message] = await world.messages()
    assert ("The value of visit" in message["message"]) == bool(left)
    assert message["message"].startswith("Alert “Too few” on “Visits” is firing")
    assert bool(message["breaches"]) == bool(left)


async def test_a_check_during_a_deletion_is_made_again(world: World) -> None:
    """Its values are from before."""
    id = (await world.create()).alert.id
    world.visits = 9
    world.on_query = world.delete_events
    await world.checker.check_due()
    assert world.queries == 2
    assert len((await world.alerts.find(world.project.id, id, 10)).checks) == 1


async def test_captured_event_with_the_name_of_a_message_is_left_alone(world: World) -> None:
    new = replace(
        build_message(world.project.id, "$insight_alert_firing", {"state": "Firing"}, NOW),
        person_id="0190f3a6-5c1a-7000-8000-000000000001",
    )
    await world.stores.database.write(
        lambda connection: add_deliveries(
            connection, [NewDelivery(event=new, record_ids=[world.destination])], NOW
        )
    )
    await world.delete_events()
    assert await world.messages() == [{"event": "$insight_alert_firing", "state": "Firing"}]


async def test_a_check_that_was_missed_is_made_up_for_once(world: World) -> None:
    id = (await world.create()).alert.id
    await world.checker.check_due()
    world.now += timedelta(days=10)
    await world.checker.check_due()
    await world.checker.check_due()
    assert world.queries == 2
    found = await world.alerts.find(world.project.id, id)
    assert found.alert.next_check_at == datetime(2026, 6, 21, 1, tzinfo=UTC)


async def test_several_processes_store_one_check_and_one_message(world: World) -> None:
    id = (await world.create()).alert.id
    world.visits = 1
    checkers = [world.new_checker() for _ in range(4)]
    await asyncio.gather(*(checker.check_due() for checker in checkers))
    assert world.queries == 1
    assert await world.names() == ["$insight_alert_firing"]
    assert len((await world.alerts.find(world.project.id, id)).checks) == 1


async def test_a_process_that_dies_leaves_the_check_to_others(world: World) -> None:
    await world.create()
    store = SqlAlertStore(world.stores.database)
    claimed = await store.claim_due(world.project.id, world.now, world.now + CLAIM_DURATION)
    assert claimed is not None
    await world.checker.check_due()
    assert world.queries == 0
    world.now += CLAIM_DURATION
    await world.checker.check_due()
    assert world.queries == 1
    # The first process was only slow: its result is too late.
    await store.postpone(claimed.alert, NOW)
    found = await world.alerts.find(world.project.id, claimed.alert.id)
    assert found.alert.next_check_at > world.now


async def test_a_claim_from_before_the_clock_was_set_back_does_not_count(world: World) -> None:
    await world.create()
    later = world.now + timedelta(hours=1)
    store = SqlAlertStore(world.stores.database)
    assert await store.claim_due(world.project.id, later, later + CLAIM_DURATION)
    await world.checker.check_due()
    assert world.queries == 1


async def test_a_process_claims_one_alert_at_a_time(world: World) -> None:
    """Others do not wait for the alerts of a process that dies, except for the one it checked."""
    for _ in range(2):
        await world.create()
    store = SqlAlertStore(world.stores.database)
    assert await store.claim_due(world.project.id, world.now, world.now + CLAIM_DURATION)
    await world.checker.check_due()
    assert world.queries == 1


async def test_an_error_is_a_state_and_an_outage_is_not(world: World) -> None:
    id = (await world.create()).alert.id
    world.failure = Unavailable("The event store is away.")
    await world.checker.check_due()
    assert (await world.alerts.find(world.project.id, id)).checks == []
    world.now += CLAIM_DURATION
    world.failure = Invalid("Unknown property.")
    await world.checker.check_due()
    found = await world.alerts.find(world.project.id, id)
    assert (found.alert.state, found.checks[0].error) == (AlertState.ERRORED, "Unknown property.")
    [message] = await world.messages()
    assert message["event"] == "$insight_alert_errored"


async def test_snoozed_and_disabled_alerts_are_not_checked(world: World) -> None:
    id = (await world.create()).alert.id
    until = world.now + timedelta(hours=2)
    snoozed = await world.change(id, snoozed_until=until)
    assert snoozed.alert.state is AlertState.SNOOZED
    await world.checker.check_due()
    assert world.queries == 0
    world.now = until
    await world.checker.check_due()
    found = await world.alerts.find(world.project.id, id)
    assert (found.alert.state, found.alert.snoozed_until) == (AlertState.NOT_FIRING, None)
    await world.change(id, enabled=False)
    world.now += timedelta(days=5)
    await world.checker.check_due()
    assert world.queries == 1
    await world.change(id, enabled=True)
    await world.checker.check_due()
    assert world.queries == 2


async def test_a_change_of_the_bounds_starts_again(world: World) -> None:
    id = (await world.create()).alert.id
    world.visits = 1
    await world.checker.check_due()
    renamed = await world.change(id, name="Other")
    assert renamed.alert.state is AlertState.FIRING
    bounds = {"configuration": {"bounds": {"lower": 2}}}
    changed = await world.change(id, threshold=bounds)
    assert (changed.alert.state, changed.alert.next_check_at) == (AlertState.NOT_FIRING, world.now)
    entries = await world.stores.list_entries(scope="AlertConfiguration")
    assert [each.entry.activity for each in entries] == ["updated", "updated", "created"]


async def test_weekends_are_skipped(world: World) -> None:
    world.now = datetime(2026, 6, 13, 12, tzinfo=UTC)  # a Saturday
    id = (await world.create(skip_weekend=True)).alert.id
    await world.checker.check_due()
    found = await world.alerts.find(world.project.id, id)
    assert world.queries == 0
    assert found.alert.next_check_at == datetime(2026, 6, 15, 1, tzinfo=UTC)


async def test_a_disabled_destination_gets_no_message(world: World) -> None:
    other = await world.stores.new_record(project_id=world.project.id, enabled=False)
    world.visits = 1
    id = (await world.create(destinations=(other.id, world.destination))).alert.id
    await world.checker.check_due()
    [check] = (await world.alerts.find(world.project.id, id)).checks
    assert check.notified == [world.destination]


async def test_the_history_is_bounded_and_deleted_with_the_alert(world: World) -> None:
    id = (await world.create()).alert.id
    for _ in range(MAX_CHECKS + 5):
        world.now += timedelta(days=1)
        await world.checker.check_due()
    count = select(func.count()).select_from(alert_checks)
    assert await world.stores.fetch_scalar(count) == MAX_CHECKS
    await world.alerts.delete(world.project, id, ACTOR, world.now)
    assert await world.stores.fetch_scalar(count) == 0
    with pytest.raises(NotFound):
        await world.alerts.find(world.project.id, id)


@pytest.mark.parametrize(
    ("fields", "attr"),
    [
        ({"insight": InsightId(99)}, "insight"),
        ({"destinations": (RecordId(99),)}, "destinations"),
        ({"config": {"series_index": 1}}, "config__series_index"),
    ],
)
async def test_refuses_what_does_not_exist(
    world: World, fields: Mapping[str, Any], attr: str
) -> None:
    with pytest.raises(Invalid) as raised:
        await world.create(**fields)
    assert raised.value.attr == attr


async def test_alerts_of_a_project_do_not_delay_those_of_another(world: World) -> None:
    for _ in range(3):
        await world.create()
    other = await world.stores.new_project("Other")
    insight = new_insight(other.id, "short2", name="Others")
    await SqlInsightStore(world.stores.database).write_insight(
        other.id, lambda _: InsightWrite(insight=insight, build_entry=record), NOW
    )
    own, world.project = world.project, other
    await world.create(insight=InsightId(2), destinations=())
    checked: list[int] = []
    can_end = asyncio.Event()
    projects = {own.id: own, other.id: other}

    async def execute(
        project: Project, query: Mapping[str, Any], refresh: Refresh, id: str
    ) -> QueryResponse:
        checked.append(project.id)
        if project is other:
            can_end.set()
        await can_end.wait()
        return await world.execute(project, query, refresh, id)

    store = SqlAlertStore(world.stores.database)
    checker = AlertChecker(store, execute, lambda id: projects[id], lambda: world.now)
    async with asyncio.timeout(60):
        await checker.check_due()
    assert checked[:2] in ([own.id, other.id], [other.id, own.id])
    assert len(checked) == 4
