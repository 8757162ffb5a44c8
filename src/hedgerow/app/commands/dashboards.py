"""Open the insights and dashboards of an installation, to manage them as a file."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hedgerow.app.commands.state import open_state
from hedgerow.app.event_queries import DashboardServices, build_dashboards, build_event_queries
from hedgerow.app.event_store import LazyEventStore, event_store_location
from hedgerow.app.state import State, state_location
from hedgerow.dashboards.as_code import DashboardsAsCode
from hedgerow.dashboards.documents import DashboardDocuments
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.evaluation.flag_values import StoredFlagEvaluator
from hedgerow.lib.threads import run_in_thread
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.projects.model import ProjectId
from hedgerow.settings import Settings
from hedgerow.storage.dashboards.as_code import SqlDashboardDocumentStore
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.persons.person_scanner import WORKER_LIMITS, SqlPersonScanner


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardCommands:
    """Insights and dashboards of an installation, for commands."""

    state: State
    documents: DashboardDocuments


@asynccontextmanager
async def open_dashboards(settings: Settings) -> AsyncIterator[DashboardCommands]:
    """Open them with the checks of queries, which need no events."""
    workers = FunctionPool(WORKER_LIMITS)
    async with open_state(settings) as state:
        try:
            reading = build_event_queries(
                state.database,
                LazyEventStore(event_store_location(settings)),
                _do_not_wait,
                _do_not_wait,
                _do_not_wait,
                StoredFlagEvaluator(
                    FlagCache(SqlFlagStore(state.database), run_in_thread),
                    SqlPersonScanner(state_location(settings), workers),
                ),
            )
            services = build_dashboards(state.database, state.directory, reading, _has_none)
            yield DashboardCommands(
                state=state, documents=build_dashboard_documents(state.database, services)
            )
        finally:
            workers.close()


def build_dashboard_documents(
    database: Database, services: DashboardServices
) -> DashboardDocuments:
    store = SqlDashboardDocumentStore(database)
    return DashboardDocuments(DashboardsAsCode(store, services.insights, services.dashboards))


async def _has_none() -> bool:
    return False


async def _do_not_wait(*_: ProjectId) -> None:
    """Wait for no event: a check of queries reads none."""
