"""The copies beside the events are like what they are copies of, whatever happened to it: on SQLite
with chDB, and on PostgreSQL with a ClickHouse server.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from hedgerow.errors import Unavailable
from hedgerow.lib import jsonio
from hedgerow.persons.curate import split
from hedgerow.persons.known import person_uuid
from hedgerow.persons.mirror import Mirror
from hedgerow.persons.mirrored import Copy
from hedgerow.persons.model import CohortId
from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import EventPlace, open_events, plain_engine
from hedgerow.storage.events import EventRecords
from hedgerow.storage.mirror_queue import MirrorQueueRecords
from hedgerow.storage.mirror_schema import TABLES
from hedgerow.storage.person_mirror import PersonTables
from tests.contract.stores.conftest import (
    DEFAULT_PROJECT,
    LATER,
    NOW,
    SOMEBODY,
    Stores,
    run_sql,
)
from tests.contract.stores.test_cohorts import a_cohort, put_cohort
from tests.contract.stores.test_person_changes import ODD, applied, everybody, person
from tests.happenings import alias, group_identify, identify, setting

PATIENCE_S = 60.0
IDS = ["ann", "bob", "anon 🌿", "x'y\\", "zoë"]


@pytest.fixture
async def events(
    stores: Stores, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[EventRecords]:
    url = ""
    if stores.place.url:
        url = request.getfixturevalue("clickhouse").new_database()
    opened = open_events(EventPlace(url=url, folder=tmp_path / "events", timeout_s=20))
    yield opened
    await opened.close()


def tables_of(events: EventRecords) -> PersonTables:
    async def opened() -> EventRecords:
        return events

    return PersonTables(opened, lambda: True)


def mirror_of(stores: Stores, events: EventRecords) -> Mirror:
    """As a process that has just started."""
    return Mirror(MirrorQueueRecords(stores.database), tables_of(events))


async def copied(stores: Stores, events: EventRecords) -> dict[str, list[dict[str, Any]]]:
    """What the copies say once they have arrived."""
    await mirror_of(stores, events).arrived(at_most_s=PATIENCE_S)
    return await copies(events)


async def copies(events: EventRecords) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for table in TABLES:
        sql = f"SELECT * EXCEPT (version, is_deleted) FROM {table} FINAL"
        rows = await events.query(sql, {}, max_rows=100_000, timeout_s=30)
        found[table] = in_order(rows)
    return found


async def originals(stores: Stores) -> dict[str, list[dict[str, Any]]]:
    """What the copies should say."""

    def rows(sql: str) -> list[dict[str, Any]]:
        return [dict(row._mapping) for row in run_sql(stores.place, sql)]

    distinct_ids = rows(
        "SELECT d.project_id, d.distinct_id, p.uuid AS person_id"
        " FROM person_distinct_ids AS d JOIN persons AS p ON p.id = d.person_id"
    )
    for row in distinct_ids:
        own = person_uuid(ProjectId(row["project_id"]), row["distinct_id"])
        row["is_moved"] = row["person_id"] != own
    wanted = {
        "persons": rows(
            "SELECT project_id, uuid AS id, created_at, CAST(properties AS text) AS properties,"
            " is_identified FROM persons"
        ),
        "person_distinct_ids": distinct_ids,
        "groups": rows(
            "SELECT project_id, type_index AS group_type_index, key AS group_key, created_at,"
            " CAST(properties AS text) AS properties FROM groups"
        ),
        "cohort_people": rows(
            "SELECT p.project_id, m.cohort_id, p.uuid AS person_id"
            " FROM cohort_people AS m JOIN persons AS p ON p.id = m.person_id"
        ),
    }
    return {table: in_order(found) for table, found in wanted.items()}


def in_order(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same however an engine writes times, ids and JSON."""
    plain = []
    for row in rows:
        one = {name: str(value) for name, value in row.items()}
        if "properties" in row:
            one["properties"] = repr(jsonio.decode(row["properties"]))
        for name in ("is_moved", "is_identified"):
            if name in row:
                one[name] = str(bool(row[name]))
        if "created_at" in row:
            one["created_at"] = one["created_at"].removesuffix("+00:00").ljust(26, "0")
        plain.append(one)
    return sorted(plain, key=lambda one: sorted(one.items()))


def forget_changes(stores: Stores) -> None:
    """As if all of them had been copied, to somewhere else."""
    run_sql(stores.place, "DELETE FROM mirror_queue")
    run_sql(
        stores.place,
        "INSERT INTO mirror_queue (id, kind, project_id, number, name)"
        " VALUES (1000, 'mark', 1, 0, '')",
    )


async def waiting(stores: Stores) -> int:
    [(count,)] = run_sql(stores.place, "SELECT count(*) FROM mirror_queue WHERE kind <> 'mark'")
    return int(count)


async def a_static_cohort(stores: Stores, *distinct_ids: str) -> CohortId:
    cohort = await put_cohort(stores, a_cohort(is_static=True))
    await stores.cohorts.add_members(DEFAULT_PROJECT, cohort.id, distinct_ids)
    return cohort.id


async def happen(stores: Stores, random: Random) -> None:
    """One of the things that can happen to persons, groups and cohorts."""
    one, other = random.choice(IDS), random.choice(IDS)
    match random.randrange(8):
        case 0:
            await applied(stores, setting(one, n=random.random(), **{"ü": ODD}))
        case 1:
            await applied(stores, identify(one, other, plan=random.choice("abc")))
        case 2:
            await applied(stores, alias(one, other, "$merge_dangerously"))
        case 3:
            await applied(stores, group_identify("company", one, size=random.random()))
        case 4:
            kind = random.choice(("company", "team", "club"))
            index = await stores.persons.put_group_type(DEFAULT_PROJECT, kind, 5)
            assert index is not None
            await stores.persons.put_group(DEFAULT_PROJECT, index, one, {"a": other}, LATER)
        case 5:
            await a_static_cohort(stores, one, other)
        case 6:
            for found in (await everybody(stores))[:1]:
                await stores.persons.split_person(
                    DEFAULT_PROJECT, found.uuid, lambda person: split(person, None, SOMEBODY), LATER
                )
        case _:
            for found in (await everybody(stores))[-1:]:
                await stores.forget(found.uuid)


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32), steps=st.lists(st.integers(1, 6), max_size=5))
async def test_after_anything_the_copies_are_like_the_originals(
    stores: Stores, events: EventRecords, seed: int, steps: list[int]
) -> None:
    random = Random(seed)
    mirror = mirror_of(stores, events)
    for number in steps:
        for _ in range(number):
            await happen(stores, random)
        await mirror.arrived(at_most_s=PATIENCE_S)
        assert await copies(events) == await originals(stores)
    assert await waiting(stores) == 0


async def test_each_kind_is_copied_as_it_is(stores: Stores, events: EventRecords) -> None:
    await applied(stores, identify("ann", "anon", **ODD), group_identify("company", "acme", **ODD))
    cohort = await a_static_cohort(stores, "ann")
    found = await copied(stores, events)
    ann = await person(stores, "ann")
    assert [row["id"] for row in found["persons"]] == [ann.uuid]
    assert {row["distinct_id"]: row["is_moved"] for row in found["person_distinct_ids"]} == {
        "ann": "False",
        "anon": "True",
    }
    assert [row["group_key"] for row in found["groups"]] == ["acme"]
    assert [(row["cohort_id"], row["person_id"]) for row in found["cohort_people"]] == [
        (str(cohort), ann.uuid)
    ]
    assert found == await originals(stores)


async def test_who_was_there_before_the_copies_is_copied_too(
    stores: Stores, events: EventRecords
) -> None:
    for number in range(7):
        await applied(stores, setting(f"id-{number}", n=number))
    await applied(stores, group_identify("company", "acme"))
    await a_static_cohort(stores, "id-1", "id-2")
    forget_changes(stores)
    queue = MirrorQueueRecords(stores.database)
    await queue.begin_again(0)
    tables = tables_of(events)
    while await queue.oldest() is not None:  # in steps that are smaller than the tables
        taken = await queue.take(after=0, limit=3, max_size=1)
        await tables.append(taken.copies)
        await queue.done(taken.ids)
        if finished := await queue.walk_on(2):
            await tables.forget_older(finished.kind, finished.id)
            await queue.done([finished.id])
    assert await copies(events) == await originals(stores)


async def test_nothing_is_gone_through_when_everything_is_queued(stores: Stores) -> None:
    queue = MirrorQueueRecords(stores.database)
    await queue.begin_again(0)
    assert await queue.oldest() is None
    await applied(stores, setting("ann"))
    await queue.begin_again(0)
    assert await waiting(stores) == 2
    forget_changes(stores)
    await queue.begin_again(0)
    assert await waiting(stores) == 4
    await queue.begin_again(0)
    assert await waiting(stores) == 4


async def test_copies_of_a_state_that_was_set_back_are_set_back_too(
    stores: Stores, events: EventRecords
) -> None:
    """As after restoring the state alone: the copies are newer than all of its changes."""
    await applied(stores, setting("ann", plan="old"), setting("bob"))
    await copied(stores, events)
    table = "persons (project_id, id, properties, version, is_deleted)"
    ann = person_uuid(DEFAULT_PROJECT, "ann")
    for uuid in (ann, person_uuid(DEFAULT_PROJECT, "of another time")):
        values = f"(1, '{uuid}', '{{\"plan\": \"later\"}}', 1000000, 0)"
        await events.run(
            lambda client, values=values: client.command(f"INSERT INTO {table} VALUES {values}")  # type: ignore[misc]
        )
    found = await copied(stores, events)
    assert found == await originals(stores)
    await applied(stores, setting("ann", plan="newest"))
    assert await copied(stores, events) == await originals(stores)


async def test_copies_that_are_gone_are_made_again(stores: Stores, events: EventRecords) -> None:
    await applied(stores, identify("ann", "anon"), group_identify("company", "acme"))
    await copied(stores, events)
    for table in TABLES:
        await events.run(lambda client, table=table: client.command(f"TRUNCATE TABLE {table}"))  # type: ignore[misc]
    assert await copied(stores, events) == await originals(stores)


class Stopping(PersonTables):
    """Ends where a kill could: before copies are stored, or after it."""

    def __init__(self, tables: PersonTables, *, stores_first: bool) -> None:
        self._tables = tables
        self._stores_first = stores_first

    @property
    def is_open(self) -> bool:
        return True

    async def newest_version(self) -> int:
        return await self._tables.newest_version()

    async def append(self, copies: Sequence[Copy]) -> None:
        if self._stores_first:
            await self._tables.append(copies)
        raise Unavailable("The power is gone.")


@pytest.mark.parametrize("stores_first", [True, False])
async def test_who_is_stopped_in_between_is_followed_by_somebody_who_does_it_again(
    stores: Stores, events: EventRecords, stores_first: bool
) -> None:
    await applied(stores, identify("ann", "anon", plan="free"))
    tables = Stopping(tables_of(events), stores_first=stores_first)
    stopped = Mirror(MirrorQueueRecords(stores.database), tables)
    with pytest.raises(Unavailable):
        await stopped.arrived(at_most_s=PATIENCE_S)
    await applied(stores, setting("ann", plan="paid"))
    assert await copied(stores, events) == await originals(stores)


async def test_copies_that_come_late_do_not_hide_newer_ones(
    stores: Stores, events: EventRecords
) -> None:
    await applied(stores, setting("ann", plan="free"), setting("bob"))
    queue, tables = MirrorQueueRecords(stores.database), tables_of(events)
    late = await queue.take(after=0, limit=100, max_size=1 << 20)
    await applied(stores, setting("ann", plan="paid"))
    await stores.forget(person_uuid(DEFAULT_PROJECT, "bob"))
    await copied(stores, events)
    await tables.append(late.copies)
    await queue.done(late.ids)
    assert await copies(events) == await originals(stores)


async def test_changes_and_several_who_copy_beside_each_other(
    stores: Stores, other_stores: Stores, events: EventRecords
) -> None:
    random = Random(7)

    async def change() -> None:
        for _ in range(25):
            await happen(stores, random)
            await asyncio.sleep(0)

    async def copy(of: Stores) -> None:
        mirror = mirror_of(of, events)
        for _ in range(10):
            await mirror.keep_up()

    await asyncio.gather(change(), copy(stores), copy(other_stores))
    assert await copied(stores, events) == await originals(stores)


async def test_a_change_that_is_committed_late_is_copied_too(
    stores: Stores, events: EventRecords
) -> None:
    """Its number is smaller than that of another which was copied before."""
    if not stores.place.url:
        pytest.skip("one writer at a time")
    await applied(stores, setting("ann", n=1), setting("bob", n=1))
    mirror = mirror_of(stores, events)
    late = "UPDATE persons SET properties = '{\"n\": 2}' WHERE uuid = :uuid"
    ann, bob = (person_uuid(DEFAULT_PROJECT, name) for name in ("ann", "bob"))
    with plain_engine(stores.place).begin() as connection:
        connection.execute(text(late), {"uuid": ann})
        run_sql(stores.place, late, uuid=bob)
        await mirror.arrived(at_most_s=PATIENCE_S)
        before = {row["id"]: row["properties"] for row in (await copies(events))["persons"]}
        assert before[bob] == "{'n': 2}"
        assert before[ann] != "{'n': 2}"
    await mirror.arrived(at_most_s=PATIENCE_S)
    assert await copies(events) == await originals(stores)
    assert await waiting(stores) == 0


async def test_many_events_of_somebody_are_one_change(stores: Stores) -> None:
    await applied(stores, *(setting("ann", n=number) for number in range(500)))
    assert await waiting(stores) == 2  # the person and their distinct id


async def test_large_persons_are_taken_a_few_at_a_time(stores: Stores) -> None:
    for name in ("ann", "bob", "cyd"):
        await applied(stores, setting(name, text="x" * 10_000))
    queue = MirrorQueueRecords(stores.database)
    taken = await queue.take(after=0, limit=100, max_size=25_000)
    assert len(taken.ids) == 4  # two persons with their distinct ids
    assert 20_000 < taken.size <= 25_000
    taken = await queue.take(after=0, limit=100, max_size=1)
    assert len(taken.ids) == 1, "what is too large for any portion is one"


async def test_numbers_go_on_after_the_queue_was_empty(stores: Stores) -> None:
    queue = MirrorQueueRecords(stores.database)
    last = 0
    for number in range(3):
        await applied(stores, setting("ann", n=number))
        taken = await queue.take(after=0, limit=100, max_size=1 << 20)
        assert min(taken.ids) >= last
        assert await queue.newest() == max(taken.ids) > last
        last = max(taken.ids)
        await queue.done(taken.ids)
        assert await queue.newest() is None
        assert await queue.oldest() is None
        assert (await queue.take(after=0, limit=100, max_size=1 << 20)).ids == ()


class Closed(Stopping):
    @property
    def is_open(self) -> bool:
        return False


async def test_the_event_store_is_not_opened_for_a_few_changes(
    stores: Stores, events: EventRecords
) -> None:
    await applied(stores, setting("ann"))
    closed = Closed(tables_of(events), stores_first=False)
    await Mirror(MirrorQueueRecords(stores.database), closed).keep_up()
    assert await waiting(stores) == 2


async def test_a_change_that_is_not_committed_leaves_nothing_behind(stores: Stores) -> None:
    def fail(connection: Any) -> None:
        connection.exec_driver_sql(
            "INSERT INTO groups (project_id, type_index, key, properties, created_at, updated_at)"
            f" VALUES (1, 0, 'acme', '{{}}', '{NOW.isoformat()}', '{NOW.isoformat()}')"
        )
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await stores.database.write(fail)
    assert await waiting(stores) == 0
