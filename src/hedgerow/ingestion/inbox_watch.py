"""Readers wait for the events that any process accepted, if several processes share the inbox.

The database knows which events are unprocessed or not stored. One query at a time answers all
waiting readers of this process. A reader makes the worker of its process hurry, and tells those of
other processes through the database.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from hedgerow.ingestion.changed_names import hash_in_project
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.store import InboxPositions, InboxStore, PendingQuery
from hedgerow.lib.eager import ensure_task
from hedgerow.projects.model import ProjectId

# Look again after this time: another worker may process the events.
POLL_INTERVAL_S = 0.02
# The same while the worker of this process does it, which tells when it is done.
BUSY_POLL_INTERVAL_S = 0.1
# Workers of other processes look this often whether a reader waits.
ANNOUNCE_INTERVAL_S = 0.05
IDLE_S = 0.5


class PersonReader:
    """Waits for the events that change a person or groups, which are in these buckets. Does not
    wait for events that are accepted meanwhile."""

    def __init__(self, query: PendingQuery, buckets: Sequence[int]) -> None:
        self.query = query
        self.buckets = frozenset(buckets)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class InboxReader:
    """Waits until all rows of a project, or of all, up to `last` are processed, and stored if
    `is_query`."""

    def __init__(self, project_id: ProjectId | None, last: int, *, is_query: bool) -> None:
        self.project_id = project_id
        self._last_unprocessed = last
        self._last_unstored: int | None = None
        self._is_query = is_query
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def is_served(self, positions: InboxPositions) -> bool:
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
        self._person_readers: set[PersonReader] = set()
        self._inbox_readers: set[InboxReader] = set()
        self._announced_at = 0.0
        self._urgent_buckets: set[int] = set()
        self._is_worker_busy = False
        self._has_news = asyncio.Event()

    @property
    def urgent_buckets(self) -> frozenset[int]:
        """The buckets that readers of this process wait for, and that were not taken since the last
        look."""
        return frozenset(self._urgent_buckets)

    @property
    def has_inbox_readers(self) -> bool:
        """Whether a reader of this process waits for all events."""
        return bool(self._inbox_readers)

    def take_urgent_buckets(self) -> Sequence[int]:
        """Return the urgent buckets, for one attempt to process them: another worker may hold
        them."""
        taken = sorted(self._urgent_buckets)
        self._urgent_buckets.clear()
        self._is_worker_busy = bool(taken)
        return taken

    def notify_processed(self, bucket: int) -> None:
        """Let the readers look again whose events this worker has processed."""
        self._urgent_buckets.discard(bucket)
        for reader in self._person_readers:
            reader.buckets -= {bucket}
            if not reader.buckets and not reader.done.done():
                reader.done.set_result(None)
        self._has_news.set()

    @property
    def has_stream(self) -> bool:
        """Whether a query of the database does not see unprocessed events."""
        return self._inbox.has_stream

    async def find_in_stream(
        self, project_id: ProjectId, names: Sequence[str], *, timeout_s: float
    ) -> PendingQuery | None:
        """Return what to wait for if the stream has events that change a person, whose distinct id
        is the first name, or groups. Raises Unavailable."""
        keys = [hash_in_project(project_id, name) for name in names]
        query = PendingQuery(project_id=project_id, distinct_id=names[0], keys=keys, last=0)
        last = await self._inbox.find_accepted(query, timeout_s)
        return replace(query, last=last) if last else None

    async def wait_until_processed(
        self, query: PendingQuery, buckets: Sequence[int], *, timeout_s: float
    ) -> bool:
        """Wait until a batch of each of these buckets is processed, or nothing is left that the
        query asks for, or for the timeout. Return False after the timeout. The caller looks
        again."""
        self._urgent_buckets.update(buckets)
        reader = PersonReader(query, buckets)
        self._person_readers.add(reader)
        try:
            return await self._wait(reader.done, timeout_s)
        finally:
            self._person_readers.discard(reader)

    async def wait_until_names_processed(
        self, project_id: ProjectId, names: Sequence[str], *, timeout_s: float
    ) -> bool:
        """Wait until the events that change these groups and group types are processed, or for the
        timeout. Return whether they are."""
        deadline = time.monotonic() + timeout_s
        last = (await self._inbox.fetch_positions(project_id)).last_unprocessed
        keys = [hash_in_project(project_id, name) for name in names]
        query = PendingQuery(project_id=project_id, distinct_id="", keys=keys, last=last)
        return not last or await self.wait_for_query(query, deadline)

    async def wait_for_query(self, query: PendingQuery, deadline: float) -> bool:
        """Wait until nothing is left that the query asks for. Return False at the deadline."""
        while True:
            ((*buckets,),) = await self._inbox.find_unprocessed([query])
            if not buckets:
                return True
            left_s = deadline - time.monotonic()
            if not await self.wait_until_processed(query, buckets, timeout_s=left_s):
                return False

    async def wait_until_all_processed(self, project_id: ProjectId, *, timeout_s: float) -> bool:
        """Wait until all events of the project accepted by now are processed, or for the timeout.
        Return whether they are."""
        last = (await self._inbox.fetch_positions(project_id)).last_unprocessed
        reader = InboxReader(project_id, last, is_query=False)
        return not last or await self._wait_for_inbox(reader, timeout_s)

    async def wait_until_stored(
        self, project_id: ProjectId | None, last_unprocessed: int, *, timeout_s: float
    ) -> bool:
        """Wait until all rows of the project, or of all, up to this one, and all its processed
        events, are stored, or for the timeout. Return whether they are."""
        reader = InboxReader(project_id, last_unprocessed, is_query=True)
        return await self._wait_for_inbox(reader, timeout_s)

    async def poll(self) -> None:
        """Wait for a reader and for news, then look once which readers are served. A periodic task
        calls this again and again."""
        if not await self._progress.wait_for_readers(idle_s=IDLE_S):
            return
        if not await self._wait_for_news(POLL_INTERVAL_S) and self._is_worker_busy:
            await self._wait_for_news(BUSY_POLL_INTERVAL_S)
        self._has_news.clear()
        await self._serve_person_readers(list(self._person_readers))
        await self._serve_inbox_readers(list(self._inbox_readers))

    async def _wait_for_news(self, timeout_s: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                return await self._has_news.wait()
        return False

    async def _serve_person_readers(self, readers: Sequence[PersonReader]) -> None:
        if not readers:
            return
        found = await self._inbox.find_unprocessed([reader.query for reader in readers])
        for reader, buckets in zip(readers, found, strict=True):
            if buckets:
                reader.buckets = frozenset(buckets)
                self._urgent_buckets.update(buckets)
            elif not reader.done.done():
                reader.done.set_result(None)

    async def _serve_inbox_readers(self, readers: Sequence[InboxReader]) -> None:
        if not readers:
            return
        await self._announce()
        for project_id in {reader.project_id for reader in readers}:
            positions = await self._inbox.fetch_positions(project_id)
            for reader in readers:
                is_own = reader.project_id == project_id
                if is_own and not reader.done.done() and reader.is_served(positions):
                    reader.done.set_result(None)

    async def _announce(self) -> None:
        now = time.monotonic()
        if now - self._announced_at >= ANNOUNCE_INTERVAL_S:
            self._announced_at = now
            await self._inbox.announce_reader()

    async def _wait_for_inbox(self, reader: InboxReader, timeout_s: float) -> bool:
        self._inbox_readers.add(reader)
        # Workers must know of it before they look for work.
        self._has_news.set()
        try:
            return await self._wait(reader.done, timeout_s)
        finally:
            self._inbox_readers.discard(reader)

    async def _wait(self, done: asyncio.Future[None], timeout_s: float) -> bool:
        await ensure_task()
        try:
            with self._progress.register_reader():
                async with asyncio.timeout(timeout_s):
                    await done
        except TimeoutError:
            return False
        return True
