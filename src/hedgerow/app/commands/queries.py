"""Run HogQL queries without a running service."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from hedgerow.app.commands.state import open_state
from hedgerow.app.container import build_replication
from hedgerow.app.event_queries import build_event_queries
from hedgerow.app.event_store import LazyEventStore, event_store_location
from hedgerow.app.state import State, state_location
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.evaluation.flag_values import StoredFlagEvaluator
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import run_in_thread
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.outbound.export_files import ExportFolder
from hedgerow.projects.model import Project, ProjectId
from hedgerow.queries.hogql_query import HogQLQuery, HogQLQueryRunner
from hedgerow.settings import Settings
from hedgerow.storage.events.folder_lock import FolderInUseError
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.persons.person_scanner import WORKER_LIMITS, SqlPersonScanner

__all__ = ["ExportFolder", "FolderInUseError", "QueryCommands", "open_queries"]

REPLICATION_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCommands:
    """Queries on the events of an installation, for commands."""

    state: State
    executor: QueryExecutor
    flag_cache: FlagCache
    scanner: SqlPersonScanner

    async def run(self, project: Project, text: str, values: Mapping[str, Any]) -> list[list[Any]]:
        """Return the rows of a HogQL query."""
        query = HogQLQuery(query=text, values=values, filters={}, explain=False)
        result = await HogQLQueryRunner(self.executor).run(project, query, utc_now())
        rows: list[list[Any]] = msgspec.json.decode(bytes(result.results))
        return rows


@asynccontextmanager
async def open_queries(settings: Settings) -> AsyncIterator[QueryCommands]:
    """Open the events. Raises FolderInUseError if another process has them open."""
    events = LazyEventStore(event_store_location(settings))
    workers = FunctionPool(WORKER_LIMITS)
    async with open_state(settings) as state:
        try:
            await events.open()
            wait_for_replicas = partial(
                build_replication(state.database, events).wait_until_replicated,
                timeout_s=REPLICATION_TIMEOUT_S,
            )
            flag_cache = FlagCache(SqlFlagStore(state.database), run_in_thread)
            scanner = SqlPersonScanner(state_location(settings), workers)
            reading = build_event_queries(
                state.database,
                events,
                _do_not_wait,
                wait_for_replicas,
                _do_not_wait,
                StoredFlagEvaluator(flag_cache, scanner),
            ).executor
            yield QueryCommands(
                state=state, executor=reading, flag_cache=flag_cache, scanner=scanner
            )
        finally:
            workers.close()
            await events.close()


async def _do_not_wait(*_: ProjectId) -> None:
    """Wait for no event: this process does not know what other processes have accepted."""
