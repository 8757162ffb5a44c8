"""The guarantees of the event store, on chDB and on a server."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from clickhouse_connect.driver._backendclient import SyncBackendClient
from clickhouse_connect.driver.httpclient import HttpClient

from hedgerow.errors import Invalid, OperatorError, Unavailable
from hedgerow.events.model import Event, EventKey, PersonMode
from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import EventStoreLocation, open_event_store
from hedgerow.storage.events.events import (
    MAX_BLOCK_BYTES,
    MAX_IDS_PER_STATEMENT,
    ClickHouseEventStore,
)
from hedgerow.storage.events.schema import build_cluster_ddl
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.stored_events import parts_of

NOW = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)
PROJECT, OTHER = ProjectId(1), ProjectId(2)


def event(**fields: Any) -> Event:
    plain = Event(
        project_id=PROJECT,
        uuid=str(uuid4()),
        event="$pageview",
        distinct_id="user",
        properties='{"$session_id": "s", "$group_1": "acme", "path": "/"}',
        elements_chain='a:href="/"',
        timestamp=NOW,
        created_at=NOW + timedelta(seconds=1),
        person_id=str(uuid4()),
        person_created_at=NOW - timedelta(days=1),
        person_properties='{"email": "user@example.com"}',
        person_mode=PersonMode.FULL,
        historical_migration=False,
    )
    return msgspec.structs.replace(plain, **fields)


async def list_stored(events: ClickHouseEventStore) -> list[Event]:
    """Return all stored events, sorted by UUID."""
    rows = await events.query(
        "SELECT * FROM events ORDER BY toString(uuid)", {}, max_rows=100_000, timeout_s=30
    )
    return [
        Event(
            **row
            | {
                "uuid": str(row["uuid"]),
                "person_id": str(row["person_id"]),
                "person_mode": PersonMode(row["person_mode"]),
            }
        )
        for row in rows
    ]


def sort_by_uuid(*events: Event) -> list[Event]:
    return sorted(events, key=lambda one: one.uuid)


@pytest.fixture(params=["chdb", "server"])
def event_store_location(request: pytest.FixtureRequest, tmp_path: Path) -> EventStoreLocation:
    """The location of an empty event store. Tests that use it run on both engines."""
    url = ""
    if request.param == "server":
        url = request.getfixturevalue("clickhouse").create_database()
    return EventStoreLocation(url=url, folder=tmp_path / "events", timeout_s=20)


@pytest.fixture
async def events(event_store_location: EventStoreLocation) -> AsyncIterator[ClickHouseEventStore]:
    opened = open_event_store(event_store_location)
    yield opened
    await opened.close()


async def test_event_is_stored_unchanged(events: ClickHouseEventStore) -> None:
    one = event(person_mode=PersonMode.FORCE_UPGRADE, historical_migration=True)
    assert await events.append([one]) == 1
    assert await list_stored(events) == [one]


async def test_appending_nothing_is_a_no_op(events: ClickHouseEventStore) -> None:
    assert await events.append([]) == 0
    assert await list_stored(events) == []


async def test_first_event_of_a_uuid_in_a_call_wins(events: ClickHouseEventStore) -> None:
    first, other = event(event="first"), event()
    again = msgspec.structs.replace(first, event="again", timestamp=NOW + timedelta(days=400))
    assert await events.append([first, again, other, first]) == 2
    assert await list_stored(events) == sort_by_uuid(first, other)


async def test_stored_uuid_is_skipped(events: ClickHouseEventStore) -> None:
    first, second = event(), event()
    assert await events.append([first]) == 1
    later = msgspec.structs.replace(first, timestamp=NOW + timedelta(days=400))
    assert await events.append([first, second]) == 1
    assert await events.append([later]) == 0
    assert await list_stored(events) == sort_by_uuid(first, second)


async def test_stored_uuid_is_skipped_after_reopening(
    event_store_location: EventStoreLocation,
) -> None:
    many = [event() for _ in range(MAX_IDS_PER_STATEMENT + 10)]
    before = open_event_store(event_store_location)
    assert await before.append(many) == len(many)
    await before.close()
    after = open_event_store(event_store_location)
    new = event()
    assert await after.append([*many, new]) == 1
    assert await list_stored(after) == sort_by_uuid(*many, new)
    await after.close()


async def test_acceptances_returns_when_stored_events_were_accepted(
    events: ClickHouseEventStore,
) -> None:
    one, other = event(), event(created_at=NOW + timedelta(days=1, microseconds=1))
    unknown = (PROJECT, str(uuid4()))
    keys = [(PROJECT, one.uuid), (PROJECT, other.uuid), (OTHER, one.uuid), unknown]
    assert await events.acceptances(keys) == {}
    await events.append([one, other])
    expected = {(PROJECT, each.uuid): each.created_at for each in (one, other)}
    assert await events.acceptances(keys) == expected
    many = [(PROJECT, str(uuid4())) for _ in range(MAX_IDS_PER_STATEMENT + 1)]
    assert await events.acceptances([*many, *keys]) == expected
    await events.delete(PROJECT, uuids=[one.uuid])
    assert await events.acceptances(keys) == {(PROJECT, other.uuid): other.created_at}


async def test_uuids_are_unique_per_project(events: ClickHouseEventStore) -> None:
    mine = event()
    theirs = msgspec.structs.replace(mine, project_id=OTHER)
    assert await events.append([mine]) == 1
    assert await events.append([mine, theirs]) == 1
    assert await events.delete(OTHER, uuids=[mine.uuid]) == 1
    assert await list_stored(events) == [mine]


async def test_concurrent_appends_store_each_event_once(events: ClickHouseEventStore) -> None:
    some = [event() for _ in range(50)]
    counts = await asyncio.gather(*(events.append(some[n % 5 :]) for n in range(10)))
    assert sum(counts) == 50
    assert await list_stored(events) == sort_by_uuid(*some)


async def test_cancelled_append_makes_no_duplicate(events: ClickHouseEventStore) -> None:
    some = [event() for _ in range(500)]
    await events.prepare()
    going = asyncio.ensure_future(events.append(some))
    await asyncio.sleep(0.001)
    going.cancel()
    await events.append(some)
    assert await list_stored(events) == sort_by_uuid(*some)


async def test_append_that_failed_halfway_can_be_repeated(
    events: ClickHouseEventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [event() for _ in range(10)]
    insert = SyncBackendClient.raw_insert

    def fail_halfway(*given: Any, **named: Any) -> None:
        half = [*given]
        half[3] = b"".join(half[3].splitlines(keepends=True)[:5])
        insert(*half, **named)
        raise OSError("No space left on device")

    monkeypatch.setattr(SyncBackendClient, "raw_insert", fail_halfway)
    with pytest.raises(Unavailable):
        await events.append(some)
    monkeypatch.undo()
    # The embedded engine got the other half when the append was repeated.
    assert await events.append(some) in (0, 5)
    assert await list_stored(events) == sort_by_uuid(*some)


ODD_TEXTS = (
    "Ünïcödé 🦔 日本",
    "a\0b",
    "\\N \\t 'quoted' \"twice\"\r\n",
    "{{x:String}} %s $1 `",
    "\x7f\x01￾",
)


async def test_any_text_is_stored_unchanged(events: ClickHouseEventStore) -> None:
    for text in ODD_TEXTS:
        properties = msgspec.json.encode({text: text}).decode()
        one = event(event=text, distinct_id=text, elements_chain=text, properties=properties)
        await events.append([one])
        assert await list_stored(events) == [one]
        found = await events.query(
            "SELECT event FROM events WHERE distinct_id = {id:String}",
            {"id": text},
            max_rows=10,
            timeout_s=30,
        )
        assert found == [{"event": text}]
        assert await events.delete(PROJECT, distinct_ids=[text], event=text) == 1
        assert await list_stored(events) == []


async def test_large_properties_are_stored(events: ClickHouseEventStore) -> None:
    vast = [event(properties=f'{{"a": "{str(n) * 1_000_000}"}}') for n in range(5)]
    deep = event(properties='{"a":' * 2_000 + "1" + "}" * 2_000)
    assert await events.append([*vast, deep]) == 6
    assert await list_stored(events) == sort_by_uuid(*vast, deep)


async def test_several_blocks_are_stored(events: ClickHouseEventStore) -> None:
    size = MAX_BLOCK_BYTES // 4
    vast = [event(properties=f'{{"n": {n}, "a": "{"x" * size}"}}') for n in range(6)]
    assert await events.append(vast) == 6
    assert await events.append(vast) == 0
    assert await list_stored(events) == sort_by_uuid(*vast)


ODD_MOMENTS = (
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1900, 1, 1, tzinfo=UTC),
    datetime(2000, 2, 29, 0, 0, 0, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
)


async def test_any_timestamp_is_stored(events: ClickHouseEventStore) -> None:
    some = [event(timestamp=at, created_at=at, person_created_at=at) for at in ODD_MOMENTS]
    for one in some:
        assert await events.append([one]) == 1
    assert await list_stored(events) == sort_by_uuid(*some)


async def test_timestamps_of_many_months_fit_into_one_append(events: ClickHouseEventStore) -> None:
    some = [event(timestamp=NOW - timedelta(days=31 * n)) for n in range(150)]
    assert await events.append(some) == 150
    assert await list_stored(events) == sort_by_uuid(*some)
    # Timestamps outside of this century share one partition.
    odd = [event(timestamp=datetime(1700 + n, 1, 1, tzinfo=UTC)) for n in range(200)]
    before = (await parts_of(events))["parts"]
    assert await events.append(odd) == 200
    assert (await parts_of(events))["parts"] <= before + 1


async def test_columns_are_materialized_from_properties(events: ClickHouseEventStore) -> None:
    odd = ["not json", "[]", "{}", '{"$session_id": 5, "$group_0": {"a": 1}}', ""]
    await events.append([event(), *(event(event="odd", properties=text) for text in odd)])
    columns = "`$session_id`, `$window_id`, `$group_0`, `$group_1`"
    sql = f"SELECT {columns} FROM events WHERE event = '$pageview'"
    (row,) = await events.query(sql, {}, max_rows=10, timeout_s=30)
    assert row == {"$session_id": "s", "$window_id": "", "$group_0": "", "$group_1": "acme"}


# What to delete in terms of the first event, and the events that are left of "a" to "d".
DELETIONS: tuple[tuple[Callable[[Event], dict[str, Any]], set[str]], ...] = (
    (lambda one: {"uuids": [one.uuid]}, {"b", "c", "d"}),
    (lambda one: {"distinct_ids": ["p", "q"]}, {"c", "d"}),
    (lambda one: {"event": "c"}, {"a", "b", "d"}),
    (lambda one: {"before": NOW}, {"a", "b", "c"}),
    (lambda one: {"distinct_ids": ["p", "q", "r"], "event": "b"}, {"a", "c", "d"}),
    (lambda one: {"uuids": [one.uuid], "before": NOW}, {"a", "b", "c", "d"}),
    (lambda one: {"before": NOW + timedelta(days=1)}, set()),
)


async def test_deleted_events_are_gone(events: ClickHouseEventStore) -> None:
    """Of one project, and no others."""
    mine = [
        event(event="a", distinct_id="p"),
        event(event="b", distinct_id="q"),
        event(event="c", distinct_id="r"),
        event(event="d", distinct_id="r", timestamp=NOW - timedelta(microseconds=1)),
    ]
    projects = [ProjectId(1 + number) for number in range(len(DELETIONS) + 1)]
    expected = {project: {"a", "b", "c", "d"} for project in projects}
    await events.append(
        [msgspec.structs.replace(one, project_id=project) for project in projects for one in mine]
    )
    for project, (choose, left) in zip(projects, DELETIONS, strict=False):
        assert await events.delete(project, **choose(mine[0])) == 4 - len(left)
        expected[project] = left
        kept = await list_stored(events)
        assert {
            project: {one.event for one in kept if one.project_id == project}
            for project in projects
        } == expected


async def test_deletion_by_long_lists(events: ClickHouseEventStore) -> None:
    some = [event(distinct_id=f"person {n}") for n in range(MAX_IDS_PER_STATEMENT + 10)]
    await events.append(some)
    uuids, ids = [one.uuid for one in some], [one.distinct_id for one in some]
    assert await events.delete(PROJECT, uuids=uuids[1:], distinct_ids=ids[:-1]) == len(some) - 2
    assert await list_stored(events) == sort_by_uuid(some[0], some[-1])


async def test_deletion_requires_a_condition(events: ClickHouseEventStore) -> None:
    await events.append([event()])
    with pytest.raises(Invalid):
        await events.delete(PROJECT)
    assert len(await list_stored(events)) == 1


async def test_deleted_event_can_be_stored_again(events: ClickHouseEventStore) -> None:
    for second in range(3):
        one = event(uuid=str(UUID(int=1)), created_at=NOW + timedelta(seconds=second))
        assert await events.append([one]) == 1
        assert await events.append([one]) == 0
        assert await list_stored(events) == [one]
        assert await events.delete(PROJECT, uuids=[one.uuid]) == 1
        assert await events.delete(PROJECT, uuids=[one.uuid]) == 0


async def test_workers_that_send_the_same_block_store_it_once(
    event_store_location: EventStoreLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that stood still between its look-up and its insert repeats what another did."""
    if not event_store_location.url:
        pytest.skip("the embedded engine has one process")
    some = [event() for _ in range(10)]
    first, second = (open_event_store(event_store_location) for _ in range(2))
    await first.append([])
    assert await first.append(some) == 10
    monkeypatch.setattr(ClickHouseEventStore, "_select_new", lambda _, __, events: _by_key(events))
    assert await second.append(some) == 10
    monkeypatch.undo()
    assert await list_stored(second) == sort_by_uuid(*some)
    await first.close()
    await second.close()


def _by_key(events: list[Event]) -> dict[EventKey, Event]:
    return {(each.project_id, each.uuid): each for each in events}


async def test_inserts_do_not_depend_on_the_settings_of_the_server(
    events: ClickHouseEventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, Any]] = []
    insert = HttpClient.raw_insert

    def record(client: HttpClient, *arguments: Any, **options: Any) -> Any:
        sent.append(options["settings"])
        return insert(client, *arguments, **options)

    monkeypatch.setattr(HttpClient, "raw_insert", record)
    assert await events.append([event()]) == 1
    (settings,) = sent
    durable = {"async_insert": 0, "insert_quorum": "auto", "insert_quorum_parallel": 1}
    once = {"insert_deduplicate": 1, "distributed_foreground_insert": 1}
    assert {**durable, **once}.items() <= settings.items()


async def test_servers_with_tables_of_their_own_are_refused(
    clickhouse: ClickHouseTestServer, tmp_path: Path
) -> None:
    """What a load balancer would do: the next request reaches another server."""
    url = clickhouse.create_database()
    events = open_event_store(EventStoreLocation(url=url, folder=tmp_path, timeout_s=20))
    assert await events.append([event()]) == 1
    database = url.rpartition("/")[2]
    clickhouse.run(f"DROP TABLE {database}.events SYNC")
    clickhouse.run(f"CREATE TABLE {database}.events (uuid UUID) ENGINE = MergeTree ORDER BY uuid")
    with pytest.raises(Unavailable, match="several servers"):
        await events.append([event()])
    await events.close()


async def test_deletion_does_not_delay_appends(
    events: ClickHouseEventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await events.append([event(), event(uuid=str(UUID(int=7)))])
    deleting, may_finish = threading.Event(), threading.Event()
    run = SyncBackendClient.raw_query

    def wait_in_deletion(client: Any, query: str, *given: Any, **named: Any) -> Any:
        if query.startswith("DELETE"):
            deleting.set()
            assert may_finish.wait(30)
        return run(client, query, *given, **named)

    monkeypatch.setattr(SyncBackendClient, "raw_query", wait_in_deletion)
    deletion = asyncio.ensure_future(events.delete(PROJECT, uuids=[str(UUID(int=7))]))
    assert await asyncio.to_thread(deleting.wait, 30)
    assert await asyncio.wait_for(events.append([event()]), 30) == 1
    may_finish.set()
    assert await deletion == 1
    assert len(await list_stored(events)) == 2


async def test_query_has_limits(events: ClickHouseEventStore) -> None:
    with pytest.raises(Invalid, match="too many rows"):
        await events.query("SELECT number FROM numbers(11)", {}, max_rows=10, timeout_s=30)
    endless = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1"
    with pytest.raises(Invalid, match="too long"):
        await events.query(endless, {}, max_rows=10, timeout_s=0.2)
    assert await events.query("SELECT 1 AS one", {}, max_rows=1, timeout_s=30) == [{"one": 1}]


@pytest.mark.parametrize("statement", build_cluster_ddl("main"), ids=["shard", "spread"])
async def test_engine_can_parse_the_cluster_ddl(
    clickhouse: ClickHouseTestServer, statement: str
) -> None:
    # The engine has no cluster, so it only parses the statements.
    quoted = statement.replace("\\", "\\\\").replace("'", "\\'")
    assert b"ON CLUSTER" in clickhouse.run(f"SELECT formatQuery('{quoted}')")


async def test_engine_reports_its_version(events: ClickHouseEventStore) -> None:
    assert (await events.version()).split(".")[0].isdigit()


async def test_unreachable_server_raises_unavailable(tmp_path: Path) -> None:
    place = EventStoreLocation(url="http://127.0.0.1:9/nothing", folder=tmp_path, timeout_s=1)
    away = open_event_store(place)
    with pytest.raises(Unavailable):
        await away.append([event()])
    await away.close()


async def test_folder_can_be_opened_once(tmp_path: Path) -> None:
    place = EventStoreLocation(url="", folder=tmp_path / "events", timeout_s=1)
    first = open_event_store(place)
    with pytest.raises(OperatorError, match=r"in use by process \d+"):
        open_event_store(place)
    await first.close()
    again = open_event_store(place)
    assert await again.append([event()]) == 1
    await again.close()
    with pytest.raises(Unavailable):
        await again.append([event()])
