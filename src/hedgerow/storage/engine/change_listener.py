"""Waits for the notifications that PostgreSQL sends when a generation changes, so that processes
reload at once instead of with their next poll.

Polling stays: a notification can be lost with its connection. Behind a pooler such as PgBouncer a
session belongs to one transaction, so that LISTEN has no effect. There the listener waits forever.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import structlog

from hedgerow.errors import Unavailable
from hedgerow.storage.engine.generations import CHANNEL, Topic
from hedgerow.storage.engine.postgres import build_scan_connection, has_own_session

_log = structlog.get_logger("hedgerow.storage")

POOLER = (
    "A pooler is between this process and PostgreSQL, so it learns of changes of other processes "
    "by polling, within half a second."
)


class ChangeListener:
    """A session of its own that listens. `wait` may be called again after any error."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._arguments, _ = build_scan_connection(url, timeout_s, 0)
        self._session: psycopg.AsyncConnection[Any] | None = None

    async def wait(self) -> frozenset[Topic] | None:
        """Return the topics that have changed, or None after the session began: any change may have
        been missed before. Raises Unavailable without a database."""
        try:
            return await self._wait()
        except psycopg.Error:
            raise Unavailable("The database does not answer.") from None

    async def _wait(self) -> frozenset[Topic] | None:
        if self._session is None:
            self._session = await self._open()
            if self._session is None:
                await asyncio.Event().wait()
            return None
        topics: set[Topic] = set()
        try:
            async for each in self._session.notifies(stop_after=1):
                topics.add(each.payload)
        finally:
            if not topics:
                await self.close()
        return frozenset(topics)

    async def _open(self) -> psycopg.AsyncConnection[Any] | None:
        session = await psycopg.AsyncConnection.connect(
            **self._arguments, autocommit=True, prepare_threshold=None
        )
        async with AsyncExitStack() as unfinished:
            unfinished.push_async_callback(session.close)
            if not await has_own_session(session):
                _log.info("no notifications", reason=POOLER)
                return None
            await session.execute(f"LISTEN {CHANNEL}")
            unfinished.pop_all()
        return session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
