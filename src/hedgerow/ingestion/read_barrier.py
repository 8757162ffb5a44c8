"""Read-after-write: readers wait, up to a timeout, for the events accepted before them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hedgerow.errors import OperatorError, Unavailable
from hedgerow.flags.store import EvaluationDataStore, StoredData
from hedgerow.ingestion.progress import DistinctIdKey, Progress
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
            with suppress(OperatorError, Unavailable, TimeoutError):
                async with asyncio.timeout(OPEN_TIMEOUT_S):
                    await self._open_event_store()
        await self._progress.wait_until_stored(timeout_s=self._timeout_s)


class FreshEvaluationData(EvaluationDataStore):
    """Stored data for flag evaluation that includes the accepted events of the distinct id."""

    def __init__(self, data: EvaluationDataStore, progress: Progress, *, timeout_s: float) -> None:
        self._data = data
        self._progress = progress
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
        # A coroutine does not run before it is awaited, so it reads after the wait.
        reading = self._data.load(
            project_id, distinct_id, groups, cohorts=cohorts, hash_keys=hash_keys
        )
        key = (project_id, distinct_id)
        return reading if self._progress.is_processed(key) else self._load_fresh(key, reading)

    async def _load_fresh(
        self, key: DistinctIdKey, reading: Coroutine[Any, Any, StoredData]
    ) -> StoredData:
        try:
            await self._progress.wait_until_processed(key, timeout_s=self._timeout_s)
            return await reading
        finally:
            reading.close()

    async def save_hash_keys(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        hash_key: str,
        flags: Sequence[str],
    ) -> None:
        await self._data.save_hash_keys(project_id, distinct_ids, hash_key, flags)
