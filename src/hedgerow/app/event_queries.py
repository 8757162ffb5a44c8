"""Services that query events: listings, HogQL queries, survey responses, experiment results."""

from dataclasses import dataclass
from datetime import timedelta

from hedgerow.app.event_store import LazyEventStore
from hedgerow.events.actions.actions import Actions
from hedgerow.events.listing.event_listing import EventListing
from hedgerow.events.listing.property_values import PropertyValues
from hedgerow.events.listing.select_listing import SelectListing
from hedgerow.events.query.executor import QueryDefinitions, QueryExecutor, ReadBarrier
from hedgerow.events.query.flag_values import FlagEvaluator
from hedgerow.events.query.limiter import QueryLimiter
from hedgerow.experiments.experiments import Experiments
from hedgerow.experiments.query_runners import ExperimentQueryRunner
from hedgerow.experiments.results import ExperimentAnalyzer
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.insights.actors import ActorsQueryRunner
from hedgerow.insights.funnels.runner import FunnelsQueryRunner
from hedgerow.insights.paths.runner import PathsQueryRunner
from hedgerow.insights.retention.runner import RetentionQueryRunner
from hedgerow.insights.trends.runner import TrendsQueryRunner
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import run_in_thread
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.lib.workers.pool import PoolLimits
from hedgerow.queries.cache import FetchState, Freshness
from hedgerow.queries.events_query import EventsQueryRunner
from hedgerow.queries.hogql_query import HogQLQueryRunner
from hedgerow.queries.queries import Queries
from hedgerow.storage.engine.database import Database
from hedgerow.storage.events.queries import ClickHouseEventReader
from hedgerow.storage.experiments import SqlExperimentStore
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.insights.actions import SqlActionStore
from hedgerow.storage.persons.cohorts import SqlCohortStore
from hedgerow.storage.persons.event_persons import SqlEventPersons
from hedgerow.storage.persons.persons import SqlPersonStore
from hedgerow.storage.surveys import SqlSurveyStore
from hedgerow.surveys.cache import SurveyCache
from hedgerow.surveys.responses import SurveyResponses
from hedgerow.surveys.surveys import Surveys

# How long a result is reused while nothing changes: queries about "now" grow stale.
MAX_AGE = timedelta(seconds=60)

# For the compilation of long queries and for large results. The QueryLimiter admits fewer of each
# than may wait.
WORKER_LIMITS = PoolLimits(
    max_processes=2,
    max_waiting=10,
    max_waiting_per_sender=5,
    timeout_s=15.0,
    max_memory_bytes=1536 << 20,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQueryServices:
    """`executor` runs every query. `freshness` and `fetch_state` say how long a cached result is
    valid."""

    executor: QueryExecutor
    actions: Actions
    workers: FunctionPool
    listing: EventListing
    select_listing: SelectListing
    property_values: PropertyValues
    queries: Queries
    freshness: Freshness
    fetch_state: FetchState


def build_event_queries(
    database: Database,
    events: LazyEventStore,
    arrived: ReadBarrier,
    mirrored: ReadBarrier,
    fetch_state: FetchState,
    flags: FlagEvaluator,
) -> EventQueryServices:
    workers = FunctionPool(WORKER_LIMITS)
    actions = SqlActionStore(database)
    reading = QueryExecutor(
        ClickHouseEventReader(events.open_or_unavailable, workers),
        QueryDefinitions(cohorts=SqlCohortStore(database), actions=actions, flags=flags),
        QueryLimiter(),
        arrived,
        mirrored,
        workers,
    )
    persons = SqlPersonStore(database)
    listing = EventListing(reading, SqlEventPersons(database), persons)
    selecting = SelectListing(reading, listing)
    freshness = Freshness(max_age=MAX_AGE)
    queries = Queries(
        HogQLQueryRunner(reading),
        EventsQueryRunner(selecting),
        freshness,
        fetch_state,
        reading.wait_until_readable,
        utc_now,
    )
    queries.register(
        {
            "TrendsQuery": TrendsQueryRunner(reading).prepare,
            "FunnelsQuery": FunnelsQueryRunner(reading).prepare,
            "RetentionQuery": RetentionQueryRunner(reading).prepare,
            "PathsQuery": PathsQueryRunner(reading).prepare,
            "ActorsQuery": ActorsQueryRunner(reading).prepare,
        }
    )
    return EventQueryServices(
        executor=reading,
        actions=Actions(actions, reading),
        workers=workers,
        listing=listing,
        select_listing=selecting,
        property_values=PropertyValues(reading),
        queries=queries,
        freshness=freshness,
        fetch_state=fetch_state,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyServices:
    cache: SurveyCache
    surveys: Surveys
    responses: SurveyResponses


def build_surveys(
    database: Database, flag_records: SqlFlagStore, flags: FlagCache, reading: QueryExecutor
) -> SurveyServices:
    records = SqlSurveyStore(database, flag_records)
    board = SurveyCache(records, run_in_thread)
    return SurveyServices(
        cache=board, surveys=Surveys(records, board, flags), responses=SurveyResponses(reading)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentServices:
    experiments: Experiments
    results: ExperimentAnalyzer


def build_experiments(
    database: Database, flag_records: SqlFlagStore, flags: FlagCache, reading: EventQueryServices
) -> ExperimentServices:
    """Build the services and register the experiment query kinds with the query endpoint."""
    experiments = Experiments(SqlExperimentStore(database, flag_records), flags)
    results = ExperimentAnalyzer(reading.executor, reading.freshness, reading.fetch_state)
    reading.queries.register(ExperimentQueryRunner(experiments, results).handlers())
    return ExperimentServices(experiments=experiments, results=results)
