"""One project cannot take all connections to PostgreSQL, and a change does not stop its events."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import Connection, text

from hedgerow.errors import Unavailable
from hedgerow.lib.workers.sender import current_sender
from hedgerow.storage.engine.postgres import PostgresDatabase
from hedgerow.storage.projects.projects import lock_project
from tests.contract.storage.conftest import DEFAULT_PROJECT
from tests.support.postgres import PostgresTestServer

POOL_SIZE = 4
TIMEOUT_S = 1.0
GATE = 5


@pytest.fixture
async def database(
    postgres: PostgresTestServer, prepared_database: str
) -> AsyncIterator[PostgresDatabase]:
    url = postgres.create_database(like=prepared_database)
    opened = PostgresDatabase(url, timeout_s=TIMEOUT_S, pool_size=POOL_SIZE)
    yield opened
    await opened.close()


def _wait_at_gate(connection: Connection) -> None:
    connection.execute(text(f"SELECT pg_advisory_xact_lock_shared({GATE})"))


def _close_gate(connection: Connection) -> bool:
    return bool(connection.execute(text(f"SELECT pg_try_advisory_xact_lock({GATE})")).scalar())


async def _read_as(database: PostgresDatabase, sender: str) -> None:
    current_sender.set(sender)
    await database.read(_wait_at_gate)


async def test_a_sender_gets_at_most_half_of_the_connections(database: PostgresDatabase) -> None:
    released, closed = asyncio.Event(), asyncio.Event()

    async def keep_gate_closed() -> None:
        async with database._engine.connect() as connection:
            await connection.exec_driver_sql("BEGIN")
            assert await connection.run_sync(_close_gate)
            closed.set()
            await released.wait()

    keeper = asyncio.create_task(keep_gate_closed())
    await closed.wait()
    slow = [asyncio.create_task(_read_as(database, "project 1")) for _ in range(6)]
    # The gate and two slow reads have three of four connections: the last one is free.
    assert (
        await database.read(lambda connection: connection.execute(text("SELECT 5")).scalar()) == 5
    )
    results = await asyncio.gather(*slow, return_exceptions=True)
    assert all(isinstance(each, Unavailable) for each in results)
    assert any("of this project" in str(each) for each in results)
    released.set()
    await keeper
    await _read_as(database, "project 1")


async def test_captured_events_do_not_wait_for_a_change(database: PostgresDatabase) -> None:
    """The insert of an event takes this lock on its project."""
    insert_lock = text("SELECT id FROM projects WHERE id = 1 FOR KEY SHARE NOWAIT")
    locked, finish = asyncio.Event(), asyncio.Event()

    async def hold_lock() -> None:
        async with database._engine.connect() as connection:
            await connection.exec_driver_sql("BEGIN")
            await connection.run_sync(lock_project, DEFAULT_PROJECT)
            locked.set()
            await finish.wait()

    holder = asyncio.create_task(hold_lock())
    await locked.wait()
    await database.write(lambda connection: connection.execute(insert_lock).close())
    finish.set()
    await holder
