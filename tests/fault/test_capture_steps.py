"""A process that dies between two steps of capture: the next one goes on, and nothing shows."""

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

from hedgerow.events.model import Event
from hedgerow.ingestion.accept import Capture
from hedgerow.ingestion.model import Accepted, Batch
from hedgerow.ingestion.process import Processor
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.reading import read_batch
from hedgerow.ingestion.room import Room
from hedgerow.ingestion.store import Ready
from hedgerow.ingestion.transform import Transforming
from hedgerow.lib import jsonio
from hedgerow.lib.ids import UUID7_RANDOM_BYTES
from hedgerow.lib.sealing import SealingKeys, new_sealing_key
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.deliveries import NewDeliveries
from hedgerow.pipelines.destinations import Destinations
from hedgerow.pipelines.model import ComponentId, Family, Record, RecordDraft
from hedgerow.pipelines.routing import Routing
from hedgerow.pipelines.store import Edited
from hedgerow.pipelines.store import Place as RecordPlace
from hedgerow.pipelines.transformations import Transformations
from hedgerow.projects.activity import SYSTEM, Entry
from hedgerow.projects.bootstrap import FirstKeys
from hedgerow.projects.model import ProjectId
from hedgerow.storage.blame import is_about_values
from hedgerow.storage.connect import EventPlace, Place, open_database, open_events
from hedgerow.storage.database import Database
from hedgerow.storage.delivery_groups import DeliveredGroups
from hedgerow.storage.inbox import InboxRecords
from hedgerow.storage.migrate import prepare
from hedgerow.storage.pipelines import PipelineRecords
from hedgerow.storage.tables import (
    flag_calls,
    flags,
    inbox,
    person_distinct_ids,
    persons,
    transformation_counts,
)
from tests.clickhouse_http import OwnClickHouse
from tests.fault.capturing import COUNTED, call, event, story, uuids
from tests.fault.deciding import one, write
from tests.live import PERSONAL_KEY, PROJECT_KEY

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
PROJECT = ProjectId(1)
SEALER = SealingKeys([new_sealing_key()])
STEPS = ("before settle", "after settle", "before append", "after append", "after stored")


class Killed(BaseException):
    """Nobody catches it, as nobody catches kill -9."""


@dataclass(slots=True)
class Death:
    """Comes once, at a step, after so many have passed it."""

    step: str
    turns: int = 0

    def pass_by(self, step: str) -> None:
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
# printf a | openssl dgst -sha256 -hmac pepper
HASH_OF_A = "69dfcf5937d48bf9fc1d6ec1c7f067449e2466f352259e7b573d5c9fa9daec72"


def _say(_: Record | None, after: Record) -> Entry:
    return Entry(
        scope="PluginConfig",
        item_id=str(after.id),
        item_name="",
        activity="told",
        actor=SYSTEM,
        project_id=PROJECT,
    )


class MortalInbox(InboxRecords):
    def __init__(self, database: Database, death: Death) -> None:
        super().__init__(database, 1)
        self._death = death

    async def settle(
        self, bucket: int, rows: Sequence[Accepted], decide: Any, now: datetime
    ) -> bool:
        self._death.pass_by("before settle")
        settled = await super().settle(bucket, rows, decide, now)
        self._death.pass_by("after settle")
        return settled

    async def stored(self, rows: Sequence[Ready], new: NewDeliveries, now: datetime) -> None:
        await super().stored(rows, new, now)
        self._death.pass_by("after stored")


class MortalEvents:
    def __init__(self, events: Any, death: Death) -> None:
        self._events = events
        self._death = death
        self.delete = events.delete
        self.acceptances = events.acceptances

    async def append(self, events: Sequence[Event]) -> int:
        self._death.pass_by("before append")
        number: int = await self._events.append(events)
        self._death.pass_by("after append")
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What outlives a process."""

    database: Database
    events: Any

    async def process(self, death: Death, clock: Callable[[], datetime] = lambda: NOW) -> "Life":
        """That has just begun."""
        inbox, progress = MortalInbox(self.database, death), Progress()
        room = Room(progress, lambda: 1, max_waiting=10**6, min_free_bytes=0)
        life = Life(
            capture=Capture(inbox, progress, room),
            processor=Processor(
                inbox=inbox,
                events=MortalEvents(self.events, death),
                progress=progress,
                is_alone=True,
                idle_s=0.01,
                place=_nowhere,
                transforming=Transforming(self.transformations()),
                routing=self.routing(),
                blames=is_about_values,
                note=print,
                clock=clock,
            ),
            progress=progress,
        )
        await life.processor.begin()
        return life

    def routing(self) -> Routing:
        records = PipelineRecords(self.database)
        destinations = Destinations(records, Catalogue(), SEALER)
        groups = DeliveredGroups(self.database)
        return Routing(destinations, groups, lambda _: None, lambda: NOW)

    def transformations(self) -> Transformations:
        return Transformations(PipelineRecords(self.database), Catalogue(), SEALER)

    async def stored(self) -> list[dict[str, Any]]:
        sql = "SELECT * FROM events ORDER BY created_at, timestamp, uuid"
        found: list[dict[str, Any]] = await self.events.query(
            sql, {}, max_rows=100_000, timeout_s=20
        )
        return found

    async def properties(self) -> dict[str, Any]:
        """Of the only person."""
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
class Life:
    """Of one process."""

    capture: Capture
    processor: Processor
    progress: Progress

    async def accept(self, batch: Sequence[dict[str, Any]], now: datetime = NOW) -> None:
        await self.capture.accept(PROJECT, _read(batch, now), now)

    async def work(self) -> None:
        """Until nothing waits."""
        while self.progress.waiting:
            await self.processor.settle()
            await self.processor.store()


def _nowhere(_: str) -> Mapping[str, Any]:
    return {}


def _read(batch: Sequence[dict[str, Any]], now: datetime) -> Batch:
    return read_batch(
        {"api_key": PROJECT_KEY, "batch": batch},
        now=now,
        query_sent_at_ms=None,
        is_engage=False,
        ip="",
        randomness=bytes(UUID7_RANDOM_BYTES),
    )


@pytest.fixture
async def world(tmp_path: Path, clickhouse: OwnClickHouse) -> AsyncIterator[World]:
    place = Place(url="", path=tmp_path / "hedgerow.db", timeout_s=5)
    prepare(place, FirstKeys(project_key=PROJECT_KEY, personal_key=PERSONAL_KEY), NOW)
    write(tmp_path, flags, [{"key": COUNTED, "filters": one()}])
    opened = World(
        database=open_database(place),
        events=open_events(EventPlace(url=clickhouse.new_database(), folder=tmp_path, timeout_s=5)),
    )
    yield opened
    await opened.events.close()
    await opened.database.close()


@pytest.mark.parametrize("step", STEPS)
async def test_a_death_between_two_steps_shows_nowhere(world: World, step: str) -> None:
    batches = [batch for _, batch in zip(range(12), story("ann"), strict=False)]
    first = await world.process(Death(step, turns=0))
    for batch in batches[:6]:
        await first.accept(batch)
    with pytest.raises(Killed, match=step):
        await first.work()
    second = await world.process(Death(step, turns=1))
    for batch in batches[6:]:
        await second.accept(batch)
    with suppress(Killed):  # a second time, over what was left and what came
        await second.work()
    await (await world.process(Death(""))).work()
    await _assert_once(world, [each for batch in batches for each in batch])


@pytest.mark.parametrize("step", ["before settle", "after settle"])
async def test_a_death_transforms_nothing_twice(world: World, step: str) -> None:
    """Not even the counts tell of it."""
    records = PipelineRecords(world.database)
    config = {"names": ["email", "$set.email"], "salt": {"$sealed": SEALER.seal("pepper")}}
    made = await records.add(TRANSFORMATION, _say, None, NOW)
    place = RecordPlace(project_id=PROJECT, family=made.family, id=made.id)
    edited = Edited(record=replace(made, config=config), entry=None)
    await records.edit(place, lambda _: edited, _say, NOW)
    batch = [event("$set", "ann", email="a", **{"$set": {"email": "a"}}) for _ in range(9)]
    life = await world.process(Death(step))
    await life.accept(batch)
    with pytest.raises(Killed, match=step):
        await life.work()
    await (await world.process(Death(""))).work()
    emails = {jsonio.decode(row["properties"])["email"] for row in await world.stored()}
    assert emails == {HASH_OF_A}
    assert (await world.properties())["email"] == HASH_OF_A
    assert await world.number_of(func.sum(transformation_counts.c.changed)) == len(batch)


async def test_a_death_after_the_answer_and_before_anything_else(world: World) -> None:
    batch = [event("$set", "ann", **{"$set": {"a": 1}}), call()]
    await (await world.process(Death(""))).accept(batch)
    await (await world.process(Death(""))).work()
    await _assert_once(world, batch)


async def test_a_death_after_some_of_a_large_batch(world: World) -> None:
    batch = [call(f"person {n % 3}") for n in range(1700)]
    life = await world.process(Death("after settle", turns=2))
    await life.accept(batch)
    with pytest.raises(Killed):
        await life.work()
    life = await world.process(Death("after append"))
    with pytest.raises(Killed):
        await life.work()
    await (await world.process(Death(""))).work()
    await _assert_once(world, batch)


async def _assert_once(world: World, sent: Sequence[dict[str, Any]]) -> None:
    stored = await world.stored()
    assert sorted(str(row["uuid"]) for row in stored) == sorted(uuids(sent))
    calls = sum(each["event"] == "$feature_flag_called" for each in sent)
    assert await world.number_of(func.sum(flag_calls.c.calls)) == calls
    people = len({each["distinct_id"] for each in sent})
    assert await world.number_of(func.count(persons.c.id)) == people


async def test_a_clock_that_goes_backwards_changes_no_order(world: World) -> None:
    """Neither of the events, nor of what they do to persons; and ids stay apart."""
    moments = (NOW - timedelta(hours=n) for n in count())
    life = await world.process(Death(""), clock=lambda: next(moments))
    for number in range(5):
        plain = {name: value for name, value in event("$set", "ann").items() if name != "uuid"}
        now = NOW - timedelta(days=number)
        await life.accept([{**plain, "$set": {"n": number}}] * 2, now)
        await life.processor.settle()
    await life.work()
    stored = await world.stored()
    assert len({row["uuid"] for row in stored}) == 10
    assert (await world.properties())["n"] == 4


async def test_a_busy_process_that_is_cancelled_can_be_followed(world: World) -> None:
    """As when a server stops in the middle of everything."""
    batches = [batch for _, batch in zip(range(40), story("ann"), strict=False)]
    life = await world.process(Death(""))
    for batch in batches:
        await life.accept(batch)
    work = asyncio.create_task(life.work())
    await asyncio.sleep(0.02)
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
    await (await world.process(Death(""))).work()
    await _assert_once(world, [each for batch in batches for each in batch])


@pytest.mark.parametrize("steps", ["accepted", "settled", "stored"])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
async def test_what_comes_again_changes_nothing(
    world: World, steps: str, is_restarted: bool
) -> None:
    """However far the first delivery has come: the person is as the later event left them."""
    old = [event("$set", "ann", **{"$set": {"plan": "old"}}), call()]
    new = [event("$set", "ann", **{"$set": {"plan": "new"}})]
    life = await world.process(Death(""))
    for number, batch in enumerate((old, new)):
        await life.accept(batch, NOW + timedelta(seconds=number))
    if steps != "accepted":
        await life.processor.settle()
    if steps == "stored":
        await life.work()
    if is_restarted:
        life = await world.process(Death(""))
    for number in range(1, 4):
        await life.accept([*old, *old], NOW + timedelta(minutes=number))
    await life.work()
    await _assert_once(world, [*old, *new])
    assert (await world.properties())["plan"] == "new"
    assert life.processor._repeats._on_the_way == {}, "what is over is forgotten"


async def test_the_same_uuid_is_another_event_in_another_project(world: World) -> None:
    batch = [event("$set", "ann", **{"$set": {"a": 1}})]
    life = await world.process(Death(""))
    await life.accept(batch)
    await life.work()
    await world.database.write(
        lambda connection: connection.exec_driver_sql(
            "INSERT INTO projects SELECT 2, uuid || '2', organization_id, name, timezone,"
            " created_at, updated_at, retention_days FROM projects"
        )
    )
    await life.capture.accept(ProjectId(2), _read(batch, NOW + timedelta(hours=1)), NOW)
    await life.work()
    assert await world.number_of(func.count(persons.c.id)) == 2
    assert len(await world.stored()) == 2


async def test_a_state_that_is_older_than_its_events_catches_up(world: World) -> None:
    """As after restoring a backup: the events were copied after the state."""
    batch = [event("$set", "ann", **{"$set": {"plan": "pro"}}), call()]
    life = await world.process(Death(""))
    await life.accept(batch)
    before = await world.database.read(_inbox_rows)
    await life.work()
    await world.database.write(lambda connection: _put_back(connection, before))
    await (await world.process(Death(""))).work()
    await _assert_once(world, batch)
    assert (await world.properties())["plan"] == "pro"


def _inbox_rows(connection: Connection) -> list[Any]:
    return [row._asdict() for row in connection.execute(select(inbox))]


def _put_back(connection: Connection, rows: list[Any]) -> None:
    for table in (flag_calls, person_distinct_ids, persons):
        connection.execute(table.delete())
    connection.execute(inbox.insert(), rows)


async def test_what_was_deleted_may_come_again(world: World) -> None:
    batch = [event("$set", "ann", **{"$set": {"n": 1}})]
    life = await world.process(Death(""))
    await life.accept(batch)
    await life.work()
    await world.events.delete(PROJECT, uuids=list(uuids(batch)))
    batch[0]["properties"]["$set"]["n"] = 2
    await life.accept(batch, NOW + timedelta(minutes=1))
    await life.work()
    await _assert_once(world, batch)
    assert (await world.properties())["n"] == 2


async def test_a_rush_of_senders_goes_before_the_work(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless somebody waits to read."""
    monkeypatch.setattr("hedgerow.ingestion.process.GIVE_WAY", 10_000)
    life = await world.process(Death(""))
    await life.accept([event("first", "ann")])
    settle = MortalInbox.settle

    async def settle_in_a_rush(*args: Any) -> bool:
        await life.accept([event("second", "ann"), event("third", "ann")])
        return await settle(*args)

    monkeypatch.setattr(MortalInbox, "settle", settle_in_a_rush)
    settling = asyncio.create_task(life.processor.settle())
    while not life.progress.settled:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert not settling.done()
    await life.progress.wait_until_settled((PROJECT, "ann"), at_most_s=0.01)
    async with asyncio.timeout(60):
        await settling
    monkeypatch.setattr(MortalInbox, "settle", settle)
    await life.work()
    assert len(await world.stored()) == 3
