"""Rows in a real PostgreSQL of somebody else's: once each, and what goes wrong."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import msgspec
import psycopg
import pytest

from hedgerow.pipelines.database_address import DatabaseAddress, database_address
from hedgerow.pipelines.sending import CannotSend, TablePlace
from hedgerow.storage.event_tables import EventTables
from hedgerow.storage.guard import Guard
from hedgerow.storage.guarded_postgres import AT_ONCE, GuardedPostgres
from tests.live import seconds_until
from tests.postgres import OwnPostgres
from tests.sent_events import sent_event

OURS = "application_name = 'hedgerow' AND datname = current_database()"
ODD = 'we"ird; DROP TABLE x --'


@pytest.fixture(scope="module")
def door(postgres: OwnPostgres) -> Iterator[int]:
    with postgres.door() as port:
        yield port


@pytest.fixture
def url(postgres: OwnPostgres) -> str:
    return postgres.new_database()


@pytest.fixture
async def databases() -> AsyncIterator[GuardedPostgres]:
    opened = GuardedPostgres(Guard(allow_private=True))
    yield opened
    await opened.close()


@pytest.fixture
def tables(databases: GuardedPostgres) -> EventTables:
    return EventTables(databases)


@pytest.fixture
def place(url: str, door: int) -> TablePlace:
    return TablePlace(address=at(url, door), schema="public", table="events")


def at(url: str, door: int, user: str = "postgres", password: str = "x") -> DatabaseAddress:
    return database_address(
        f"postgresql://{user}:{password}@127.0.0.1:{door}/{urlsplit(url).path[1:]}"
    )


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@pytest.mark.parametrize("table", ["events", ODD, "ü"])
async def test_the_table_is_made_and_each_event_is_there_once(
    tables: EventTables, place: TablePlace, url: str, table: str
) -> None:
    place = replace(place, table=table)
    events = [sent_event(price=2.5, odd="☃ '\"\\"), sent_event("seen")]
    first = await tables.insert(place, events)
    again = await tables.insert(place, [*events, sent_event()])
    assert (first.new, again.new) == (2, 1)
    quoted = '"' + table.replace('"', '""') + '"'
    rows = run(url, f"SELECT uuid::text, event, properties, timestamp FROM {quoted}")
    assert len(rows) == 3
    stored = {row[0]: row for row in rows}[events[0].uuid]
    assert stored[1:] == ("bought", {"price": 2.5, "odd": "☃ '\"\\"}, events[0].timestamp)
    assert first.statement.startswith(f'INSERT INTO "public".{quoted} ("project_id", "uuid"')


async def test_many_at_once_make_one_table_and_few_connections(
    place: TablePlace, url: str, databases: GuardedPostgres
) -> None:
    tables = EventTables(databases)
    events = [sent_event() for _ in range(30)]
    await asyncio.gather(*(tables.insert(place, [event]) for event in events))
    assert run(url, "SELECT count(*) FROM events") == [(30,)]
    mine = f"SELECT count(*) FROM pg_stat_activity WHERE {OURS}"
    ((open_now,),) = run(url, mine)
    assert isinstance(open_now, int)
    assert 0 < open_now <= AT_ONCE
    await databases.close()
    seconds_until(lambda: run(url, mine) == [(0,)], at_most_s=30)


async def test_only_the_event_at_fault_is_refused(
    tables: EventTables, place: TablePlace, url: str
) -> None:
    await tables.insert(place, [sent_event()])
    run(url, "ALTER TABLE events ADD CHECK (event <> 'bad')")
    events = [sent_event("good"), sent_event("bad"), sent_event("fine")]
    inserted = await tables.insert(place, events)
    assert inserted.new == 2
    assert list(inserted.refused) == [1]
    assert "check constraint" in inserted.refused[1]
    large = msgspec.structs.replace(sent_event(), properties='{"n": 1e1000000}')
    assert list((await tables.insert(place, [large])).refused) == [0]


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("CREATE TABLE events (uuid uuid PRIMARY KEY)", "Give the table that column"),
        (
            "CREATE TABLE events (LIKE template_of_events)",
            "needs a unique index on project_id and uuid",
        ),
    ],
)
async def test_a_table_that_does_not_fit_is_told(
    tables: EventTables, place: TablePlace, url: str, before: str, told: str
) -> None:
    await tables.insert(replace(place, table="template_of_events"), [sent_event()])
    run(url, before)
    with pytest.raises(CannotSend, match=told):
        await tables.insert(place, [sent_event()])


async def test_wrong_settings_are_told(
    tables: EventTables, place: TablePlace, postgres: OwnPostgres, url: str, door: int
) -> None:
    run(url, "CREATE ROLE writer LOGIN PASSWORD 'right'")
    postgres.must_say_password("writer")
    await tables.insert(place, [sent_event()])
    with pytest.raises(CannotSend, match="Make the schema"):
        await tables.insert(replace(place, schema="none"), [sent_event()])
    known = replace(place, address=at(url, door, "writer", "right"))
    with pytest.raises(CannotSend, match="Let the user"):
        await tables.insert(known, [sent_event()])
    unknown = replace(place, address=at(url, door, "writer", "wrong"))
    with pytest.raises(CannotSend, match="password authentication failed") as refused:
        await tables.insert(unknown, [sent_event()])
    assert "wrong" not in str(refused.value)
    nowhere = replace(place, address=replace(place.address, database="none"))
    with pytest.raises(CannotSend, match='database "none" does not exist'):
        await tables.insert(nowhere, [sent_event()])
    sealed = replace(place, address=replace(place.address, ssl_mode="require"))
    with pytest.raises(CannotSend, match="does not support SSL"):
        await tables.insert(sealed, [sent_event()])
    run(url, "GRANT INSERT, SELECT ON events TO writer")
    assert (await tables.insert(known, [sent_event()])).new == 1


async def test_a_connection_that_was_ended_is_replaced(
    tables: EventTables, place: TablePlace, url: str
) -> None:
    await tables.insert(place, [sent_event()])
    ended = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS}"
    assert run(url, ended) == [(True,)]
    assert (await tables.insert(place, [sent_event()])).new == 1


async def test_a_database_of_this_machine_is_refused_by_default(place: TablePlace) -> None:
    guarded = EventTables(GuardedPostgres(Guard(allow_private=False)))
    for host in ("127.0.0.1", "localhost", "::1", "2130706433", "0.0.0.0", "::ffff:127.0.0.1"):
        address = replace(place.address, host=host)
        with pytest.raises(CannotSend, match="private network"):
            await guarded.insert(replace(place, address=address), [sent_event()])
