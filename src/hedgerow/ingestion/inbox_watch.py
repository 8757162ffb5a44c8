"""Readers wait for the events that any process accepted, if several processes share the inbox.

The database knows which events are unprocessed or not stored. One query at a time answers all
waiting readers of this process. A reader makes the worker of its process hurry, and tells those of
other processes through the database.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from hedgerow.ingestion.changed_names import hash_in_project
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.store import InboxPositions, InboxStore, UnprocessedRows
from hedgerow.lib.eager import ensure_task
from hedgerow.projects.model import ProjectId

# Workers of other processes look this often whether a reader waits.
ANNOUNCE_INTERVAL_S = 0.05
IDLE_S = 0.5


class Reader(Protocol):
    """A waiting reader. `is_served` gets what is unprocessed, by key, and the positions."""

    keys: Sequence[int]
    done: asyncio.Future[None]

    def is_served(
        self, unprocessed: Mapping[int, UnprocessedRows], positions: InboxPositions
    ) -> bool: ...


class PersonReader:
    """Waits for the events that change persons or groups, by their keys. Does not wait for events
    that are accepted meanwhile."""

    def __init__(self, keys: Sequence[int]) -> None:
        self.keys = keys
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last: dict[int, int] | None = None

    def is_served(self, unprocessed: Mapping[int, UnprocessedRows], _: InboxPositions) -> bool:
        found = {key: unprocessed[key] for key in self.keys if key in unprocessed}
        if self._last is None:
            self._last = {key: rows.last for key, rows in found.items()}
        return not any(rows.first <= self._last.get(key, 0) for key, rows in found.items())


class InboxReader:
    """Waits until all rows of the inbox up to `last` are processed, and stored if `is_query`."""

    keys: Sequence[int] = ()

    def __init__(self, last: int, *, is_query: bool) -> None:
        self._last_unprocessed = last
        self._last_unstored: int | None = None
        self._is_query = is_query
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def is_served(self, _: Mapping[int, UnprocessedRows], positions: InboxPositions) -> bool:
        if self._last_unstored is None:
            if positions.first_unprocessed <= self._last_unprocessed:
                return False
            # The rows that the processed ones became are among these.
            self._last_unstored = positions.last_unstored if self._is_query else 0
        return positions.first_unstored > self._last_unstored


class InboxWatch:
    def __init__(self, inbox: InboxStore, progress: Progress) -> None:
        self._inbox = inbox
        self._progress = progress
        self._readers: set[Reader] = set()
        self._announced_at = 0.0
        # The buckets with events that a reader of this process waits for.
        self.urgent_buckets: frozenset[int] = frozenset()

    async def wait_until_processed(
        self, project_id: ProjectId, names: Sequence[str], *, timeout_s: float
    ) -> bool:
        """Wait until the events that change these are processed, or for the timeout. Return whether
        they are."""
        keys = [hash_in_project(project_id, name) for name in names]
        return await self._wait(PersonReader(keys), timeout_s)

    async def wait_until_all_processed(self, *, timeout_s: float) -> None:
        """Wait until all events accepted by now are processed, or for the timeout."""
        positions = await self._inbox.fetch_positions()
        if positions.last_unprocessed:
            reader = InboxReader(positions.last_unprocessed, is_query=False)
            await self._wait(reader, timeout_s)

    async def wait_until_stored(self, last_unprocessed: int, *, timeout_s: float) -> None:
        """Wait until all rows of the inbox up to this one, and all processed events, are stored, or
        for the timeout."""
        await self._wait(InboxReader(last_unprocessed, is_query=True), timeout_s)

    async def poll(self) -> None:
        """Wait for a reader, then look once which readers are served. A periodic task calls this
        again and again."""
        await self._progress.wait_for_readers(idle_s=IDLE_S)
        # Readers that come during the queries are not served by their results.
        readers = list(self._readers)
        keys = {key for reader in readers for key in reader.keys}
        unprocessed = await self._inbox.find_unprocessed(list(keys)) if keys else {}
        self.urgent_buckets = frozenset(rows.bucket for rows in unprocessed.values())
        positions = InboxPositions()
        if any(isinstance(reader, InboxReader) for reader in readers):
            await self._announce()
            positions = await self._inbox.fetch_positions()
        for reader in readers:
            if not reader.done.done() and reader.is_served(unprocessed, positions):
                reader.done.set_result(None)

    async def _announce(self) -> None:
        now = time.monotonic()
        if now - self._announced_at >= ANNOUNCE_INTERVAL_S:
            self._announced_at = now
            await self._inbox.announce_reader()

    async def _wait(self, reader: Reader, timeout_s: float) -> bool:
        await ensure_task()
        self._readers.add(reader)
        try:
            with self._progress.register_reader():
                async with asyncio.timeout(timeout_s):
                    await reader.done
        except TimeoutError:
            return False
        finally:
            self._readers.discard(reader)
        return True
