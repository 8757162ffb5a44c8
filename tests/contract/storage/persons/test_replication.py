"""Replicas match the state database after any change, on SQLite with chDB and on PostgreSQL with
ClickHouse.
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
from hedgerow.ingestion.persons.loaded_state import person_uuid
from hedgerow.lib import jsonio
from hedgerow.persons.admin_actions import plan_split
from hedgerow.persons.model import CohortId
from hedgerow.persons.replicas import Replica
from hedgerow.persons.replication import Replicator
from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import EventStoreLocation, create_sync_engine, open_event_store
from hedgerow.storage.events.events import ClickHouseEventStore
from hedgerow.storage.events.person_replicas import ClickHousePersonReplicas
from hedgerow.storage.events.replica_schema import TABLES
from hedgerow.storage.persons.replication_queue import SqlReplicationQueue
from tests.contract.storage.conftest import (
    ACTOR,
    DEFAULT_PROJECT,
    LATER,
    NOW,
    Stores,
    run_sql,
)
from tests.contract.storage.persons.test_changes import ODD, apply_events, list_persons, person
from tests.contract.storage.persons.test_cohorts import make_cohort, put_cohort
from tests.support.factories import alias, group_identify, identify, setting

TIMEOUT_S = 60.0
IDS = ["ann", "bob", "anon 🌿", "x'y\\", "zoë"]


@pytest.fixture
async def events(
    stores: Stores, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[ClickHouseEventStore]:
    url = ""
    if stores.location.url:
        url = request.getfixturevalue("clickhouse").create_database()
    opened = open_event_store(EventStoreLocation(url=url, folder=tmp_path / "events", timeout_s=20))
    yield opened
    await opened.close()


def build_replicas(events: ClickHouseEventStore) -> ClickHousePersonReplicas:
    async def opened() -> ClickHouseEventStore:
        return events

    return ClickHousePersonReplicas(opened, lambda: True)


def build_replicator(stores: Stores, events: ClickHouseEventStore) -> Replicator:
    """Build the replicator of a process that has just started."""
    return Replicator(SqlReplicationQueue(stores.database), build_replicas(events))


async def replicate(
    stores: Stores, events: ClickHouseEventStore
) -> dict[str, list[dict[str, Any]]]:
    """Replicate all changes and return the replicas."""
    await build_replicator(stores, events).wait_until_replicated(timeout_s=TIMEOUT_S)
    return await read_replicas(events)


async def read_replicas(events: ClickHouseEventStore) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for table in TABLES:
        sql = f"SELECT * EXCEPT (version, is_deleted) FROM {table} FINAL"
        rows = await events.query(sql, {}, max_rows=100_000, timeout_s=30)
        found[table] = normalize(rows)
    return found


async def read_originals(stores: Stores) -> dict[str, list[dict[str, Any]]]:
    """Return the expected content of the replicas."""

    def rows(sql: str) -> list[dict[str, Any]]:
        return [dict(row._mapping) for row in run_sql(stores.location, sql)]

    distinct_ids = rows(
        "SELECT d.project_id, d.distinct_id, p.uuid AS person_id"
        " FROM person_distinct_ids AS d JOIN persons AS p ON p.id = d.person_id"
    )
    for row in distinct_ids:
        own = person_uuid(ProjectId(row["project_id"]), row["distinct_id"])
        row["is_moved"] = row["person_id"] != own
    expected = {
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
    return {table: normalize(found) for table, found in expected.items()}


def normalize(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Normalize the formats of times, ids and JSON of both engines."""
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


def discard_changes(stores: Stores) -> None:
    """Empty the queue, as if all changes were replicated to another store."""
    run_sql(stores.location, "DELETE FROM mirror_queue")
    run_sql(
        stores.location,
        "INSERT INTO mirror_queue (id, kind, project_id, number, name)"
        " VALUES (1000, 'mark', 1, 0, '')",
    )


async def count_queued(stores: Stores) -> int:
    [(count,)] = run_sql(stores.location, "SELECT count(*) FROM mirror_queue WHERE kind <> 'mark'")
    return int(count)


async def add_static_cohort(stores: Stores, *distinct_ids: str) -> CohortId:
    cohort = await put_cohort(stores, make_cohort(is_static=True))
    await stores.cohorts.add_members(DEFAULT_PROJECT, cohort.id, distinct_ids)
    return cohort.id


async def apply_random_change(stores: Stores, random: Random) -> None:
    """Apply one random change to persons, groups or cohorts."""
    one, other = random.choice(IDS), random.choice(IDS)
    match random.randrange(8):
        case 0:
            await apply_events(stores, setting(one, n=random.random(), **{"ü": ODD}))
        case 1:
            await apply_events(stores, identify(one, other, plan=random.choice("abc")))
        case 2:
            await apply_events(stores, alias(one, other, "$merge_dangerously"))
        case 3:
            await apply_events(stores, group_identify("company", one, size=random.random()))
        case 4:
            kind = random.choice(("company", "team", "club"))
            index = await stores.persons.upsert_group_type(DEFAULT_PROJECT, kind, 5)
            assert index is not None
            await stores.persons.upsert_group(DEFAULT_PROJECT, index, one, {"a": other}, LATER)
        case 5:
            await add_static_cohort(stores, one, other)
        case 6:
            for found in (await list_persons(stores))[:1]:
                await stores.persons.split_person(
                    DEFAULT_PROJECT,
                    found.uuid,
                    lambda person: plan_split(person, None, ACTOR),
                    LATER,
                )
        case _:
            for found in (await list_persons(stores))[-1:]:
                await stores.delete_person(found.uuid)


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32), steps=st.lists(st.integers(1, 6), max_size=5))
async def test_replicas_match_after_random_changes(
    stores: Stores, events: ClickHouseEventStore, seed: int, steps: list[int]
) -> None:
    random = Random(seed)
    replicator = build_replicator(stores, events)
    for number in steps:
        for _ in range(number):
            await apply_random_change(stores, random)
        await replicator.wait_until_replicated(timeout_s=TIMEOUT_S)
        assert await read_replicas(events) == await read_originals(stores)
    assert await count_queued(stores) == 0


async def test_each_kind_is_replicated(stores: Stores, events: ClickHouseEventStore) -> None:
    await apply_events(
        stores, identify("ann", "anon", **ODD), group_identify("company", "acme", **ODD)
    )
    cohort = await add_static_cohort(stores, "ann")
    found = await replicate(stores, events)
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
    assert found == await read_originals(stores)


async def test_rows_older_than_the_replicas_are_backfilled(
    stores: Stores, events: ClickHouseEventStore
) -> None:
    for number in range(7):
        await apply_events(stores, setting(f"id-{number}", n=number))
    await apply_events(stores, group_identify("company", "acme"))
    await add_static_cohort(stores, "id-1", "id-2")
    discard_changes(stores)
    queue = SqlReplicationQueue(stores.database)
    await queue.restart_backfill(0)
    tables = build_replicas(events)
    while await queue.oldest() is not None:  # in steps that are smaller than the tables
        taken = await queue.read_changes(after=0, limit=3, max_size=1)
        await tables.append(taken.replicas)
        await queue.remove(taken.ids)
        if finished := await queue.backfill_step(2):
            await tables.delete_older(finished.kind, finished.id)
            await queue.remove([finished.id])
    assert await read_replicas(events) == await read_originals(stores)


async def test_no_backfill_when_everything_is_queued(stores: Stores) -> None:
    queue = SqlReplicationQueue(stores.database)
    await queue.restart_backfill(0)
    assert await queue.oldest() is None
    await apply_events(stores, setting("ann"))
    await queue.restart_backfill(0)
    assert await count_queued(stores) == 2
    discard_changes(stores)
    await queue.restart_backfill(0)
    assert await count_queued(stores) == 4
    await queue.restart_backfill(0)
    assert await count_queued(stores) == 4


async def test_replicas_follow_a_restored_state(
    stores: Stores, events: ClickHouseEventStore
) -> None:
    """As after restoring only the state: the replicas are newer than all changes."""
    await apply_events(stores, setting("ann", plan="old"), setting("bob"))
    await replicate(stores, events)
    table = "persons (project_id, id, properties, version, is_deleted)"
    ann = person_uuid(DEFAULT_PROJECT, "ann")
    for uuid in (ann, person_uuid(DEFAULT_PROJECT, "of another time")):
        values = f"(1, '{uuid}', '{{\"plan\": \"later\"}}', 1000000, 0)"
        await events.run(
            lambda client, values=values: client.command(f"INSERT INTO {table} VALUES {values}")  # type: ignore[misc]
        )
    found = await replicate(stores, events)
    assert found == await read_originals(stores)
    await apply_events(stores, setting("ann", plan="newest"))
    assert await replicate(stores, events) == await read_originals(stores)


async def test_lost_replicas_are_backfilled(stores: Stores, events: ClickHouseEventStore) -> None:
    await apply_events(stores, identify("ann", "anon"), group_identify("company", "acme"))
    await replicate(stores, events)
    for table in TABLES:
        await events.run(lambda client, table=table: client.command(f"TRUNCATE TABLE {table}"))  # type: ignore[misc]
    assert await replicate(stores, events) == await read_originals(stores)


class InterruptedReplicas(ClickHousePersonReplicas):
    """Raises like a kill, before or after the replicas are stored."""

    def __init__(self, tables: ClickHousePersonReplicas, *, stores_first: bool) -> None:
        self._tables = tables
        self._stores_first = stores_first

    @property
    def is_open(self) -> bool:
        return True

    async def newest_version(self) -> int:
        return await self._tables.newest_version()

    async def append(self, read_replicas: Sequence[Replica]) -> None:
        if self._stores_first:
            await self._tables.append(read_replicas)
        raise Unavailable("The power is gone.")


@pytest.mark.parametrize("stores_first", [True, False])
async def test_replication_resumes_after_an_interruption(
    stores: Stores, events: ClickHouseEventStore, stores_first: bool
) -> None:
    await apply_events(stores, identify("ann", "anon", plan="free"))
    tables = InterruptedReplicas(build_replicas(events), stores_first=stores_first)
    stopped = Replicator(SqlReplicationQueue(stores.database), tables)
    with pytest.raises(Unavailable):
        await stopped.wait_until_replicated(timeout_s=TIMEOUT_S)
    await apply_events(stores, setting("ann", plan="paid"))
    assert await replicate(stores, events) == await read_originals(stores)


async def test_late_replicas_do_not_replace_newer_ones(
    stores: Stores, events: ClickHouseEventStore
) -> None:
    await apply_events(stores, setting("ann", plan="free"), setting("bob"))
    queue, tables = SqlReplicationQueue(stores.database), build_replicas(events)
    late = await queue.read_changes(after=0, limit=100, max_size=1 << 20)
    await apply_events(stores, setting("ann", plan="paid"))
    await stores.delete_person(person_uuid(DEFAULT_PROJECT, "bob"))
    await replicate(stores, events)
    await tables.append(late.replicas)
    await queue.remove(late.ids)
    assert await read_replicas(events) == await read_originals(stores)


async def test_concurrent_replicators_and_changes(
    stores: Stores, other_stores: Stores, events: ClickHouseEventStore
) -> None:
    random = Random(7)

    async def change() -> None:
        for _ in range(25):
            await apply_random_change(stores, random)
            await asyncio.sleep(0)

    async def copy(of: Stores) -> None:
        replicator = build_replicator(of, events)
        for _ in range(10):
            await replicator.replicate_changes()

    await asyncio.gather(change(), copy(stores), copy(other_stores))
    assert await replicate(stores, events) == await read_originals(stores)


async def test_late_committed_change_is_replicated(
    stores: Stores, events: ClickHouseEventStore
) -> None:
    """Its queue id is lower than that of a change that was replicated before."""
    if not stores.location.url:
        pytest.skip("one writer at a time")
    await apply_events(stores, setting("ann", n=1), setting("bob", n=1))
    replicator = build_replicator(stores, events)
    late = "UPDATE persons SET properties = '{\"n\": 2}' WHERE uuid = :uuid"
    ann, bob = (person_uuid(DEFAULT_PROJECT, name) for name in ("ann", "bob"))
    with create_sync_engine(stores.location).begin() as connection:
        connection.execute(text(late), {"uuid": ann})
        run_sql(stores.location, late, uuid=bob)
        await replicator.wait_until_replicated(timeout_s=TIMEOUT_S)
        before = {row["id"]: row["properties"] for row in (await read_replicas(events))["persons"]}
        assert before[bob] == "{'n': 2}"
        assert before[ann] != "{'n': 2}"
    await replicator.wait_until_replicated(timeout_s=TIMEOUT_S)
    assert await read_replicas(events) == await read_originals(stores)
    assert await count_queued(stores) == 0


async def test_many_events_of_a_person_queue_one_change(stores: Stores) -> None:
    await apply_events(stores, *(setting("ann", n=number) for number in range(500)))
    assert await count_queued(stores) == 2  # the person and their distinct id


async def test_large_persons_are_replicated_in_small_batches(stores: Stores) -> None:
    for name in ("ann", "bob", "cyd"):
        await apply_events(stores, setting(name, text="x" * 10_000))
    queue = SqlReplicationQueue(stores.database)
    taken = await queue.read_changes(after=0, limit=100, max_size=25_000)
    assert len(taken.ids) == 4  # two persons with their distinct ids
    assert 20_000 < taken.size <= 25_000
    taken = await queue.read_changes(after=0, limit=100, max_size=1)
    assert len(taken.ids) == 1, "a change larger than the batch limit is replicated alone"


async def test_queue_ids_continue_after_the_queue_was_empty(stores: Stores) -> None:
    queue = SqlReplicationQueue(stores.database)
    last = 0
    for number in range(3):
        await apply_events(stores, setting("ann", n=number))
        taken = await queue.read_changes(after=0, limit=100, max_size=1 << 20)
        assert min(taken.ids) >= last
        assert await queue.newest() == max(taken.ids) > last
        last = max(taken.ids)
        await queue.remove(taken.ids)
        assert await queue.newest() is None
        assert await queue.oldest() is None
        assert (await queue.read_changes(after=0, limit=100, max_size=1 << 20)).ids == ()


class ClosedReplicas(InterruptedReplicas):
    @property
    def is_open(self) -> bool:
        return False


async def test_event_store_is_not_opened_for_a_few_changes(
    stores: Stores, events: ClickHouseEventStore
) -> None:
    await apply_events(stores, setting("ann"))
    closed = ClosedReplicas(build_replicas(events), stores_first=False)
    await Replicator(SqlReplicationQueue(stores.database), closed).replicate_changes()
    assert await count_queued(stores) == 2


async def test_rolled_back_change_is_not_queued(stores: Stores) -> None:
    def fail(connection: Any) -> None:
        connection.exec_driver_sql(
            "INSERT INTO groups (project_id, type_index, key, properties, created_at, updated_at)"
            f" VALUES (1, 0, 'acme', '{{}}', '{NOW.isoformat()}', '{NOW.isoformat()}')"
        )
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await stores.database.write(fail)
    assert await count_queued(stores) == 0
