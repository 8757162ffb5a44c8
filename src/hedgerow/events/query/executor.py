"""The execution of queries: compile to SQL, wait for a free slot, run within limits.

All reads of events go through it: listings, `select`, property values and the query endpoint.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from hedgerow.events.filters.cohorts import CohortsById
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.events.query.context import (
    UNLIMITED_ROWS,
    NamedHogQL,
    QueryContext,
    compile_query,
    locate_error,
)
from hedgerow.events.query.limiter import QueryLimiter
from hedgerow.events.store import EventReader, QueryLimits, QueryResult, Shape
from hedgerow.hogql.ast import Select
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.printer.statement import PrintedQuery, RowLimits
from hedgerow.lib import jsonio
from hedgerow.lib.threads import run_in_thread
from hedgerow.persons.store import CohortStore
from hedgerow.projects.model import Project

T = TypeVar("T")

TIMEOUT_S = 30.0
MAX_RESULT_BYTES = 16 << 20
MAX_COHORTS = 10_000
MAX_COMPILATIONS = 2

ReadBarrier = Callable[[], Awaitable[None]]

DEFAULT_LIMITS = QueryLimits(timeout_s=TIMEOUT_S, max_rows=0, max_bytes=MAX_RESULT_BYTES)


class QueryExecutor:
    """Runs queries. `events_barrier` waits until all accepted events are readable,
    `replica_barrier` until persons, groups and cohorts are replicated."""

    def __init__(
        self,
        reader: EventReader,
        cohorts: CohortStore,
        limiter: QueryLimiter,
        events_barrier: ReadBarrier,
        replica_barrier: ReadBarrier,
    ) -> None:
        self._reader = reader
        self._cohorts = cohorts
        self._limiter = limiter
        self._compile_limiter = QueryLimiter(per_project=1, total=MAX_COMPILATIONS)
        self._events_barrier = events_barrier
        self._replica_barrier = replica_barrier

    async def wait_until_readable(self) -> None:
        """Wait until all earlier events and changes are readable."""
        await self._events_barrier()
        await self._replica_barrier()

    async def build_context(
        self, project: Project, now: datetime, documents: Sequence[Any] = ()
    ) -> QueryContext:
        """Wait until earlier events are readable, then build the context. `documents` are the
        filters and HogQL of the query: they decide whether persons and cohorts are needed."""
        await self._events_barrier()
        found: CohortsById = {}
        if any(documents):
            await self._replica_barrier()
            if b"cohort" in jsonio.encode(documents).lower():
                listed, _ = await self._cohorts.cohorts(project.id, limit=MAX_COHORTS, offset=0)
                found = {each.id: each for each in listed}
        time = QueryTime(now=now, zone=ZoneInfo(project.timezone))
        return QueryContext(project=project, cohorts=found, time=time)

    async def execute(
        self,
        context: QueryContext,
        build_query: Callable[[], Select],
        limits: QueryLimits = DEFAULT_LIMITS,
        texts: Sequence[NamedHogQL] = (),
    ) -> QueryResult:
        """Compile and run a query. `texts` is the HogQL in it, for error positions."""
        return await self.run(
            context, await self.compile(context, build_query, texts=texts), limits
        )

    async def compile(
        self,
        context: QueryContext,
        build_query: Callable[[], Select],
        rows: RowLimits = UNLIMITED_ROWS,
        texts: Sequence[NamedHogQL] = (),
    ) -> PrintedQuery:
        """Compile a query."""

        def work() -> PrintedQuery:
            try:
                return compile_query(build_query(), context, rows)
            except HogQLError as error:
                raise locate_error(error, texts, context) from None

        return await self.run_compilation(context, work)

    async def run_compilation(self, context: QueryContext, work: Callable[[], T]) -> T:
        """Parse or print in a thread, a few at a time: it takes up to 0.2 s, and each thread delays
        the event loop."""
        async with self._compile_limiter.acquire(context.project.id):
            return await run_in_thread(work)

    async def run(
        self, context: QueryContext, printed: PrintedQuery, limits: QueryLimits = DEFAULT_LIMITS
    ) -> QueryResult:
        async with self._limiter.acquire(context.project.id) as block:
            limits = replace(limits, on_abort=block)
            return await self._reader.read(printed.sql, printed.parameters, limits)

    async def run_shaped(
        self,
        context: QueryContext,
        printed: PrintedQuery,
        shape: Shape[T],
        limits: QueryLimits = DEFAULT_LIMITS,
    ) -> T:
        """Run a query whose columns the client has chosen, and return its result in `shape`."""
        async with self._limiter.acquire(context.project.id) as block:
            limits = replace(limits, on_abort=block)
            return await self._reader.read_shaped(printed.sql, printed.parameters, limits, shape)
