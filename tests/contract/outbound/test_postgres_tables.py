"""Inserting events into a real PostgreSQL server, and its errors."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import msgspec
import psycopg
import pytest

from hedgerow.outbound.postgres import MAX_CONNECTIONS, PostgresClient
from hedgerow.outbound.postgres_tables import PostgresTables
from hedgerow.outbound.ssrf_guard import SsrfGuard
from hedgerow.plugin.database_address import DatabaseAddress, parse_database_address
from hedgerow.plugin.delivery import TableTarget
from hedgerow.plugin.http import TransportError
from tests.support.live import wait_for
from tests.support.postgres import PostgresTestServer
from tests.support.sent_events import build_event

OURS = "application_name = 'hedgerow' AND datname = current_database()"
ODD = 'we"ird; DROP TABLE x --'


@pytest.fixture(scope="module")
def port(postgres: PostgresTestServer) -> Iterator[int]:
    with postgres.forward_port() as port:
        yield port


@pytest.fixture
def url(postgres: PostgresTestServer) -> str:
    return postgres.create_database()


@pytest.fixture
async def databases() -> AsyncIterator[PostgresClient]:
    opened = PostgresClient(SsrfGuard(allow_private=True))
    yield opened
    await opened.close()


@pytest.fixture
def tables(databases: PostgresClient) -> PostgresTables:
    return PostgresTables(databases)


@pytest.fixture
def target(url: str, port: int) -> TableTarget:
    return TableTarget(address=build_address(url, port), schema="public", table="events")


def build_address(
    url: str, port: int, user: str = "postgres", password: str = "x"
) -> DatabaseAddress:
    return parse_database_address(
        f"postgresql://{user}:{password}@127.0.0.1:{port}/{urlsplit(url).path[1:]}"
    )


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@pytest.mark.parametrize("table", ["events", ODD, "ü"])
async def test_table_is_created_and_each_event_inserted_once(
    tables: PostgresTables, target: TableTarget, url: str, table: str
) -> None:
    target = replace(target, table=table)
    events = [build_event(price=2.5, odd="☃ '\"\\"), build_event("seen")]
    first = await tables.insert(target, events)
    again = await tables.insert(target, [*events, build_event()])
    assert (first.inserted_rows, again.inserted_rows) == (2, 1)
    quoted = '"' + table.replace('"', '""') + '"'
    rows = run(url, f"SELECT uuid::text, event, properties, timestamp FROM {quoted}")
    assert len(rows) == 3
    stored = {row[0]: row for row in rows}[events[0].uuid]
    assert stored[1:] == ("bought", {"price": 2.5, "odd": "☃ '\"\\"}, events[0].timestamp)
    assert first.statement.startswith(f'INSERT INTO "public".{quoted} ("project_id", "uuid"')


async def test_concurrent_inserts_create_one_table_and_few_connections(
    target: TableTarget, url: str, databases: PostgresClient
) -> None:
    tables = PostgresTables(databases)
    events = [build_event() for _ in range(30)]
    await asyncio.gather(*(tables.insert(target, [event]) for event in events))
    assert run(url, "SELECT count(*) FROM events") == [(30,)]
    mine = f"SELECT count(*) FROM pg_stat_activity WHERE {OURS}"
    ((open_now,),) = run(url, mine)
    assert isinstance(open_now, int)
    assert 0 < open_now <= MAX_CONNECTIONS
    await databases.close()
    wait_for(lambda: run(url, mine) == [(0,)], at_most_s=120)


async def test_only_the_invalid_event_is_rejected(
    tables: PostgresTables, target: TableTarget, url: str
) -> None:
    await tables.insert(target, [build_event()])
    run(url, "ALTER TABLE events ADD CHECK (event <> 'bad')")
    events = [build_event("good"), build_event("bad"), build_event("fine")]
    inserted = await tables.insert(target, events)
    assert inserted.inserted_rows == 2
    assert list(inserted.rejected) == [1]
    assert "check constraint" in inserted.rejected[1]
    large = msgspec.structs.replace(build_event(), properties='{"n": 1e1000000}')
    assert list((await tables.insert(target, [large])).rejected) == [0]


@pytest.mark.parametrize(
    ("statement", "advice"),
    [
        ("CREATE TABLE events (uuid uuid PRIMARY KEY)", "Add the column to the table"),
        (
            "CREATE TABLE events (LIKE template_of_events)",
            "needs a unique index on project_id and uuid",
        ),
    ],
)
async def test_incompatible_table_is_an_error_with_advice(
    tables: PostgresTables, target: TableTarget, url: str, statement: str, advice: str
) -> None:
    await tables.insert(replace(target, table="template_of_events"), [build_event()])
    run(url, statement)
    with pytest.raises(TransportError, match=advice):
        await tables.insert(target, [build_event()])


async def test_wrong_settings_are_an_error(
    tables: PostgresTables, target: TableTarget, postgres: PostgresTestServer, url: str, port: int
) -> None:
    run(url, "CREATE ROLE writer LOGIN PASSWORD 'right'")
    postgres.require_password("writer")
    await tables.insert(target, [build_event()])
    with pytest.raises(TransportError, match="Create the schema"):
        await tables.insert(replace(target, schema="none"), [build_event()])
    known = replace(target, address=build_address(url, port, "writer", "right"))
    with pytest.raises(TransportError, match="Grant the user"):
        await tables.insert(known, [build_event()])
    unknown = replace(target, address=build_address(url, port, "writer", "wrong"))
    with pytest.raises(TransportError, match="password authentication failed") as refused:
        await tables.insert(unknown, [build_event()])
    assert "wrong" not in str(refused.value)
    missing_database = replace(target, address=replace(target.address, database="none"))
    with pytest.raises(TransportError, match='database "none" does not exist'):
        await tables.insert(missing_database, [build_event()])
    encrypted = replace(target, address=replace(target.address, ssl_mode="require"))
    with pytest.raises(TransportError, match="does not support SSL"):
        await tables.insert(encrypted, [build_event()])
    run(url, "GRANT INSERT, SELECT ON events TO writer")
    assert (await tables.insert(known, [build_event()])).inserted_rows == 1


async def test_terminated_connection_is_replaced(
    tables: PostgresTables, target: TableTarget, url: str
) -> None:
    await tables.insert(target, [build_event()])
    ended = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS}"
    assert run(url, ended) == [(True,)]
    assert (await tables.insert(target, [build_event()])).inserted_rows == 1


async def test_local_database_is_rejected_by_default(target: TableTarget) -> None:
    guarded = PostgresTables(PostgresClient(SsrfGuard(allow_private=False)))
    for host in ("127.0.0.1", "localhost", "::1", "2130706433", "0.0.0.0", "::ffff:127.0.0.1"):
        address = replace(target.address, host=host)
        with pytest.raises(TransportError, match="private network"):
            await guarded.insert(replace(target, address=address), [build_event()])
