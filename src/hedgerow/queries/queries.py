"""The query endpoint: parse a query, return a cached response, or run it, blocking or
asynchronously.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import uuid4

import msgspec

from hedgerow.errors import Invalid, NotFound
from hedgerow.events.query.executor import PassBarriers
from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock
from hedgerow.lib.text import truncate
from hedgerow.lib.threads import ThreadLimiter
from hedgerow.projects.model import Project, ProjectId
from hedgerow.queries.cache import CachedResult, FetchState, Freshness, ResultCache
from hedgerow.queries.events_query import EventsQueryRunner, read_events_query
from hedgerow.queries.fields import QueryFields
from hedgerow.queries.hogql_query import HogQLQueryRunner, read_hogql_query
from hedgerow.queries.model import (
    ExperimentOutput,
    InsightOutput,
    QueryOutput,
    QueryResponse,
    QueryStatus,
)
from hedgerow.queries.runs import QueryRun, QueryRuns

RunQuery = Callable[[], Awaitable[QueryOutput | ExperimentOutput | InsightOutput]]
# Prepares a query of one kind. Raises Invalid.
PrepareQuery = Callable[[Project, QueryFields, datetime], RunQuery]

# The keys of results begin with it.
KEY_PREFIX = "cache_"
# A larger query is validated in a thread.
MAX_INLINE_BYTES = 16 << 10


class Refresh(StrEnum):
    """Whether a cached response is acceptable, and whether to wait for a new one."""

    BLOCKING = "blocking"
    ASYNC = "async"
    LAZY_ASYNC = "lazy_async"
    FORCE_BLOCKING = "force_blocking"
    FORCE_ASYNC = "force_async"
    FORCE_CACHE = "force_cache"
    ASYNC_EXCEPT_ON_CACHE_MISS = "async_except_on_cache_miss"


_FORCED_MODES = (Refresh.FORCE_BLOCKING, Refresh.FORCE_ASYNC)
_STALE_MODES = (Refresh.FORCE_CACHE, Refresh.LAZY_ASYNC)
_BLOCKING_MODES = (Refresh.BLOCKING, Refresh.FORCE_BLOCKING)


class Queries:
    """`pass_barriers` waits until all accepted events are readable."""

    def __init__(
        self,
        hogql: HogQLQueryRunner,
        events: EventsQueryRunner,
        freshness: Freshness,
        fetch_state: FetchState,
        pass_barriers: PassBarriers,
        clock: Clock,
    ) -> None:
        self._hogql = hogql
        self._events = events
        self._prepare_by_kind: dict[str, PrepareQuery] = {
            "HogQLQuery": self._prepare_hogql,
            "EventsQuery": self._prepare_events,
        }
        self._freshness = freshness
        self._fetch_state = fetch_state
        self._pass_barriers = pass_barriers
        self._clock = clock
        self._cache = ResultCache[QueryResponse]()
        # One at a time: validation takes up to 0.2 s, and each thread delays the event loop.
        self._threads = ThreadLimiter(1, has_turns=True)
        self._runs = QueryRuns(clock)

    def register(self, readers: Mapping[str, PrepareQuery]) -> None:
        """Add query kinds that other packages implement."""
        self._prepare_by_kind.update(readers)

    async def validate(self, project: Project, query: Mapping[str, Any], query_bytes: int) -> str:
        """Raise Invalid for a query that cannot be run, otherwise return its cache key."""

        def prepare() -> str:
            self._prepare(project, query, self._clock())
            return _cache_key(project, query)[0]

        is_small = query_bytes <= MAX_INLINE_BYTES
        return prepare() if is_small else await self._threads.run(prepare)

    async def execute(
        self,
        project: Project,
        query: Mapping[str, Any],
        refresh: Refresh,
        id: str,
        query_bytes: int = 0,
    ) -> QueryResponse | QueryStatus:
        """Return the response, or the status of a running query. `query_bytes` is the size of the
        query as it was sent."""
        now = self._clock()

        def prepare() -> tuple[RunQuery, str, int]:
            return self._prepare(project, query, now), *_cache_key(project, query)

        is_small = query_bytes <= MAX_INLINE_BYTES
        run, key, query_bytes = prepare() if is_small else await self._threads.run(prepare)
        cached = None if refresh in _FORCED_MODES else self._cache.get((project.id, key))
        if cached is not None and (
            refresh in _STALE_MODES
            or await self._freshness.is_fresh(cached, partial(self._fetch_state, project.id), now)
        ):
            return msgspec.structs.replace(cached.result, is_cached=True)
        if refresh is Refresh.FORCE_CACHE:
            return QueryResponse(
                results=None,
                query=query,
                timezone=project.timezone,
                is_cached=False,
                cache_key=key,
            )
        is_blocking = refresh in _BLOCKING_MODES or (
            refresh is Refresh.ASYNC_EXCEPT_ON_CACHE_MISS and cached is None
        )
        started = self._runs.start(
            project.id,
            id or str(uuid4()),
            self._run_and_cache(project, query, (key, query_bytes), run, now),
            is_retained=not is_blocking,
            query_bytes=query_bytes,
        )
        if not is_blocking:
            return started.status()
        try:
            return await started.wait()
        finally:  # also if the client has disconnected
            self._runs.cancel(started)

    def status(self, project_id: ProjectId, id: str) -> QueryStatus:
        return self._get_run(project_id, id).status()

    def cancel(self, project_id: ProjectId, id: str) -> None:
        self._runs.cancel(self._get_run(project_id, id))

    async def stop(self) -> None:
        """Cancel all queries when the service stops."""
        await self._runs.stop()

    def _get_run(self, project_id: ProjectId, id: str) -> QueryRun:
        run = self._runs.find(project_id, id)
        if run is None:
            raise NotFound(f"Query not found: {truncate(id)}.")
        return run

    def _prepare(self, project: Project, query: Mapping[str, Any], now: datetime) -> RunQuery:
        fields = QueryFields(query)
        kind = fields.text("kind")
        if (read := self._prepare_by_kind.get(kind)) is not None:
            return read(project, fields, now)
        *most, last = self._prepare_by_kind
        kinds = f"{', '.join(most)} or {last}"
        if not kind:
            raise Invalid(
                f"This field is required. Expected one of: {kinds}.",
                attr="query__kind",
                code="required",
            )
        detail = f'"{truncate(kind)}" is not a supported query kind. Expected one of: {kinds}.'
        raise Invalid(detail, attr="query__kind", code="invalid_choice")

    def _prepare_hogql(self, project: Project, fields: QueryFields, now: datetime) -> RunQuery:
        parsed = read_hogql_query(fields)
        return lambda: self._hogql.run(project, parsed, now)

    def _prepare_events(self, project: Project, fields: QueryFields, now: datetime) -> RunQuery:
        parsed = read_events_query(fields, project, now)
        return lambda: self._events.run(project, parsed, now)

    async def _run_and_cache(
        self,
        project: Project,
        query: Mapping[str, Any],
        key_and_size: tuple[str, int],
        run: RunQuery,
        now: datetime,
    ) -> QueryResponse:
        key, query_bytes = key_and_size
        async with self._pass_barriers(project.id):
            # Events that arrive after this point change the state again.
            state = await self._fetch_state(project.id)
            output = await run()
        modifiers = query.get("modifiers")
        found = {name: getattr(output, name) for name in output.__struct_fields__}
        answer = QueryResponse(
            **{"results": None, **found},
            query=query,
            modifiers=modifiers if isinstance(modifiers, dict) else {},
            timezone=project.timezone,
            is_cached=False,
            cache_key=key,
            cache_target_age=now + self._freshness.max_age,
            last_refresh=now,
            next_allowed_client_refresh=now,
        )
        cached = CachedResult(result=answer, size=query_bytes + answer.size, state=state, at=now)
        self._cache.put((project.id, key), cached)
        return answer


def _cache_key(project: Project, query: Mapping[str, Any]) -> tuple[str, int]:
    """Return the cache key, built from the query and what it reads of the project, and the
    size of both."""
    storable = query if jsonio.is_storable(query) else jsonio.replace_unstorable(dict(query))
    canonical = jsonio.encode_canonical(
        [
            project.id,
            project.timezone,
            project.week_start_day,
            project.test_account_filters,
            storable,
        ]
    )
    return f"{KEY_PREFIX}{project.id}_{hashlib.sha256(canonical).hexdigest()[:32]}", len(canonical)
