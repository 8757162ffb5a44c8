"""A crash between two steps of capture has no visible effect: the next process continues."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select

from hedgerow.definitions.learn import DefinitionLearner
from hedgerow.definitions.schema_registry import WORKER_LIMITS, SchemaRegistry
from hedgerow.events.model import Event
from hedgerow.ingestion import fan_out
from hedgerow.ingestion.accept import Capture
from hedgerow.ingestion.backpressure import AdmissionControl
from hedgerow.ingestion.cookieless.resolve import CookielessVisitors
from hedgerow.ingestion.model import CaptureBatch
from hedgerow.ingestion.parsing.request import parse_batch
from hedgerow.ingestion.process import Processor
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.schema_stage import SchemaStage
from hedgerow.ingestion.transform_stage import TransformStage
from hedgerow.lib import jsonio
from hedgerow.lib.encryption import EncryptionKeys, generate_encryption_key
from hedgerow.lib.ids import UUID7_RANDOM_BYTES
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.deliveries import routing
from hedgerow.pipelines.deliveries.routing import RoutingStage
from hedgerow.pipelines.destinations.registry import DestinationRegistry
from hedgerow.pipelines.model import ComponentId, Record, RecordDraft
from hedgerow.pipelines.store import RecordEdit
from hedgerow.pipelines.store import RecordKey as RecordPlace
from hedgerow.pipelines.transformations.registry import TransformationRegistry
from hedgerow.plugin.component import Family
from hedgerow.projects.activity import SYSTEM, ActivityEntry
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import (
    DatabaseLocation,
    EventStoreLocation,
    open_database,
    open_event_store,
)
from hedgerow.storage.deliveries.groups import SqlGroupStore
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.errors import is_data_error
from hedgerow.storage.ingestion import inbox_packing
from hedgerow.storage.ingestion.cookieless import SqlCookielessStore
from hedgerow.storage.ingestion.definitions import SqlDefinitionStore, SqlSchemaStore
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from hedgerow.storage.migrations.apply import prepare_database
from hedgerow.storage.pipelines.records import SqlRecordStore
from hedgerow.storage.tables import (
    delivery_events,
    flag_calls,
    flags,
    person_distinct_ids,
    persons,
    transformation_counts,
)
from hedgerow.storage.tables.ingestion import inbox
from tests.fault.capture_batches import (
    COUNTED_FLAG,
    build_batches,
    build_event,
    build_flag_call,
    get_uuids,
)
from tests.fault.decide_requests import build_filters, write_rows
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import PERSONAL_KEY, PROJECT_KEY

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
PROJECT = ProjectId(1)
CIPHER = EncryptionKeys([generate_encryption_key()])
STEPS = ("before process", "after process", "before append", "after append", "after stored")


class Killed(BaseException):
    """Not caught anywhere, like kill -9."""


@dataclass(slots=True)
class Crash:
    """Raises once, at a step, after it was passed a number of times."""

    step: str
    turns: int = 0

    def pass_step(self, step: str) -> None:
        if step == self.step:
            if not self.turns:
                self.step = ""
                raise Killed(step)
            self.turns -= 1


TRANSFORMATION = RecordDraft(
    project_id=PROJECT,
    family=Family.TRANSFORMATION,
    component_id=ComponentId(64),
    component_version="1.0.0",
    enabled=True,
    order=None,
    name="",
    description="",
    deleted=False,
    web_token="",
)
DESTINATION = replace(
    TRANSFORMATION, family=Family.DESTINATION, component_id=ComponentId(1), component_version="1"
)
# printf a | openssl dgst -sha256 -hmac pepper
HASH_OF_A = "69dfcf5937d48bf9fc1d6ec1c7f067449e2466f352259e7b573d5c9fa9daec72"


def _build_entry(_: Record | None, after: Record) -> ActivityEntry:
    return ActivityEntry(
        scope="PluginConfig",
        item_id=str(after.id),
        item_name="",
        activity="created",
        actor=SYSTEM,
        project_id=PROJECT,
    )


class CrashingInbox(SqlInboxStore):
    def __init__(self, database: Database, crash: Crash) -> None:
        super().__init__(database, 1)
        self._crash = crash

    async def process(self, *args: Any) -> bool:
        self._crash.pass_step("before process")
        result = await super().process(*args)
        self._crash.pass_step("after process")
        return result

    async def mark_stored(self, *args: Any) -> None:
        await super().mark_stored(*args)
        self._crash.pass_step("after stored")


class CrashingEvents:
    def __init__(self, events: Any, crash: Crash) -> None:
        self._events = events
        self._crash = crash
        self.delete = events.delete
        self.acceptances = events.acceptances

    async def append(self, events: Sequence[Event]) -> int:
        self._crash.pass_step("before append")
        number: int = await self._events.append(events)
        self._crash.pass_step("after append")
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The databases, which outlive a process."""

    database: Database
    events: Any

    async def process(self, crash: Crash, clock: Callable[[], datetime] = lambda: NOW) -> "Process":
        """Start a process."""
        inbox, progress = CrashingInbox(self.database, crash), Progress()
        admission = AdmissionControl(progress, lambda: 1, max_waiting=10**6, min_free_bytes=0)
        node = Process(
            capture=Capture(
                inbox,
                progress,
                admission,
                CookielessVisitors(
                    SqlCookielessStore(self.database), _no_location, lambda _: "UTC"
                ),
            ),
            processor=Processor(
                inbox=inbox,
                events=CrashingEvents(self.events, crash),
                progress=progress,
                watch=None,
                idle_s=0.01,
                locate_ip=_no_location,
                transform_stage=TransformStage(self.transformations()),
                schema_stage=SchemaStage(
                    SchemaRegistry(
                        SqlSchemaStore(self.database), FunctionPool(WORKER_LIMITS), lambda _: None
                    )
                ),
                learner=DefinitionLearner(SqlDefinitionStore(self.database), clock),
                routing=self.routing(),
                is_data_error=is_data_error,
                on_dead_letter=print,
                clock=clock,
            ),
            progress=progress,
        )
        await node.processor.start()
        return node

    def routing(self) -> RoutingStage:
        records = SqlRecordStore(self.database)
        destinations = DestinationRegistry(records, Catalogue(), CIPHER)
        groups = SqlGroupStore(self.database)
        return RoutingStage(destinations, groups, lambda _: None, lambda: NOW)

    def transformations(self) -> TransformationRegistry:
        return TransformationRegistry(SqlRecordStore(self.database), Catalogue(), CIPHER)

    async def stored(self) -> list[dict[str, Any]]:
        sql = "SELECT * FROM events ORDER BY created_at, timestamp, uuid"
        found: list[dict[str, Any]] = await self.events.query(
            sql, {}, max_rows=100_000, timeout_s=20
        )
        return found

    async def properties(self) -> dict[str, Any]:
        """Return the properties of the only person."""
        query = select(persons.c.properties)
        found: dict[str, Any] = await self.database.read(
            lambda connection: connection.execute(query).scalar_one()
        )
        return found

    async def number_of(self, what: Any) -> int:
        return await self.database.read(
            lambda connection: int(connection.execute(select(what)).scalar() or 0)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The services of one process."""

    capture: Capture
    processor: Processor
    progress: Progress

    async def accept(self, batch: Sequence[dict[str, Any]], now: datetime = NOW) -> None:
        await self.capture.accept(PROJECT, _read(batch, now), now)

    async def work(self) -> None:
        """Process until nothing waits."""
        while self.progress.waiting:
            await self.processor.process()
            await self.processor.store()


def _no_location(_: str) -> Mapping[str, Any]:
    return {}


def _read(batch: Sequence[dict[str, Any]], now: datetime) -> CaptureBatch:
    return parse_batch(
        {"api_key": PROJECT_KEY, "batch": batch},
        now=now,
        query_sent_at_ms=None,
        is_engage=False,
        ip="",
        randomness=bytes(UUID7_RANDOM_BYTES),
    )


@pytest.fixture
async def world(tmp_path: Path, clickhouse: ClickHouseTestServer) -> AsyncIterator[World]:
    place = DatabaseLocation(url="", path=tmp_path / "hedgerow.db", timeout_s=5)
    prepare_database(
        place, InitialKeys(project_key=PROJECT_KEY, personal_key=PERSONAL_KEY), lambda: NOW
    )
    write_rows(tmp_path, flags, [{"key": COUNTED_FLAG, "filters": build_filters()}])
    opened = World(
        database=open_database(place),
        events=open_event_store(
            EventStoreLocation(url=clickhouse.create_database(), folder=tmp_path, timeout_s=5)
        ),
    )
    yield opened
    await opened.events.close()
    await opened.database.close()


@pytest.mark.parametrize("step", STEPS)
async def test_crash_between_steps_has_no_effect(world: World, step: str) -> None:
    batches = [batch for _, batch in zip(range(12), build_batches("ann"), strict=False)]
    first = await world.process(Crash(step, turns=0))
    for batch in batches[:6]:
        await first.accept(batch)
    with pytest.raises(Killed, match=step):
        await first.work()
    second = await world.process(Crash(step, turns=1))
    for batch in batches[6:]:
        await second.accept(batch)
    with suppress(Killed):  # a second crash, while processing leftovers and new events
        await second.work()
    await (await world.process(Crash(""))).work()
    await _assert_once(world, [each for batch in batches for each in batch])


@pytest.mark.parametrize("step", ["before process", "after process"])
async def test_crash_transforms_nothing_twice(world: World, step: str) -> None:
    """The counts are unaffected too."""
    records = SqlRecordStore(world.database)
    config = {"names": ["email", "$set.email"], "salt": {"$sealed": CIPHER.encrypt("pepper")}}
    made = await records.add(TRANSFORMATION, _build_entry, None, NOW)
    place = RecordPlace(project_id=PROJECT, family=made.family, id=made.id)
    edited = RecordEdit(record=replace(made, config=config), entry=None)
    await records.edit(place, lambda _: edited, _build_entry, NOW)
    batch = [build_event("$set", "ann", email="a", **{"$set": {"email": "a"}}) for _ in range(9)]
    node = await world.process(Crash(step))
    await node.accept(batch)
    with pytest.raises(Killed, match=step):
        await node.work()
    await (await world.process(Crash(""))).work()
    emails = {jsonio.decode(row["properties"])["email"] for row in await world.stored()}
    assert emails == {HASH_OF_A}
    assert (await world.properties())["email"] == HASH_OF_A
    assert await world.number_of(func.sum(transformation_counts.c.changed)) == len(batch)


@pytest.mark.parametrize("slices", [1, 3, 4])
async def test_crash_during_a_fan_out_adds_each_delivery_once(
    world: World, slices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_packing, "FAN_OUT_EVENTS", 2)
    monkeypatch.setattr(fan_out, "FAN_OUT_EVENTS", 2)
    records = SqlRecordStore(world.database)
    made = [await records.add(DESTINATION, _build_entry, None, NOW) for _ in range(3)]
    batch = [build_event("seen", f"{number}") for number in range(9)]
    node = await world.process(Crash("after stored", turns=slices - 1))
    await node.accept(batch)
    with pytest.raises(Killed):
        await node.work()
    events = await world.number_of(func.count(delivery_events.c.id))
    assert events == 2 * slices
    last = await world.process(Crash(""))
    assert last.progress.waiting == len(batch) - events
    await last.work()
    queue = SqlDeliveryStore(world.database)
    for record in made:
        due = await queue.due(record.id, 100, 0)
        assert [each.event.distinct_id for each in due] == [each["distinct_id"] for each in batch]
    assert await world.number_of(func.count(delivery_events.c.id)) == len(batch)


async def test_events_whose_filters_take_long_are_routed_in_turns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in a turn at worst. A crash leaves the others where they are."""
    monkeypatch.setattr(routing, "MATCH_BUDGET_S", 1e-9)
    record = await SqlRecordStore(world.database).add(DESTINATION, _build_entry, None, NOW)
    batch = [build_event("seen", f"{number}") for number in range(9)]
    node = await world.process(Crash(""))
    await node.accept(batch)
    await node.work()
    queue = SqlDeliveryStore(world.database)
    for routed in range(1, 10):
        due = await queue.due(record.id, 100, 0)
        assert [each.event.distinct_id for each in due] == [f"{n}" for n in range(routed)]
        await (await world.process(Crash(""))).processor.work_off_routing()
    await _assert_once(world, batch)


async def test_crash_after_the_response_loses_nothing(world: World) -> None:
    batch = [build_event("$set", "ann", **{"$set": {"a": 1}}), build_flag_call()]
    await (await world.process(Crash(""))).accept(batch)
    await (await world.process(Crash(""))).work()
    await _assert_once(world, batch)


async def test_crash_within_a_large_batch_loses_nothing(world: World) -> None:
    batch = [build_flag_call(f"person {n % 3}") for n in range(1700)]
    node = await world.process(Crash("after process", turns=2))
    await node.accept(batch)
    with pytest.raises(Killed):
        await node.work()
    node = await world.process(Crash("after append"))
    with pytest.raises(Killed):
        await node.work()
    await (await world.process(Crash(""))).work()
    await _assert_once(world, batch)


async def _assert_once(world: World, sent: Sequence[dict[str, Any]]) -> None:
    stored = await world.stored()
    assert sorted(str(row["uuid"]) for row in stored) == sorted(get_uuids(sent))
    calls = sum(each["event"] == "$feature_flag_called" for each in sent)
    assert await world.number_of(func.sum(flag_calls.c.calls)) == calls
    people = len({each["distinct_id"] for each in sent})
    assert await world.number_of(func.count(persons.c.id)) == people


async def test_clock_going_backwards_keeps_the_order(world: World) -> None:
    """Neither the order of events nor that of person changes; ids stay unique."""
    moments = (NOW - timedelta(hours=n) for n in count())
    node = await world.process(Crash(""), clock=lambda: next(moments))
    for number in range(5):
        plain = {
            name: value for name, value in build_event("$set", "ann").items() if name != "uuid"
        }
        now = NOW - timedelta(days=number)
        await node.accept([{**plain, "$set": {"n": number}}] * 2, now)
        await node.processor.process()
    await node.work()
    stored = await world.stored()
    assert len({row["uuid"] for row in stored}) == 10
    assert (await world.properties())["n"] == 4


async def test_cancelled_process_can_be_resumed(world: World) -> None:
    """As when a server stops under load."""
    batches = [batch for _, batch in zip(range(40), build_batches("ann"), strict=False)]
    node = await world.process(Crash(""))
    for batch in batches:
        await node.accept(batch)
    work = asyncio.create_task(node.work())
    await asyncio.sleep(0.02)
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
    await (await world.process(Crash(""))).work()
    await _assert_once(world, [each for batch in batches for each in batch])


@pytest.mark.parametrize("steps", ["accepted", "processed", "stored"])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
async def test_repeated_event_changes_nothing(world: World, steps: str, is_restarted: bool) -> None:
    """Independent of how far the first event was processed."""
    old = [build_event("$set", "ann", **{"$set": {"plan": "old"}}), build_flag_call()]
    new = [build_event("$set", "ann", **{"$set": {"plan": "new"}})]
    node = await world.process(Crash(""))
    for number, batch in enumerate((old, new)):
        await node.accept(batch, NOW + timedelta(seconds=number))
    if steps != "accepted":
        await node.processor.process()
    if steps == "stored":
        await node.work()
    if is_restarted:
        node = await world.process(Crash(""))
    for number in range(1, 4):
        await node.accept([*old, *old], NOW + timedelta(minutes=number))
    await node.work()
    await _assert_once(world, [*old, *new])
    assert (await world.properties())["plan"] == "new"
    assert node.processor._deduplicator._pending == {}, "finished events are forgotten"


async def test_same_uuid_in_another_project_is_another_event(world: World) -> None:
    batch = [build_event("$set", "ann", **{"$set": {"a": 1}})]
    node = await world.process(Crash(""))
    await node.accept(batch)
    await node.work()
    await world.database.write(
        lambda connection: connection.exec_driver_sql(
            "INSERT INTO projects"
            " (id, uuid, organization_id, name, timezone, created_at, updated_at)"
            " SELECT 2, uuid || '2', organization_id, name, timezone, created_at, updated_at"
            " FROM projects"
        )
    )
    await node.capture.accept(ProjectId(2), _read(batch, NOW + timedelta(hours=1)), NOW)
    await node.work()
    assert await world.number_of(func.count(persons.c.id)) == 2
    assert len(await world.stored()) == 2


async def test_state_older_than_its_events_catches_up(world: World) -> None:
    """As after restoring a backup whose events are newer than its state."""
    batch = [build_event("$set", "ann", **{"$set": {"plan": "pro"}}), build_flag_call()]
    node = await world.process(Crash(""))
    await node.accept(batch)
    before = await world.database.read(_inbox_rows)
    await node.work()
    await world.database.write(lambda connection: _put_back(connection, before))
    await (await world.process(Crash(""))).work()
    await _assert_once(world, batch)
    assert (await world.properties())["plan"] == "pro"


def _inbox_rows(connection: Connection) -> list[Any]:
    return [row._asdict() for row in connection.execute(select(inbox))]


def _put_back(connection: Connection, rows: list[Any]) -> None:
    for table in (flag_calls, person_distinct_ids, persons):
        connection.execute(table.delete())
    connection.execute(inbox.insert(), rows)


async def test_deleted_event_can_be_stored_again(world: World) -> None:
    batch = [build_event("$set", "ann", **{"$set": {"n": 1}})]
    node = await world.process(Crash(""))
    await node.accept(batch)
    await node.work()
    await world.events.delete(PROJECT, uuids=list(get_uuids(batch)))
    batch[0]["properties"]["$set"]["n"] = 2
    await node.accept(batch, NOW + timedelta(minutes=1))
    await node.work()
    await _assert_once(world, batch)
    assert (await world.properties())["n"] == 2


async def test_capture_requests_do_not_fill_the_inbox(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processing pauses for them only while few events wait."""
    monkeypatch.setattr("hedgerow.ingestion.process.PAUSE_FACTOR", 10_000)
    monkeypatch.setattr("hedgerow.ingestion.process.MAX_PAUSE_BACKLOG", 2)
    node = await world.process(Crash(""))
    await node.accept([build_event("first", "ann")])
    original = CrashingInbox.process

    async def process_in_a_rush(*args: Any) -> bool:
        await node.accept([build_event("second", "ann"), build_event("third", "ann")])
        return await original(*args)

    monkeypatch.setattr(CrashingInbox, "process", process_in_a_rush)
    async with asyncio.timeout(60):
        await node.processor.process()
    assert node.progress.waiting == 3


async def test_many_waiting_events_are_processed_in_larger_batches(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hedgerow.ingestion.process.MAX_PAUSE_BACKLOG", 3)
    monkeypatch.setattr("hedgerow.ingestion.process.PROCESS_BATCH_EVENTS", 1)
    node = await world.process(Crash(""))
    for number in range(3):
        await node.accept([build_event(f"event {number}", "ann")])
    await node.processor.process()
    assert node.progress.is_all_processed(PROJECT)
    await node.processor.store()
    for number in range(2):
        await node.accept([build_event(f"later {number}", "ann")])
    await node.processor.process()
    assert not node.progress.is_all_processed(PROJECT)


async def test_capture_requests_take_precedence_over_processing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless a reader waits."""
    for name in ("PAUSE_FACTOR", "MAX_PAUSE_S", "QUIET_S"):
        monkeypatch.setattr(f"hedgerow.ingestion.process.{name}", 10_000)
    node = await world.process(Crash(""))
    await node.accept([build_event("first", "ann")])
    original = CrashingInbox.process

    async def process_in_a_rush(*args: Any) -> bool:
        await node.accept([build_event("second", "ann"), build_event("third", "ann")])
        return await original(*args)

    monkeypatch.setattr(CrashingInbox, "process", process_in_a_rush)
    processing = asyncio.create_task(node.processor.process())
    while not node.progress.processed:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert not processing.done()
    await node.progress.wait_until_processed(PROJECT, ["ann"], until=10**9, timeout_s=0.01)
    async with asyncio.timeout(60):
        await processing
    monkeypatch.setattr(CrashingInbox, "process", original)
    await node.work()
    assert len(await world.stored()) == 3


@pytest.mark.parametrize("is_over", [True, False], ids=["load ends", "load continues"])
async def test_pause_after_overload_is_short(
    world: World, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    monkeypatch.setattr("hedgerow.ingestion.process.PAUSE_FACTOR", 1_000_000)
    monkeypatch.setattr("hedgerow.ingestion.process.MAX_PAUSE_S", 1_000_000 if is_over else 1)
    node = await world.process(Crash(""))
    await node.accept([build_event("first", "ann")])
    original = CrashingInbox.process

    async def process_in_a_rush(*args: Any) -> bool:
        await node.accept([build_event("second", "ann"), build_event("third", "ann")])
        return await original(*args)

    monkeypatch.setattr(CrashingInbox, "process", process_in_a_rush)
    async with asyncio.timeout(60):
        processing = asyncio.create_task(node.processor.process())
        while not is_over and not processing.done():
            await node.accept([build_event("more", "ann")])
            await asyncio.sleep(0.05)
        await processing
    monkeypatch.setattr(CrashingInbox, "process", original)
    await node.work()
    assert len(await world.stored()) >= 3
