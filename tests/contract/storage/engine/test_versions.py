"""Processes of another version are found by the names of their sessions, and reported once."""

from collections.abc import AsyncIterator

import psycopg
import pytest

from hedgerow import __version__
from hedgerow.storage.engine import versions
from hedgerow.storage.engine.postgres import PostgresDatabase
from hedgerow.storage.engine.versions import VersionWatch, read_other_versions
from tests.support.postgres import PostgresTestServer

TIMEOUT_S = 60.0


@pytest.fixture
def url(postgres: PostgresTestServer) -> str:
    return postgres.create_database()


@pytest.fixture
async def database(url: str) -> AsyncIterator[PostgresDatabase]:
    opened = PostgresDatabase(url, TIMEOUT_S, 2)
    yield opened
    await opened.close()


async def connect(url: str, name: str) -> psycopg.AsyncConnection[object]:
    return await psycopg.AsyncConnection.connect(url, application_name=name)


async def test_only_sessions_of_another_version_in_this_database_count(
    url: str, database: PostgresDatabase, postgres: PostgresTestServer
) -> None:
    names = {url: f"hedgerow/{__version__}", postgres.url: "hedgerow/1.0.0"}
    sessions = [await connect(at, name) for at, name in names.items()]
    # A destination writes to this database.
    sessions.append(await connect(url, "hedgerow"))
    assert await database.read(read_other_versions) == []
    sessions += [await connect(url, f"hedgerow/{each}") for each in ("9.9.9", "0.1.0", "9.9.9")]
    assert await database.read(read_other_versions) == ["0.1.0", "9.9.9"]
    for each in sessions:
        await each.close()


async def test_another_version_is_logged_when_it_appears_and_when_it_is_gone(
    url: str,
    database: PostgresDatabase,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    watch = VersionWatch(database)
    other = await connect(url, "hedgerow/9.9.9")
    await watch.check()
    logged = capsys.readouterr()
    assert "9.9.9" in logged.out + logged.err
    assert __version__ in logged.out + logged.err
    await watch.check()
    await other.close()
    await watch.check()
    logged = capsys.readouterr()
    assert logged.out + logged.err == ""
    monkeypatch.setattr(versions, "FORGET_AFTER_S", 0)
    # The server ends the session a moment after its client.
    while not (logged := capsys.readouterr()).out + logged.err:
        await watch.check()
    assert "does not use the database any more" in logged.out + logged.err
