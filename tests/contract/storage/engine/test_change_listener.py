"""Notifications of PostgreSQL about changes, directly and behind a real PgBouncer."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from hedgerow.errors import Unavailable
from hedgerow.storage.engine.change_listener import ChangeListener
from hedgerow.storage.engine.generations import advance
from hedgerow.storage.engine.postgres import PostgresDatabase
from tests.support.pgbouncer import find_pgbouncer, run_pgbouncer
from tests.support.postgres import PostgresTestServer

TIMEOUT_S = 60.0


@pytest.fixture
def url(postgres: PostgresTestServer) -> str:
    return postgres.create_migrated_database()


@pytest.fixture
async def database(url: str) -> AsyncIterator[PostgresDatabase]:
    opened = PostgresDatabase(url, TIMEOUT_S, 2)
    try:
        yield opened
    finally:
        await opened.close()


async def change(database: PostgresDatabase) -> None:
    await database.write(lambda connection: advance(connection, "flags:1"))


async def test_a_change_ends_the_wait_of_another_session(
    url: str, database: PostgresDatabase
) -> None:
    listener = ChangeListener(url, TIMEOUT_S)
    try:
        assert await listener.wait() is None
        for _ in range(3):
            waiting = asyncio.create_task(listener.wait())
            await change(database)
            assert await asyncio.wait_for(waiting, TIMEOUT_S) == frozenset({"flags:1"})
    finally:
        await listener.close()


async def test_a_lost_session_is_an_error_and_the_next_wait_opens_another(url: str) -> None:
    listener = ChangeListener(url, TIMEOUT_S)
    try:
        await listener.wait()
        waiting = asyncio.create_task(listener.wait())
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as other:
            await other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        with pytest.raises(Unavailable):
            await asyncio.wait_for(waiting, TIMEOUT_S)
        await asyncio.wait_for(listener.wait(), TIMEOUT_S)
    finally:
        await listener.close()


@pytest.mark.skipif(
    find_pgbouncer() is None, reason="PgBouncer is missing: tests/support/install_pgbouncer gets it"
)
async def test_behind_a_pooler_nothing_listens_and_the_log_says_so_once(
    postgres: PostgresTestServer,
    url: str,
    database: PostgresDatabase,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    direct = ChangeListener(url, TIMEOUT_S)
    with run_pgbouncer(postgres, url, tmp_path) as pooled_url:
        pooled = ChangeListener(pooled_url, TIMEOUT_S)
        through_pooler = PostgresDatabase(pooled_url, TIMEOUT_S, 2)
        try:
            await direct.wait()
            waiting = asyncio.create_task(pooled.wait())
            for _ in range(3):
                heard = asyncio.create_task(direct.wait())
                await change(through_pooler)
                await asyncio.wait_for(heard, TIMEOUT_S)
            assert not waiting.done()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        finally:
            await pooled.close()
            await direct.close()
            await through_pooler.close()
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("no notifications") == 1
