"""What the event store promises, on chDB and on a server: each uuid once, deleted at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from clickhouse_connect.driver._backendclient import SyncBackendClient

from hedgerow.errors import Invalid, Unavailable, Unready
from hedgerow.events.model import Event, PersonMode
from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import EventPlace, open_events
from hedgerow.storage.events import BLOCK_BYTES, IDS_AT_ONCE, MAX_PARTS, EventRecords
from hedgerow.storage.events_schema import cluster_ddl
from tests.clickhouse_http import OwnClickHouse
from tests.stored_events import parts_of

NOW = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)
PROJECT, OTHER = ProjectId(1), ProjectId(2)


def event(**fields: Any) -> Event:
    plain = Event(
        project_id=PROJECT,
        uuid=str(uuid4()),
        event="$pageview",
        distinct_id="somebody",
        properties='{"$session_id": "s", "$group_1": "acme", "path": "/"}',
        elements_chain='a:href="/"',
        timestamp=NOW,
        created_at=NOW + timedelta(seconds=1),
        person_id=str(uuid4()),
        person_created_at=NOW - timedelta(days=1),
        person_properties='{"email": "somebody@example.com"}',
        person_mode=PersonMode.FULL,
        historical_migration=False,
    )
    return msgspec.structs.replace(plain, **fields)


async def stored(events: EventRecords) -> list[Event]:
    """Everything there is, as it went in, sorted by uuid."""
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


def by_uuid(*events: Event) -> list[Event]:
    return sorted(events, key=lambda one: one.uuid)


@pytest.fixture(params=["chdb", "server"])
def event_place(request: pytest.FixtureRequest, tmp_path: Path) -> EventPlace:
    """An empty place for events: everything that asks for it runs on both engines."""
    url = ""
    if request.param == "server":
        url = request.getfixturevalue("clickhouse").new_database()
    return EventPlace(url=url, folder=tmp_path / "events", timeout_s=20)


@pytest.fixture
async def events(event_place: EventPlace) -> AsyncIterator[EventRecords]:
    opened = open_events(event_place)
    yield opened
    await opened.close()


async def test_an_event_is_kept_as_it_was(events: EventRecords) -> None:
    one = event(person_mode=PersonMode.FORCE_UPGRADE, historical_migration=True)
    assert await events.append([one]) == 1
    assert await stored(events) == [one]


async def test_nothing_to_append_is_nothing(events: EventRecords) -> None:
    assert await events.append([]) == 0
    assert await stored(events) == []


async def test_of_one_uuid_in_a_call_the_first_is_kept(events: EventRecords) -> None:
    first, other = event(event="first"), event()
    again = msgspec.structs.replace(first, event="again", timestamp=NOW + timedelta(days=400))
    assert await events.append([first, again, other, first]) == 2
    assert await stored(events) == by_uuid(first, other)


async def test_a_uuid_that_is_there_is_left_out(events: EventRecords) -> None:
    first, second = event(), event()
    assert await events.append([first]) == 1
    later = msgspec.structs.replace(first, timestamp=NOW + timedelta(days=400))
    assert await events.append([first, second]) == 1
    assert await events.append([later]) == 0
    assert await stored(events) == by_uuid(first, second)


async def test_a_uuid_that_is_there_is_left_out_after_opening_again(
    event_place: EventPlace,
) -> None:
    many = [event() for _ in range(IDS_AT_ONCE + 10)]
    before = open_events(event_place)
    assert await before.append(many) == len(many)
    await before.close()
    after = open_events(event_place)
    new = event()
    assert await after.append([*many, new]) == 1
    assert await stored(after) == by_uuid(*many, new)
    await after.close()


async def test_what_is_stored_is_known_by_when_it_was_accepted(events: EventRecords) -> None:
    one, other = event(), event(created_at=NOW + timedelta(days=1, microseconds=1))
    nobody = (PROJECT, str(uuid4()))
    asked = [(PROJECT, one.uuid), (PROJECT, other.uuid), (OTHER, one.uuid), nobody]
    assert await events.acceptances(asked) == {}
    await events.append([one, other])
    expected = {(PROJECT, each.uuid): each.created_at for each in (one, other)}
    assert await events.acceptances(asked) == expected
    many = [(PROJECT, str(uuid4())) for _ in range(IDS_AT_ONCE + 1)]
    assert await events.acceptances([*many, *asked]) == expected
    await events.delete(PROJECT, uuids=[one.uuid])
    assert await events.acceptances(asked) == {(PROJECT, other.uuid): other.created_at}


async def test_a_uuid_belongs_to_its_project(events: EventRecords) -> None:
    mine = event()
    theirs = msgspec.structs.replace(mine, project_id=OTHER)
    assert await events.append([mine]) == 1
    assert await events.append([mine, theirs]) == 1
    assert await events.delete(OTHER, uuids=[mine.uuid]) == 1
    assert await stored(events) == [mine]


async def test_many_at_once_store_each_once(events: EventRecords) -> None:
    some = [event() for _ in range(50)]
    counts = await asyncio.gather(*(events.append(some[n % 5 :]) for n in range(10)))
    assert sum(counts) == 50
    assert await stored(events) == by_uuid(*some)


async def test_a_caller_who_goes_away_makes_no_duplicate(events: EventRecords) -> None:
    some = [event() for _ in range(500)]
    await events.prepare()
    going = asyncio.ensure_future(events.append(some))
    await asyncio.sleep(0.001)
    going.cancel()
    await events.append(some)
    assert await stored(events) == by_uuid(*some)


async def test_an_append_that_failed_half_way_is_repeated_without_duplicates(
    events: EventRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [event() for _ in range(10)]
    insert = SyncBackendClient.raw_insert

    def fail_half_way(*given: Any, **named: Any) -> None:
        half = [*given]
        half[3] = b"".join(half[3].splitlines(keepends=True)[:5])
        insert(*half, **named)
        raise OSError("No space left on device")

    monkeypatch.setattr(SyncBackendClient, "raw_insert", fail_half_way)
    with pytest.raises(Unavailable):
        await events.append(some)
    monkeypatch.undo()
    assert await events.append(some) == 5
    assert await stored(events) == by_uuid(*some)


@pytest.mark.parametrize(
    "text",
    [
        "Ünïcödé 🦔 日本",
        "a\0b",
        "\\N \\t 'quoted' \"twice\"\r\n",
        "{{x:String}} %s $1 `",
        "\x7f\x01￾",
    ],
)
async def test_any_text_is_kept(events: EventRecords, text: str) -> None:
    properties = msgspec.json.encode({text: text}).decode()
    one = event(event=text, distinct_id=text, elements_chain=text, properties=properties)
    await events.append([one])
    assert await stored(events) == [one]
    found = await events.query(
        "SELECT event FROM events WHERE distinct_id = {id:String}",
        {"id": text},
        max_rows=10,
        timeout_s=30,
    )
    assert found == [{"event": text}]
    assert await events.delete(PROJECT, distinct_ids=[text], event=text) == 1
    assert await stored(events) == []


async def test_vast_properties_are_kept(events: EventRecords) -> None:
    vast = [event(properties=f'{{"a": "{str(n) * 1_000_000}"}}') for n in range(5)]
    deep = event(properties='{"a":' * 2_000 + "1" + "}" * 2_000)
    assert await events.append([*vast, deep]) == 6
    assert await stored(events) == by_uuid(*vast, deep)


async def test_more_than_one_block_is_stored_whole(events: EventRecords) -> None:
    size = BLOCK_BYTES // 4
    vast = [event(properties=f'{{"n": {n}, "a": "{"x" * size}"}}') for n in range(6)]
    assert await events.append(vast) == 6
    assert await events.append(vast) == 0
    assert await stored(events) == by_uuid(*vast)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1900, 1, 1, tzinfo=UTC),
        datetime(2000, 2, 29, 0, 0, 0, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ],
)
async def test_any_time_is_kept(events: EventRecords, moment: datetime) -> None:
    one = event(timestamp=moment, created_at=moment, person_created_at=moment)
    await events.append([one])
    assert await stored(events) == [one]


async def test_times_all_over_the_calendar_go_in_together(events: EventRecords) -> None:
    some = [event(timestamp=NOW - timedelta(days=31 * n)) for n in range(150)]
    assert await events.append(some) == 150
    assert await stored(events) == by_uuid(*some)
    # What lies outside of this century shares one part of the table.
    odd = [event(timestamp=datetime(1700 + n, 1, 1, tzinfo=UTC)) for n in range(200)]
    before = (await parts_of(events))["parts"]
    assert await events.append(odd) == 200
    assert (await parts_of(events))["parts"] <= before + 1


async def test_columns_are_filled_from_the_properties(events: EventRecords) -> None:
    odd = ["not json", "[]", "{}", '{"$session_id": 5, "$group_0": {"a": 1}}', ""]
    await events.append([event(), *(event(event="odd", properties=text) for text in odd)])
    columns = "`$session_id`, `$window_id`, `$group_0`, `$group_1`"
    sql = f"SELECT {columns} FROM events WHERE event = '$pageview'"
    (row,) = await events.query(sql, {}, max_rows=10, timeout_s=30)
    assert row == {"$session_id": "s", "$window_id": "", "$group_0": "", "$group_1": "acme"}


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        (lambda one: {"uuids": [one.uuid]}, {"b", "c", "d"}),
        (lambda one: {"distinct_ids": ["p", "q"]}, {"c", "d"}),
        (lambda one: {"event": "c"}, {"a", "b", "d"}),
        (lambda one: {"before": NOW}, {"a", "b", "c"}),
        (lambda one: {"distinct_ids": ["p", "q", "r"], "event": "b"}, {"a", "c", "d"}),
        (lambda one: {"uuids": [one.uuid], "before": NOW}, {"a", "b", "c", "d"}),
        (lambda one: {"before": NOW + timedelta(days=1)}, set()),
    ],
)
async def test_what_is_deleted_is_gone(
    events: EventRecords, chosen: Callable[[Event], dict[str, Any]], left: set[str]
) -> None:
    first = event(event="a", distinct_id="p")
    mine = [
        first,
        event(event="b", distinct_id="q"),
        event(event="c", distinct_id="r"),
        event(event="d", distinct_id="r", timestamp=NOW - timedelta(microseconds=1)),
    ]
    theirs = [msgspec.structs.replace(one, project_id=OTHER) for one in mine]
    await events.append([*mine, *theirs])
    assert await events.delete(PROJECT, **chosen(first)) == 4 - len(left)
    kept = await stored(events)
    assert {one.event for one in kept if one.project_id == PROJECT} == left
    assert sum(one.project_id == OTHER for one in kept) == 4


async def test_long_lists_are_deleted(events: EventRecords) -> None:
    some = [event(distinct_id=f"person {n}") for n in range(IDS_AT_ONCE + 10)]
    await events.append(some)
    uuids, ids = [one.uuid for one in some], [one.distinct_id for one in some]
    assert await events.delete(PROJECT, uuids=uuids[1:], distinct_ids=ids[:-1]) == len(some) - 2
    assert await stored(events) == by_uuid(some[0], some[-1])


async def test_deleting_asks_for_a_condition(events: EventRecords) -> None:
    await events.append([event()])
    with pytest.raises(Invalid):
        await events.delete(PROJECT)
    assert len(await stored(events)) == 1


async def test_what_was_deleted_may_come_again(events: EventRecords) -> None:
    one = event()
    for _ in range(3):
        assert await events.append([one]) == 1
        assert await events.append([one]) == 0
        assert await events.delete(PROJECT, uuids=[one.uuid]) == 1
        assert await events.delete(PROJECT, uuids=[one.uuid]) == 0


async def test_a_query_has_limits(events: EventRecords) -> None:
    with pytest.raises(Invalid, match="too many rows"):
        await events.query("SELECT number FROM numbers(11)", {}, max_rows=10, timeout_s=30)
    endless = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1"
    with pytest.raises(Invalid, match="too long"):
        await events.query(endless, {}, max_rows=10, timeout_s=0.2)
    assert await events.query("SELECT 1 AS one", {}, max_rows=1, timeout_s=30) == [{"one": 1}]


async def test_many_small_parts_are_merged(events: EventRecords) -> None:
    await events.prepare()
    await events.query("SYSTEM STOP MERGES events", {}, max_rows=1, timeout_s=30)
    for _ in range(MAX_PARTS + 1):
        await events.append([event()])
    assert (await parts_of(events))["parts"] == MAX_PARTS + 1
    await events.query("SYSTEM START MERGES events", {}, max_rows=1, timeout_s=30)
    # The engine merges by itself too, so either of the two may be the first.
    async with asyncio.timeout(30):
        while (found := await parts_of(events))["parts"] > MAX_PARTS:
            await events.compact()
    assert found["rows"] == MAX_PARTS + 1
    assert await events.compact() == 0


@pytest.mark.parametrize("statement", cluster_ddl("main"), ids=["shard", "spread"])
async def test_the_engine_can_read_what_makes_a_cluster(
    clickhouse: OwnClickHouse, statement: str
) -> None:
    # It has no cluster to make it on, so it only says whether it understands.
    quoted = statement.replace("\\", "\\\\").replace("'", "\\'")
    assert b"ON CLUSTER" in clickhouse.run(f"SELECT formatQuery('{quoted}')")


async def test_the_engine_tells_its_version(events: EventRecords) -> None:
    assert (await events.version()).split(".")[0].isdigit()


async def test_a_backup_holds_the_events_of_its_moment(tmp_path: Path) -> None:
    place = EventPlace(url="", folder=tmp_path / "events", timeout_s=1)
    backup = tmp_path / "it's a backup"
    events = open_events(place)
    kept = [event(), event(timestamp=NOW - timedelta(days=90))]
    gone, later = event(), event()
    await events.append([*kept, gone])
    await events.delete(PROJECT, uuids=[gone.uuid])
    await events.backup(backup)
    await events.append([later])
    with pytest.raises(Unready, match="exists"):
        await events.backup(backup)
    with pytest.raises(Unready, match="empty"):
        await events.restore(backup)
    await events.close()

    fresh = open_events(EventPlace(url="", folder=tmp_path / "fresh", timeout_s=1))
    with pytest.raises(Unready, match="no backup"):
        await fresh.restore(tmp_path)
    await fresh.restore(backup)
    assert await stored(fresh) == by_uuid(*kept)
    assert await fresh.append([*kept, gone, later]) == 2
    await fresh.close()


async def test_a_server_is_backed_up_by_its_own_means(
    clickhouse: OwnClickHouse, tmp_path: Path
) -> None:
    url = clickhouse.new_database()
    events = open_events(EventPlace(url=url, folder=tmp_path, timeout_s=20))
    with pytest.raises(Unready, match="BACKUP"):
        await events.backup(tmp_path / "backup")
    await events.close()


async def test_a_server_that_is_away_is_waited_for(tmp_path: Path) -> None:
    place = EventPlace(url="http://127.0.0.1:9/nothing", folder=tmp_path, timeout_s=1)
    away = open_events(place)
    with pytest.raises(Unavailable):
        await away.append([event()])
    await away.close()


async def test_a_folder_is_open_once(tmp_path: Path) -> None:
    place = EventPlace(url="", folder=tmp_path / "events", timeout_s=1)
    first = open_events(place)
    with pytest.raises(Unready, match=r"in use by process \d+"):
        open_events(place)
    await first.close()
    again = open_events(place)
    assert await again.append([event()]) == 1
    await again.close()
    with pytest.raises(Unavailable):
        await again.append([event()])
