"""The execution of queries: compile to SQL, wait for a free slot, run within limits.

All reads of events go through it: listings, `select`, property values and the query endpoint.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from hedgerow.errors import Invalid, Unavailable
from hedgerow.events.actions.model import ActionsById
from hedgerow.events.actions.store import ActionStore
from hedgerow.events.filters.behaviors import add_action_steps, names_actions
from hedgerow.events.filters.cohorts import CohortsById
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.events.query.context import (
    UNLIMITED_ROWS,
    NamedHogQL,
    QueryContext,
    compile_or_locate,
)
from hedgerow.events.query.flag_values import (
    MAX_FLAGS,
    MAX_KEY_BYTES,
    MAX_KEYS,
    FlagEvaluator,
    FlagValues,
    build_values,
    find_flag_keys,
)
from hedgerow.events.query.limiter import QueryLimiter
from hedgerow.events.store import EventReader, QueryLimits, QueryResult, Shape
from hedgerow.hogql.ast import Join, Select, SelectQuery
from hedgerow.hogql.builders import call, constant, field
from hedgerow.hogql.printer.statement import PrintedQuery, RowLimits
from hedgerow.lib import jsonio
from hedgerow.lib.threads import run_in_thread
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.lib.workers.pool import PoolFull
from hedgerow.lib.workers.process import WorkerDied
from hedgerow.persons.model import Cohort
from hedgerow.persons.store import CohortStore
from hedgerow.projects.model import Project, ProjectId

T = TypeVar("T")

TIMEOUT_S = 30.0
MAX_RESULT_BYTES = 16 << 20
MAX_COHORTS = 10_000
MAX_COMPILATIONS = 2
# Longer HogQL and filters are compiled in a worker process: 10 ms for each kilobyte.
MAX_INLINE_BYTES = 2 << 10

# The ways to name an action in a query.
_NAMES_ACTION = re.compile(rb'actionsnode|matchesaction|"actions"|"action_id"', re.IGNORECASE)
_TOO_COMPLEX = "The query is too complex. Use fewer conditions, or cohorts with fewer of them."

EventsBarrier = Callable[[ProjectId], Awaitable[None]]
ReplicaBarrier = Callable[[], Awaitable[None]]
PassBarriers = Callable[[ProjectId], AbstractAsyncContextManager[None]]

# Whether the current task has waited for what it reads.
_has_passed_barriers: ContextVar[bool] = ContextVar("has_passed_barriers", default=False)

DEFAULT_LIMITS = QueryLimits(timeout_s=TIMEOUT_S, max_rows=0, max_bytes=MAX_RESULT_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDefinitions:
    """What a query can refer to by id or name."""

    cohorts: CohortStore
    actions: ActionStore
    flags: FlagEvaluator


class QueryExecutor:
    """Runs queries. `events_barrier` waits until all accepted events of a project are readable,
    `replica_barrier` until persons, groups and cohorts are replicated."""

    def __init__(
        self,
        reader: EventReader,
        definitions: QueryDefinitions,
        limiter: QueryLimiter,
        events_barrier: EventsBarrier,
        replica_barrier: ReplicaBarrier,
        workers: FunctionPool,
    ) -> None:
        self._reader = reader
        self._definitions = definitions
        self._limiter = limiter
        self._compile_limiter = QueryLimiter(per_project=1, total=MAX_COMPILATIONS)
        self._events_barrier = events_barrier
        self._replica_barrier = replica_barrier
        self._workers = workers

    async def wait_until_readable(self, project_id: ProjectId) -> None:
        """Wait until all earlier events and changes of a project are readable."""
        await self._wait(project_id, has_documents=True)

    @asynccontextmanager
    async def pass_barriers(self, project_id: ProjectId) -> AsyncIterator[None]:
        """Wait until all earlier events and changes are readable. What is read inside does not wait
        again: while events arrive, each wait takes as long as the first one."""
        await self.wait_until_readable(project_id)
        token = _has_passed_barriers.set(True)
        try:
            yield
        finally:
            _has_passed_barriers.reset(token)

    async def _wait(self, project_id: ProjectId, *, has_documents: bool) -> None:
        if _has_passed_barriers.get():
            return
        await self._events_barrier(project_id)
        if has_documents:
            await self._replica_barrier()

    async def build_context(
        self, project: Project, now: datetime, documents: Sequence[Any] = ()
    ) -> QueryContext:
        """Wait until earlier events are readable, then build the context. `documents` are the
        filters and HogQL of the query: they decide whether persons and cohorts are needed."""
        await self._wait(project.id, has_documents=any(documents))
        context = await self.load_context(project, now, documents)
        if not context.flags:
            return context
        return replace(context, flags=await self._evaluate_flags(context))

    async def load_context(
        self, project: Project, now: datetime, documents: Sequence[Any]
    ) -> QueryContext:
        """Build the context of a query that is compiled and not run: flags have no values."""
        found: CohortsById = {}
        actions: ActionsById = {}
        encoded = jsonio.encode(documents)
        if _NAMES_ACTION.search(encoded):
            actions = {
                each.id: each for each in await self._definitions.actions.actions(project.id)
            }
            encoded += jsonio.encode([each.steps for each in actions.values()])
        if b"cohort" in encoded.lower():
            cohorts = self._definitions.cohorts
            listed, _ = await cohorts.cohorts(project.id, limit=MAX_COHORTS, offset=0)
            found = {each.id: each for each in await self.resolve_actions(project, listed)}
        return QueryContext(
            project=project,
            cohorts=found,
            time=QueryTime(
                now=now,
                zone=ZoneInfo(project.timezone),
                week_start=project.week_start_day,
            ),
            is_costly=bool(found) or len(encoded) > MAX_INLINE_BYTES,
            actions=actions,
            flags=await self._find_flags(project, encoded),
            reads_typed_columns=self._reader.reads_typed_columns,
        )

    async def resolve_actions(
        self, project: Project, cohorts: Sequence[Cohort]
    ) -> Sequence[Cohort]:
        """Return the cohorts with the steps of the actions that they count."""
        if not any(map(names_actions, cohorts)):
            return cohorts
        actions = await self._definitions.actions.actions(project.id)
        steps = {str(each.id): each.steps for each in actions}
        return [add_action_steps(each, steps) for each in cohorts]

    async def _find_flags(self, project: Project, encoded: bytes) -> Mapping[str, FlagValues]:
        keys = find_flag_keys(encoded)
        if len(keys) > MAX_FLAGS:
            raise Invalid(
                f"A query can have at most {MAX_FLAGS} flags.", code="query_limit_exceeded"
            )
        found = {}
        for number, key in enumerate(keys):
            columns = await self._definitions.flags.list_key_columns(project, key)
            if columns is not None:
                found[key] = build_values(number, columns, {})
        return found

    async def _evaluate_flags(self, context: QueryContext) -> Mapping[str, FlagValues]:
        """Evaluate the flags for what the events of the project have in their key columns."""
        keys_by_columns: dict[Sequence[str], Sequence[Sequence[str]]] = {}
        found = {}
        for number, (flag, values) in enumerate(context.flags.items()):
            columns = values.table.columns
            if not columns:
                found[flag] = values
                continue
            if columns not in keys_by_columns:
                keys_by_columns[columns] = await self._list_keys(context, columns)
            evaluated = await self._definitions.flags.evaluate(
                context.project, flag, keys_by_columns[columns], context.time.now
            )
            found[flag] = build_values(number, columns, evaluated)
        return found

    async def _list_keys(
        self, context: QueryContext, columns: Sequence[str]
    ) -> Sequence[Sequence[str]]:
        query = SelectQuery(
            select=[call("ifNull", field(name), constant("")) for name in columns],
            distinct=True,
            source=Join(table=field("events")),
            limit=constant(MAX_KEYS + 1),
        )
        limits = replace(DEFAULT_LIMITS, max_bytes=MAX_KEY_BYTES)
        rows = (await self.execute(context, lambda: query, limits)).rows
        if len(rows) > MAX_KEYS:
            detail = (
                f"The project has more than {MAX_KEYS:,} distinct ids, for which flag() would have "
                "to be evaluated. Use the property `$feature/<key>` of events instead."
            )
            raise Invalid(detail, code="query_limit_exceeded")
        return rows

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
        """Compile a query that the service has built."""
        work = partial(compile_or_locate, build_query, context, rows, texts)
        async with self._compile_limiter.acquire(context.project.id):
            return await run_in_thread(work)

    async def run_compilation(self, context: QueryContext, work: Callable[[], T]) -> T:
        """Parse and print what a client has sent: in a thread, or in a worker process if it may
        take long. `work` is a partial of a function of a module."""
        async with self._compile_limiter.acquire(context.project.id):
            if not context.is_costly:
                return await run_in_thread(work)
            try:
                return await self._workers.run(work, str(context.project.id))
            except PoolFull:
                raise Unavailable("Too many long queries are being compiled.") from None
            except WorkerDied:
                raise Invalid(_TOO_COMPLEX, code="query_limit_exceeded") from None

    async def run(
        self, context: QueryContext, printed: PrintedQuery, limits: QueryLimits = DEFAULT_LIMITS
    ) -> QueryResult:
        async with self._limiter.acquire(context.project.id) as block:
            limits = replace(limits, on_abort=block, sender=str(context.project.id))
            tables = _select_tables(context, printed)
            return await self._reader.read(printed.sql, printed.parameters, limits, tables)

    async def run_shaped(
        self,
        context: QueryContext,
        printed: PrintedQuery,
        shape: Shape[T],
        limits: QueryLimits = DEFAULT_LIMITS,
    ) -> T:
        """Run a query whose columns the client has chosen, and return its result in `shape`."""
        async with self._limiter.acquire(context.project.id) as block:
            limits = replace(limits, on_abort=block, sender=str(context.project.id))
            tables = _select_tables(context, printed)
            return await self._reader.read_shaped(
                printed.sql, printed.parameters, limits, shape, tables
            )


def _select_tables(context: QueryContext, printed: PrintedQuery) -> Mapping[str, bytes]:
    """Return the tables that must be sent with a query."""
    return {
        name: rows
        for each in context.flags.values()
        for name, rows in each.tables.rows.items()
        if name in printed.sent_tables
    }
