"""Connections that are replaced while the server accepts no changes, and errors of a connection."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import InterfaceError

from hedgerow.errors import Unavailable
from hedgerow.storage.engine import postgres as engine
from hedgerow.storage.engine.generations import advance
from hedgerow.storage.engine.postgres import PostgresDatabase, translate_error
from tests.support.postgres import PostgresTestServer

TIMEOUT_S = 60.0
GATE = 5


class SlowNetwork:
    """New connections to the server wait while `opened` is not set."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.opened.set()
        self.came: list[str] = []

    async def wait_for_connection(self, number: int) -> None:
        while len(self.came) < number:
            await asyncio.sleep(0.01)


@pytest.fixture
def network() -> SlowNetwork:
    return SlowNetwork()


@pytest.fixture
async def database(
    postgres: PostgresTestServer, network: SlowNetwork, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresDatabase]:
    """A database that accepts no changes. Its connections may be replaced at any time."""
    monkeypatch.setattr(engine, "READ_ONLY_RECONNECT_S", 0)
    name = urlsplit(postgres.create_migrated_database()).path[1:]
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
    with postgres.forward_port(came=network.came, opened=network.opened) as port:
        url = f"postgresql://postgres@127.0.0.1:{port}/{name}"
        opened = PostgresDatabase(url, TIMEOUT_S, 2)
        yield opened
        network.opened.set()
        await opened.close()


def change(connection: Connection) -> None:
    advance(connection, "flags:1")


def change_after_gate(connection: Connection) -> None:
    connection.execute(text(f"SELECT pg_advisory_xact_lock({GATE})"))
    change(connection)


@contextmanager
def closed_gate(postgres: PostgresTestServer, database: PostgresDatabase) -> Iterator[None]:
    # Advisory locks belong to one database.
    name = urlsplit(str(database._engine.url)).path
    url = postgres.url.replace("/postgres?", f"{name}?")
    with psycopg.connect(url) as connection:
        connection.execute(f"SELECT pg_advisory_xact_lock({GATE})".encode())
        yield


async def test_slow_connecting_during_a_read_only_spell_is_unavailable(
    postgres: PostgresTestServer, network: SlowNetwork, database: PostgresDatabase
) -> None:
    with closed_gate(postgres, database):
        # It begins first, and finds that the server is read-only while another one connects.
        late = asyncio.create_task(database.write(change_after_gate))
        await network.wait_for_connection(1)
        with pytest.raises(Unavailable, match="read-only"):
            await database.write(change)
        network.opened.clear()
        replaced = asyncio.create_task(database.write(change))
        await network.wait_for_connection(3)
    with pytest.raises(Unavailable, match="read-only"):
        await late
    network.opened.set()
    with pytest.raises(Unavailable, match="read-only"):
        await replaced


@pytest.mark.parametrize(
    "error",
    [
        psycopg.InterfaceError("cannot execute operations: the connection is in status ACTIVE"),
        InterfaceError("SELECT", {}, psycopg.InterfaceError("the cursor is closed")),
        psycopg.errors.TransactionTimeout("terminating connection due to transaction timeout"),
    ],
)
def test_an_error_of_the_connection_is_unavailable(error: Exception) -> None:
    assert isinstance(translate_error(error), Unavailable)
