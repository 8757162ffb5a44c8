"""Read-after-write: readers wait, up to a timeout, for the events accepted before them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from hedgerow.errors import OperatorError, Unavailable
from hedgerow.flags.store import EvaluationDataStore, StoredData
from hedgerow.ingestion.changed_names import list_read_names
from hedgerow.ingestion.inbox_watch import InboxWatch
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.store import InboxStore
from hedgerow.projects.model import ProjectId

# The first event loads the event store engine, which is slow on a busy machine.
OPEN_TIMEOUT_S = 30.0


class ReadBarrier:
    """`open_event_store` returns once the event store is open. The timeout for events starts only
    then."""

    def __init__(
        self,
        progress: Progress,
        open_event_store: Callable[[], Awaitable[object]],
        *,
        timeout_s: float,
    ) -> None:
        self._progress = progress
        self._open_event_store = open_event_store
        self._timeout_s = timeout_s

    async def wait_until_processed(self) -> None:
        """Wait until all accepted events have updated their persons and groups."""
        await self._progress.wait_until_all_processed(timeout_s=self._timeout_s)

    async def wait_until_stored(self) -> None:
        """Wait until all accepted events can be queried."""
        if self._timeout_s and not self._progress.is_all_stored:
            await _try_to_open(self._open_event_store)
        await self._progress.wait_until_stored(timeout_s=self._timeout_s)


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

    async def wait_until_processed(self) -> None:
        if self._timeout_s:
            await self._watch.wait_until_all_processed(timeout_s=self._timeout_s)

    async def wait_until_stored(self) -> None:
        if not self._timeout_s:
            return
        positions = await self._inbox.fetch_positions()
        if positions.is_empty:
            return
        await _try_to_open(self._open_event_store)
        await self._watch.wait_until_stored(positions.last_unprocessed, timeout_s=self._timeout_s)


class FreshEvaluationData(EvaluationDataStore):
    """Stored data for flag evaluation that includes the accepted events of the distinct id and the
    groups. It is stale if they are not processed within the timeout."""

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

    def load(
        self,
        project_id: ProjectId,
        distinct_id: str,
        groups: Mapping[int, str],
        *,
        cohorts: bool = True,
        hash_keys: bool = True,
    ) -> Coroutine[Any, Any, StoredData]:
        names = list_read_names(distinct_id, groups)
        # A coroutine does not run before it is awaited, so it reads after the wait.
        load = partial(
            self._data.load, project_id, distinct_id, groups, cohorts=cohorts, hash_keys=hash_keys
        )
        if self._watch is not None:
            return self._load_shared(self._watch, project_id, names, load)
        if self._progress.is_processed(project_id, names):
            return load()
        return self._load_fresh(project_id, names, load)

    async def _load_fresh(
        self,
        project_id: ProjectId,
        names: Sequence[str],
        load: Callable[[], Awaitable[StoredData]],
    ) -> StoredData:
        is_fresh = await self._progress.wait_until_processed(
            project_id, names, timeout_s=self._timeout_s
        )
        found = await load()
        return found if is_fresh or not self._timeout_s else replace(found, is_stale=True)

    async def _load_shared(
        self,
        watch: InboxWatch,
        project_id: ProjectId,
        names: Sequence[str],
        load: Callable[[], Awaitable[StoredData]],
    ) -> StoredData:
        """The database tells whether the data is stale, in the query that reads it."""
        found = await load()
        if not found.is_stale:
            return found
        if not self._timeout_s:
            return replace(found, is_stale=False)
        is_fresh = await watch.wait_until_processed(project_id, names, timeout_s=self._timeout_s)
        # More events may have been accepted since then: the reader need not wait for those.
        return replace(await load(), is_stale=not is_fresh)

    async def save_hash_keys(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        hash_key: str,
        flags: Sequence[str],
    ) -> None:
        await self._data.save_hash_keys(project_id, distinct_ids, hash_key, flags)


async def _try_to_open(open_event_store: Callable[[], Awaitable[object]]) -> None:
    with suppress(OperatorError, Unavailable, TimeoutError):
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            await open_event_store()
