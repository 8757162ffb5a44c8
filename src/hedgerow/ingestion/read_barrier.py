"""Read-after-write: readers wait, up to a timeout, for the events accepted before them."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from hedgerow.errors import OperatorError, Unavailable
from hedgerow.flags.store import EvaluationDataStore, PendingEvents, StoredData
from hedgerow.ingestion.changed_names import group_type_name, hash_in_project, list_read_names
from hedgerow.ingestion.inbox_watch import InboxWatch
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.store import InboxPositions, InboxStore, PendingQuery
from hedgerow.lib.stale_reads import report_stale_read
from hedgerow.projects.model import ProjectId

# The first event loads the event store engine, which is slow on a busy machine.
OPEN_TIMEOUT_S = 30.0
# How long a deletion waits for events that would otherwise be stored after it.
STORE_TIMEOUT_S = 10.0
STORE_POLL_INTERVAL_S = 0.05
# Evaluations that wait at the same time: a quarter and a half of the handlers of the flags queue.
# Further ones answer with stale data and say so.
MAX_WAITING_PER_PROJECT = 64
MAX_WAITING_EVALUATIONS = 128


class ReadBarrier:
    """Waits, up to a timeout, and reports to the current request if it was too short.
    `open_event_store` returns once the event store is open. The timeout for events starts only
    then."""

    def __init__(
        self,
        progress: Progress,
        open_event_store: Callable[[], Awaitable[object]],
        *,
        timeout_s: float,
        count_changes: Callable[[], int] = lambda: 0,
    ) -> None:
        self._progress = progress
        self._open_event_store = open_event_store
        self._timeout_s = timeout_s
        self._count_changes = count_changes

    async def wait_until_processed(self, project_id: ProjectId) -> None:
        """Wait until all accepted events of a project have updated its persons and groups."""
        if not await self._progress.wait_until_all_processed(project_id, timeout_s=self._timeout_s):
            report_stale_read()

    async def wait_until_stored(self, project_id: ProjectId | None = None) -> None:
        """Wait until all accepted events of a project, or of all, can be queried."""
        if self._timeout_s and not self._progress.is_all_stored(project_id):
            await _try_to_open(self._open_event_store)
        if not await self._progress.wait_until_stored(project_id, timeout_s=self._timeout_s):
            report_stale_read()

    async def fetch_state(self, project_id: ProjectId) -> str | int | None:
        """Return a value that changes with each change of the database, None while not all accepted
        events of a project can be queried."""
        return self._count_changes() if self._progress.is_all_stored(project_id) else None


class SharedReadBarrier(ReadBarrier):
    """The same if several processes share the inbox."""

    def __init__(
        self,
        inbox: InboxStore,
        watch: InboxWatch,
        open_event_store: Callable[[], Awaitable[object]],
        *,
        timeout_s: float,
    ) -> None:
        self._inbox = inbox
        self._watch = watch
        self._open_event_store = open_event_store
        self._timeout_s = timeout_s

    async def wait_until_processed(self, project_id: ProjectId) -> None:
        if self._timeout_s and not await self._watch.wait_until_all_processed(
            project_id, timeout_s=self._timeout_s
        ):
            report_stale_read()

    async def wait_until_stored(self, project_id: ProjectId | None = None) -> None:
        if not self._timeout_s:
            return
        positions = await self._inbox.fetch_positions(project_id)
        if positions.is_empty:
            return
        await _try_to_open(self._open_event_store)
        if not await self._watch.wait_until_stored(
            project_id, positions.last_unprocessed, timeout_s=self._timeout_s
        ):
            report_stale_read()

    async def fetch_state(self, project_id: ProjectId) -> str | int | None:
        return await self._inbox.fetch_state()


class ReaderSlots:
    """Limits the evaluations that wait for events at the same time. They occupy handlers of the
    flags queue (`http/server/request_queues.py`), which all projects share."""

    def __init__(self) -> None:
        self._waiting: Counter[ProjectId] = Counter()

    @contextmanager
    def hold(self, project_id: ProjectId) -> Iterator[bool]:
        """Yield whether one more may wait."""
        waiting = self._waiting
        if (
            waiting[project_id] >= MAX_WAITING_PER_PROJECT
            or waiting.total() >= MAX_WAITING_EVALUATIONS
        ):
            yield False
            return
        waiting[project_id] += 1
        try:
            yield True
        finally:
            waiting[project_id] -= 1
            if not waiting[project_id]:
                del waiting[project_id]


class FreshEvaluationData(EvaluationDataStore):
    """Stored data for flag evaluation that includes the accepted events of the person and the
    groups. It is stale if they are not processed within the timeout, or if too many evaluations
    wait already."""

    def __init__(
        self,
        data: EvaluationDataStore,
        progress: Progress,
        watch: InboxWatch | None,
        *,
        timeout_s: float,
    ) -> None:
        self._data = data
        self._progress = progress
        self._watch = watch
        self._timeout_s = timeout_s
        self._slots = ReaderSlots()

    def load(
        self,
        project_id: ProjectId,
        distinct_id: str,
        groups: Mapping[int, str],
        *,
        cohorts: bool = True,
        hash_keys: bool = True,
        behaviors: bool = True,
    ) -> Coroutine[Any, Any, StoredData]:
        # A coroutine does not run before it is awaited, so it reads after the wait.
        load = partial(
            self._data.load,
            project_id,
            distinct_id,
            groups,
            cohorts=cohorts,
            hash_keys=hash_keys,
            behaviors=behaviors,
        )
        if self._watch is None and (
            self._progress.is_all_processed(project_id) or not self._timeout_s
        ):
            return load()
        names = list_read_names(distinct_id, groups)
        if self._watch is not None:
            if self._watch.has_stream and self._timeout_s:
                return self._load_after_stream(self._watch, project_id, names, load)
            return self._load_shared(self._watch, project_id, names, load)
        return self._load_fresh(project_id, names, load)

    async def _load_fresh(
        self,
        project_id: ProjectId,
        names: Sequence[str],
        load: Callable[[], Awaitable[StoredData]],
    ) -> StoredData:
        is_fresh = await self._wait_for_person(project_id, names)
        found = await load()
        return found if is_fresh else replace(found, is_stale=True)

    async def _wait_for_person(self, project_id: ProjectId, names: Sequence[str]) -> bool:
        """Wait for the events of all distinct ids of the person, whose own is the first name.
        Return whether they are processed."""
        progress, until = self._progress, self._progress.count_accepted(project_id)
        deadline = time.monotonic() + self._timeout_s
        while (processed := progress.count_processed(project_id)) < until:
            others = await self._data.list_distinct_ids(project_id, names[0])
            if progress.is_processed(project_id, [*names, *others]):
                # Otherwise the person may have got another distinct id since they were read.
                if progress.count_processed(project_id) == processed:
                    break
            elif not await self._wait(project_id, [*names, *others], until, deadline):
                return False
        return True

    async def _wait(
        self, project_id: ProjectId, names: Sequence[str], until: int, deadline: float
    ) -> bool:
        with self._slots.hold(project_id) as is_admitted:
            return is_admitted and await self._progress.wait_until_processed(
                project_id, names, until=until, timeout_s=deadline - time.monotonic()
            )

    async def _load_after_stream(
        self,
        watch: InboxWatch,
        project_id: ProjectId,
        names: Sequence[str],
        load: Callable[[], Awaitable[StoredData]],
    ) -> StoredData:
        deadline = time.monotonic() + self._timeout_s
        try:
            query = await watch.find_in_stream(project_id, names, timeout_s=self._timeout_s)
        except Unavailable:
            return replace(await load(), is_stale=True)
        is_fresh = True
        if query is not None:
            with self._slots.hold(project_id) as is_admitted:
                is_fresh = is_admitted and await watch.wait_for_query(query, deadline)
        found = await self._load_shared(watch, project_id, names, load)
        return found if is_fresh else replace(found, is_stale=True)

    async def _load_shared(
        self,
        watch: InboxWatch,
        project_id: ProjectId,
        names: Sequence[str],
        load: Callable[[], Awaitable[StoredData]],
    ) -> StoredData:
        """The database tells whether the data is stale, in the query that reads it. Events that are
        accepted later need no wait."""
        found = await load()
        if found.pending is None or not self._timeout_s:
            return replace(found, is_stale=False)
        last, deadline = found.pending.last, time.monotonic() + self._timeout_s
        keys = [hash_in_project(project_id, name) for name in names]
        query = PendingQuery(project_id=project_id, distinct_id=names[0], keys=keys, last=last)
        with self._slots.hold(project_id) as is_admitted:
            if not is_admitted:
                return found
            pending: PendingEvents | None = found.pending
            is_fresh = True
            # Again if the person has got another distinct id, with other events.
            while is_fresh and pending is not None and pending.first <= last:
                is_fresh = await watch.wait_until_processed(
                    query, pending.buckets, timeout_s=deadline - time.monotonic()
                )
                found = await load()
                pending = found.pending
        return replace(found, is_stale=not is_fresh)

    async def list_distinct_ids(self, project_id: ProjectId, distinct_id: str) -> Sequence[str]:
        return await self._data.list_distinct_ids(project_id, distinct_id)

    async def wait_for_group_types(self, project_id: ProjectId, names: Sequence[str]) -> None:
        types = [group_type_name(name) for name in names]
        until, timeout_s = self._progress.count_accepted(project_id), self._timeout_s
        if self._watch is not None and timeout_s:
            with self._slots.hold(project_id) as is_admitted:
                if is_admitted:
                    await self._watch.wait_until_names_processed(
                        project_id, types, timeout_s=timeout_s
                    )
        elif not self._progress.is_processed(project_id, types):
            await self._wait(project_id, types, until, time.monotonic() + timeout_s)

    async def save_hash_keys(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        hash_key: str,
        flags: Sequence[str],
    ) -> None:
        await self._data.save_hash_keys(project_id, distinct_ids, hash_key, flags)


async def wait_until_all_stored(
    inbox: InboxStore, project_id: ProjectId, timeout_s: float = STORE_TIMEOUT_S
) -> None:
    """Wait until all events of a project that are accepted now can be queried. Raises Unavailable
    after the timeout."""
    deadline = time.monotonic() + timeout_s
    now = await inbox.fetch_positions(project_id)
    last = now.last_unprocessed
    while now.first_unprocessed <= last:
        now = await _poll(inbox, project_id, deadline)
    await wait_until_processed_are_stored(inbox, deadline - time.monotonic(), project_id)


async def wait_until_processed_are_stored(
    inbox: InboxStore, timeout_s: float, project_id: ProjectId | None = None
) -> None:
    """Wait until all events of a project, or of all, that are processed now can be queried. Raises
    Unavailable after the timeout."""
    deadline = time.monotonic() + timeout_s
    now = await inbox.fetch_positions(project_id)
    last = now.last_unstored
    while now.first_unstored <= last:
        now = await _poll(inbox, project_id, deadline)


async def _poll(inbox: InboxStore, project_id: ProjectId | None, deadline: float) -> InboxPositions:
    if time.monotonic() > deadline:
        raise Unavailable(
            "Accepted events are not stored yet. Try again shortly, while the service and its "
            "workers run."
        )
    await asyncio.sleep(STORE_POLL_INTERVAL_S)
    return await inbox.fetch_positions(project_id)


async def _try_to_open(open_event_store: Callable[[], Awaitable[object]]) -> None:
    with suppress(OperatorError, Unavailable, TimeoutError):
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            await open_event_store()
