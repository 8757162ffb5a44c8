"""Connections to user-configured PostgreSQL servers, at addresses that the SSRF guard allows. A
small pool per project and database; idle connections are closed after a while.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import certifi

from hedgerow.lib.optional_packages import LazyPackage
from hedgerow.lib.workers.sender import current_sender
from hedgerow.lib.workers.sender_places import SenderPlaces, pause_time_limits
from hedgerow.outbound.ssrf_guard import SsrfGuard, share_files
from hedgerow.plugin.database_address import DatabaseAddress
from hedgerow.plugin.http import TransportError

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.AsyncConnection[Any]
else:
    psycopg = LazyPackage("psycopg")
    Connection = Any

CONNECT_TIMEOUT_S = 5
MAX_CONNECTIONS = 4
IDLE_TIMEOUT_S = 30.0
# Of the files that the process may open, for connections in use.
FILE_SHARE = 1 / 16
# A path that never exists, to disable the driver's default files.
MISSING_FILE = "/dev/null/none"


@dataclass(slots=True)
class _Pool:
    """The pool of one database. `idle` holds unused connections, each with when it became idle."""

    semaphore: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONNECTIONS))
    users: int = 0
    idle: list[tuple[float, Connection]] = field(default_factory=list)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        with pause_time_limits():
            await self.semaphore.acquire()
        try:
            yield
        finally:
            self.semaphore.release()


class PostgresClient:
    def __init__(self, guard: SsrfGuard) -> None:
        self._guard = guard
        self._places = SenderPlaces(share_files(FILE_SHARE))
        self._pools: dict[tuple[str, DatabaseAddress], _Pool] = {}

    @asynccontextmanager
    async def connection(self, address: DatabaseAddress) -> AsyncIterator[Connection]:
        """Yield an autocommit connection. It is not reused after an error. A caller that waits has
        all its time: see `limit_time`."""
        pool = self._pools.setdefault((current_sender.get(), address), _Pool())
        pool.users += 1
        try:
            async with pool.hold(), self._places.hold_for_sender():
                connection = await self._reuse_idle(pool) or await self._connect(address)
                is_well = False
                try:
                    yield connection
                    is_well = True
                finally:
                    if is_well and not connection.closed:
                        pool.idle.append((time.monotonic(), connection))
                    else:
                        await _close(connection)
        finally:
            pool.users -= 1

    async def close_idle(self) -> None:
        """Close connections that have been idle for too long."""
        oldest = time.monotonic() - IDLE_TIMEOUT_S
        for key, pool in list(self._pools.items()):
            recent = [each for each in pool.idle if each[0] > oldest]
            old = [each for each in pool.idle if each[0] <= oldest]
            pool.idle = recent
            if not recent and not pool.users:
                del self._pools[key]
            for _, connection in old:
                await _close(connection)

    async def close(self) -> None:
        pools = list(self._pools.values())
        self._pools.clear()
        for pool in pools:
            while pool.idle:
                await _close(pool.idle.pop()[1])

    async def _reuse_idle(self, pool: _Pool) -> Connection | None:
        """Return an idle connection that still responds, if any."""
        while pool.idle:
            _, connection = pool.idle.pop()
            with contextlib.suppress(psycopg.Error, TimeoutError):
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await connection.execute("")
                return connection
            await _close(connection)
        return None

    async def _connect(self, address: DatabaseAddress) -> Connection:
        failure = ""
        for found in await self._guard.resolve(address.host, address.port):
            try:
                async with asyncio.timeout(2 * CONNECT_TIMEOUT_S):
                    return await psycopg.AsyncConnection.connect(
                        **build_parameters(address, found), autocommit=True
                    )
            except TimeoutError:
                failure = "the connection timed out"
            except psycopg.Error as error:
                failure = describe_error(error)
        raise TransportError(f"Cannot connect to the database: {failure}.")


def build_parameters(address: DatabaseAddress, found: str) -> dict[str, Any]:
    """Set every parameter that the driver would otherwise take from this machine."""
    return {
        "host": address.host,  # the name that a certificate is checked against
        "hostaddr": found,
        "port": address.port,
        "user": address.user,
        "password": address.password,
        "dbname": address.database,
        "sslmode": address.ssl_mode,
        "sslrootcert": certifi.where() if address.ssl_mode == "verify-full" else MISSING_FILE,
        "sslcertmode": "disable",
        "gssencmode": "disable",
        "passfile": MISSING_FILE,
        "options": "",
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": "hedgerow",
    }


def describe_error(error: "psycopg.Error") -> str:
    """Return the last line of the driver's message: the lines before it name the server."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip().rstrip(".") if lines else type(error).__name__


async def _close(connection: Connection) -> None:
    with contextlib.suppress(psycopg.Error, TimeoutError):
        async with asyncio.timeout(1):
            await connection.close()
