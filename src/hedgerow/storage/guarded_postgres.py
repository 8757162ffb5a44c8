"""Connections to somebody else's PostgreSQL, at addresses that the guard has checked. A few for
each database, kept open for a while.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import certifi
import psycopg

from hedgerow.pipelines.database_address import DatabaseAddress
from hedgerow.pipelines.sending import CannotSend
from hedgerow.storage.guard import Guard

Connection = psycopg.AsyncConnection[Any]

CONNECT_S = 5
AT_ONCE = 4
KEPT_OPEN_S = 30.0
# Where the driver looks for what it must not find.
NO_FILE = "/dev/null/none"


@dataclass(slots=True)
class _Shelf:
    """The connections to one database that nobody uses, each with when that began."""

    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    users: int = 0
    idle: list[tuple[float, Connection]] = field(default_factory=list)


class GuardedPostgres:
    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._shelves: dict[DatabaseAddress, _Shelf] = {}

    @asynccontextmanager
    async def connection(self, address: DatabaseAddress) -> AsyncIterator[Connection]:
        """A connection that commits each statement, or CannotSend. One that fails is not kept."""
        shelf = self._shelves.setdefault(address, _Shelf())
        shelf.users += 1
        try:
            async with shelf.turns:
                connection = await self._kept(shelf) or await self._opened(address)
                is_well = False
                try:
                    yield connection
                    is_well = True
                finally:
                    if is_well and not connection.closed:
                        shelf.idle.append((time.monotonic(), connection))
                    else:
                        await _closed(connection)
        finally:
            shelf.users -= 1

    async def tidy(self) -> None:
        """Close what nobody has used for a while."""
        oldest = time.monotonic() - KEPT_OPEN_S
        for address, shelf in list(self._shelves.items()):
            kept = [each for each in shelf.idle if each[0] > oldest]
            old = [each for each in shelf.idle if each[0] <= oldest]
            shelf.idle = kept
            if not kept and not shelf.users:
                del self._shelves[address]
            for _, connection in old:
                await _closed(connection)

    async def close(self) -> None:
        shelves = list(self._shelves.values())
        self._shelves.clear()
        for shelf in shelves:
            while shelf.idle:
                await _closed(shelf.idle.pop()[1])

    async def _kept(self, shelf: _Shelf) -> Connection | None:
        """One that is there already and still answers."""
        while shelf.idle:
            _, connection = shelf.idle.pop()
            with contextlib.suppress(psycopg.Error, TimeoutError):
                async with asyncio.timeout(CONNECT_S):
                    await connection.execute("")
                return connection
            await _closed(connection)
        return None

    async def _opened(self, address: DatabaseAddress) -> Connection:
        failure = ""
        for found in await self._guard.addresses(address.host, address.port):
            try:
                async with asyncio.timeout(2 * CONNECT_S):
                    return await psycopg.AsyncConnection.connect(
                        **_parameters(address, found), autocommit=True
                    )
            except TimeoutError:
                failure = "no connection in time"
            except psycopg.Error as error:
                failure = _said(error)
        raise CannotSend(f"The database cannot be used: {failure}.")


def _parameters(address: DatabaseAddress, found: str) -> dict[str, Any]:
    """Everything that the driver would otherwise look for on this machine is said."""
    return {
        "host": address.host,  # the name that a certificate is checked against
        "hostaddr": found,
        "port": address.port,
        "user": address.user,
        "password": address.password,
        "dbname": address.database,
        "sslmode": address.ssl_mode,
        "sslrootcert": certifi.where() if address.ssl_mode == "verify-full" else NO_FILE,
        "sslcertmode": "disable",
        "gssencmode": "disable",
        "passfile": NO_FILE,
        "options": "",
        "connect_timeout": CONNECT_S,
        "application_name": "hedgerow",
    }


def _said(error: psycopg.Error) -> str:
    """The last line of what the driver says: those before it say where."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip().rstrip(".") if lines else type(error).__name__


async def _closed(connection: Connection) -> None:
    with contextlib.suppress(psycopg.Error, TimeoutError):
        async with asyncio.timeout(1):
            await connection.close()
