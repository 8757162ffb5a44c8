"""The results of insights: kept with the moment they were computed, and computed again on request
or in the background. A result that may lack something says that it is stale.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hedgerow.dashboards.kept_result import RETRY_AFTER_S, KeptResult, decode_error, decode_result
from hedgerow.dashboards.refresher import Refresher
from hedgerow.dashboards.result_store import ReadState, ResultRow, ResultStore
from hedgerow.errors import AppError, Invalid, Throttled, Unavailable
from hedgerow.events.query.executor import EventsBarrier
from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.model import Project, ProjectId
from hedgerow.queries.queries import Queries, Refresh

# A result may depend on the current time, so it is stale after this time although nothing changed.
MAX_AGE = timedelta(seconds=60)
# How old a stale result is at least before a visitor without a key causes another computation.
SHARED_MAX_AGE = timedelta(minutes=10)
# How long a request waits for a result.
WAIT_TIMEOUT_S = 90.0
POLL_INTERVAL_S = 0.25
# The time of the last use is stored no more often than this.
USE_INTERVAL = timedelta(minutes=10)
# Larger results are decoded in a thread.
MAX_INLINE_BYTES = 32 << 10

_FORCED = (Refresh.FORCE_BLOCKING, Refresh.FORCE_ASYNC)
_ASYNC = (Refresh.ASYNC, Refresh.LAZY_ASYNC, Refresh.FORCE_ASYNC)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightResult:
    """The result of an insight, None if there is none yet. `is_cached` is False for one that was
    computed for this request. `is_running` means that a newer one will be there later. `error` is
    why there is no newer one."""

    key: str
    kept: KeptResult | None = None
    computed_at: datetime | None = None
    is_cached: bool = True
    is_stale: bool = False
    is_running: bool = False
    requested_at: datetime | None = None
    error: AppError | None = None


class InsightResults:
    """`read_barrier` waits until all accepted events of a project are readable."""

    def __init__(
        self,
        store: ResultStore,
        queries: Queries,
        refresher: Refresher,
        read_barrier: EventsBarrier,
        clock: Clock,
    ) -> None:
        self._store = store
        self._queries = queries
        self._refresher = refresher
        self._read_barrier = read_barrier
        self._clock = clock

    async def validate(self, project: Project, query: Mapping[str, Any]) -> str:
        """Raise Invalid for a query that cannot be run, otherwise return the key of its result."""
        return await self._queries.validate(project, query, len(jsonio.encode(query)))

    async def fetch_one(
        self, project: Project, query: Mapping[str, Any], refresh: Refresh
    ) -> InsightResult:
        """Fetch the result of one query. Raises the error if there is not even an old result."""
        [found] = await self.fetch(project, [query], refresh)
        if found.error is not None and found.kept is None and refresh is not Refresh.FORCE_CACHE:
            raise found.error
        return found

    async def fetch(
        self, project: Project, queries: Sequence[Mapping[str, Any]], refresh: Refresh
    ) -> list[InsightResult]:
        """Fetch the results of queries. One that cannot be run has an error."""
        started = self._clock()
        found: dict[int, InsightResult] = {}
        by_key: dict[str, Mapping[str, Any]] = {}
        keys: dict[int, str] = {}
        for number, query in enumerate(queries):
            try:
                keys[number] = await self.validate(project, query)
                by_key[keys[number]] = query
            except Invalid as error:  # the definition of a kind may have changed since
                found[number] = InsightResult(key="", error=error)
        results = await self._fetch_by_key(project.id, by_key, refresh, started)
        return [found.get(n) or results[keys[n]] for n in range(len(queries))]

    async def fetch_shared(
        self, project: Project, queries: Sequence[Mapping[str, Any]]
    ) -> list[InsightResult]:
        """Fetch kept results, and let those be computed that are missing or stale and old."""
        found = await self.fetch(project, queries, Refresh.FORCE_CACHE)
        oldest = self._clock() - SHARED_MAX_AGE
        outdated = [
            query
            for query, each in zip(queries, found, strict=True)
            if not each.is_running
            and each.error is None
            and (each.computed_at is None or (each.is_stale and each.computed_at < oldest))
        ]
        if outdated:
            await self.fetch(project, outdated, Refresh.FORCE_ASYNC)
        return found

    async def find_by_key(self, project_id: ProjectId, key: str) -> InsightResult | None:
        """Return the result with this key, in whatever state it is."""
        rows = await self._store.find(project_id, [key], with_result=True)
        if key not in rows:
            return None
        state = await self._store.fetch_state(project_id)
        return await self._decode(rows[key], state, self._clock())

    async def _fetch_by_key(
        self,
        project_id: ProjectId,
        queries: Mapping[str, Mapping[str, Any]],
        refresh: Refresh,
        started: datetime,
    ) -> dict[str, InsightResult]:
        found = await self._read(project_id, list(queries), started)
        missing = {
            key: query for key, query in queries.items() if _needs_refresh(found[key], refresh)
        }
        if (
            missing
            and refresh not in _FORCED
            and not all(found[key].kept is None for key in missing)
        ):
            # Perhaps the missing events are only on their way.
            await self._read_barrier(project_id)
            found = await self._read(project_id, list(queries), started)
            missing = {k: q for k, q in missing.items() if _needs_refresh(found[k], refresh)}
        if missing:
            found |= await self._refresh(project_id, missing, refresh, found, started)
        await self._mark_used(project_id, found, started)
        return found

    async def _refresh(
        self,
        project_id: ProjectId,
        queries: Mapping[str, Mapping[str, Any]],
        refresh: Refresh,
        before: Mapping[str, InsightResult],
        started: datetime,
    ) -> dict[str, InsightResult]:
        """Compute results, or let them be computed while the client does not wait."""

        def is_blocking(key: str) -> bool:
            return refresh not in _ASYNC and (
                refresh is not Refresh.ASYNC_EXCEPT_ON_CACHE_MISS or before[key].kept is None
            )

        try:
            unless_since = None if refresh in _FORCED else started
            rows = await self._store.request(
                project_id, queries, started, unless_since=unless_since
            )
        except Throttled as error:
            return {key: replace(before[key], is_stale=True, error=error) for key in queries}
        self._refresher.wake()
        waited = {key: query for key, query in queries.items() if is_blocking(key)}
        # Another request may have had them computed in the meantime.
        done = {key for key, row in rows.items() if row.is_computed_since(unless_since)}
        watch = _Watch(rows, needs_new=refresh in _FORCED)
        left = {key: query for key, query in waited.items() if key not in done}
        errors = await self._wait(project_id, left, watch)
        new = await self._read(project_id, list(queries), started)
        return {
            key: _finish(new[key], errors.get(key), is_new=key in waited and key not in errors)
            for key in queries
        }

    async def _wait(
        self,
        project_id: ProjectId,
        queries: Mapping[str, Mapping[str, Any]],
        watch: "_Watch",
    ) -> dict[str, AppError]:
        """Wait until each result was computed, and return the errors of those that could not
        be."""
        errors: dict[str, AppError] = {}
        left = dict(queries)
        deadline = time.monotonic() + WAIT_TIMEOUT_S
        while left:
            if time.monotonic() > deadline:
                late = Unavailable("The result is not ready yet.", retry_after_s=RETRY_AFTER_S)
                return errors | dict.fromkeys(left, late)
            await self._refresher.wait_for_end(POLL_INTERVAL_S)
            state = await self._store.fetch_state(project_id)
            rows = await self._store.find(project_id, list(left), with_result=False)
            for row in rows.values():
                if watch.has_ended(row, is_fresh=_is_fresh(row, state, self._clock())):
                    del left[row.key]
                    if row.error:
                        errors[row.key] = decode_error(row.error)
            again = {k: q for k, q in left.items() if k not in rows or not rows[k].wanted_at}
            if again:
                watch.update(await self._store.request(project_id, again, self._clock()))
                self._refresher.wake()
        return errors

    async def _read(
        self, project_id: ProjectId, keys: Sequence[str], now: datetime
    ) -> dict[str, InsightResult]:
        # The state first: what changes after is not in it.
        state = await self._store.fetch_state(project_id)
        rows = await self._store.find(project_id, keys, with_result=True)
        return {
            key: await self._decode(rows[key], state, now)
            if key in rows
            else InsightResult(key=key)
            for key in keys
        }

    async def _decode(self, row: ResultRow, state: ReadState, now: datetime) -> InsightResult:
        kept = None
        if row.result is not None:
            compressed = row.result
            is_small = len(compressed) <= MAX_INLINE_BYTES
            kept = (
                decode_result(compressed)
                if is_small
                else await run_in_thread(lambda: decode_result(compressed))
            )
        return InsightResult(
            key=row.key,
            kept=kept,
            computed_at=row.computed_at,
            is_stale=not _is_fresh(row, state, now),
            is_running=row.wanted_at is not None,
            requested_at=row.wanted_at,
            error=decode_error(row.error) if row.error else None,
        )

    async def _mark_used(
        self, project_id: ProjectId, found: Mapping[str, InsightResult], now: datetime
    ) -> None:
        rows = await self._store.find(project_id, list(found), with_result=False)
        unmarked = [key for key, row in rows.items() if row.used_at < now - USE_INTERVAL]
        if unmarked:
            await self._store.mark_used(project_id, unmarked, now)


def _needs_refresh(found: InsightResult, refresh: Refresh) -> bool:
    if refresh is Refresh.FORCE_CACHE:
        return False
    if refresh in _FORCED or found.kept is None:
        return True
    return found.is_stale and refresh is not Refresh.LAZY_ASYNC


def _is_fresh(row: ResultRow, state: ReadState, now: datetime) -> bool:
    if row.computed_at is None or not state.is_settled or row.state != state.text:
        return False
    # Not from the future, which is a result from before the clock was set back.
    return timedelta(0) <= now - row.computed_at < MAX_AGE or row.computed_at >= now


def _finish(new: InsightResult, error: AppError | None, *, is_new: bool) -> InsightResult:
    return replace(
        new,
        is_cached=not is_new,
        # What arrived during the computation is not missing from the client's point of view.
        is_stale=not is_new and (new.is_stale or error is not None),
        is_running=new.is_running and not is_new,
        error=None if is_new else error or new.error,
    )


class _Watch:
    """Tells when a requested computation has ended. One that already ran at the time of the request
    counts only if nothing has changed since it began, and never with `needs_new`. `requested` are
    the rows from before the request."""

    def __init__(self, requested: Mapping[str, ResultRow], *, needs_new: bool) -> None:
        self._needs_new = needs_new
        self._seen: dict[str, tuple[datetime | None, int]] = {}
        self._skipped: set[str] = set()
        self.update(requested)

    def update(self, requested: Mapping[str, ResultRow]) -> None:
        for key, row in requested.items():
            self._seen[key] = row.progress
            if row.claimed_until is not None:
                self._skipped.add(key)

    def has_ended(self, row: ResultRow, *, is_fresh: bool) -> bool:
        if row.progress == self._seen.get(row.key, (None, 0)):
            return False
        self._seen[row.key] = row.progress
        if row.progress == (None, 0):
            return False  # a deletion took the result away, and it is computed again
        if row.key in self._skipped:
            self._skipped.remove(row.key)
            return is_fresh and not self._needs_new
        return True
