"""Services that query events: listings, HogQL queries, survey responses, experiment results, and
the kept results of insights and dashboards.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from hedgerow.alerts.alerts import Alerts
from hedgerow.alerts.checker import AlertChecker, FindProject
from hedgerow.app.event_store import LazyEventReader, LazyEventStore
from hedgerow.app.state import State
from hedgerow.dashboards.annotations import Annotations
from hedgerow.dashboards.dashboards import Dashboards
from hedgerow.dashboards.refresher import Refresher
from hedgerow.dashboards.results import InsightResults
from hedgerow.dashboards.saved_insights import SavedInsights
from hedgerow.dashboards.sharing import Sharing
from hedgerow.events.actions.actions import Actions
from hedgerow.events.listing.event_listing import EventListing
from hedgerow.events.listing.property_values import PropertyValues
from hedgerow.events.listing.select_listing import SelectListing
from hedgerow.events.query.executor import (
    EventsBarrier,
    QueryDefinitions,
    QueryExecutor,
    ReplicaBarrier,
)
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
from hedgerow.lib.encryption import Cipher
from hedgerow.lib.threads import run_in_thread
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.lib.workers.pool import PoolLimits
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.model import ComponentId
from hedgerow.projects.directory import Directory
from hedgerow.queries.cache import FetchState, Freshness
from hedgerow.queries.events_query import EventsQueryRunner
from hedgerow.queries.hogql_query import HogQLQueryRunner
from hedgerow.queries.queries import Queries
from hedgerow.rollouts.bandits.bandits import Bandits
from hedgerow.rollouts.bandits.runner import BanditRunner
from hedgerow.rollouts.rollout_plans import RolloutPlans
from hedgerow.rollouts.runner import RolloutRunner
from hedgerow.settings import Settings
from hedgerow.storage.alerts.alerts import SqlAlertStore
from hedgerow.storage.alerts.subscriptions import SqlSubscriptionStore
from hedgerow.storage.dashboards.actions import SqlActionStore
from hedgerow.storage.dashboards.annotations import SqlAnnotationStore
from hedgerow.storage.dashboards.dashboards import SqlDashboardStore
from hedgerow.storage.dashboards.insights import SqlInsightStore
from hedgerow.storage.dashboards.results import SqlResultStore
from hedgerow.storage.dashboards.shared_links import SqlSharedLinkStore
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags.experiments import SqlExperimentStore
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.flags.rollouts.bandits import SqlBanditStore
from hedgerow.storage.flags.rollouts.rollout_plans import SqlRolloutPlanStore
from hedgerow.storage.flags.surveys import SqlSurveyStore
from hedgerow.storage.persons.cohorts import SqlCohortStore
from hedgerow.storage.persons.event_persons import SqlEventPersons
from hedgerow.storage.persons.persons import SqlPersonStore
from hedgerow.subscriptions.pictures import WORKER_LIMITS as PICTURE_LIMITS
from hedgerow.subscriptions.pictures import ChartPictures
from hedgerow.subscriptions.sender import SubscriptionSender
from hedgerow.subscriptions.subscriptions import Subscriptions
from hedgerow.surveys.cache import SurveyCache
from hedgerow.surveys.responses import SurveyResponses
from hedgerow.surveys.surveys import Surveys

_log = structlog.get_logger("hedgerow.dashboards")

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
    arrived: EventsBarrier,
    mirrored: ReplicaBarrier,
    fetch_state: FetchState,
    flags: FlagEvaluator,
) -> EventQueryServices:
    workers = FunctionPool(WORKER_LIMITS)
    actions = SqlActionStore(database)
    reading = QueryExecutor(
        LazyEventReader(events, workers, lambda: events.reads_typed_columns),
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
        reading.pass_barriers,
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
    store = SqlExperimentStore(database, flag_records)
    experiments = Experiments(store, flags, SqlActionStore(database))
    results = ExperimentAnalyzer(reading.executor, reading.freshness, reading.fetch_state)
    reading.queries.register(ExperimentQueryRunner(experiments, results).handlers())
    return ExperimentServices(experiments=experiments, results=results)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutServices:
    plans: RolloutPlans
    runner: RolloutRunner
    bandits: Bandits
    bandit_runner: BanditRunner


def build_rollouts(
    flag_records: SqlFlagStore,
    flags: FlagCache,
    reading: QueryExecutor,
    state: State,
    load_cipher: Callable[[], Cipher],
) -> RolloutServices:
    store = SqlRolloutPlanStore(state.database, flag_records)
    bandits = SqlBanditStore(state.database, flag_records)
    experiments = SqlExperimentStore(state.database, flag_records)
    return RolloutServices(
        plans=RolloutPlans(store, reading, flags, load_cipher),
        runner=RolloutRunner(store, reading, flags, state.directory, load_cipher, utc_now),
        bandits=Bandits(bandits, experiments, reading, flags, load_cipher),
        bandit_runner=BanditRunner(bandits, reading, flags, state.directory, load_cipher, utc_now),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardServices:
    """`refresher` computes results in this process."""

    result_store: SqlResultStore
    refresher: Refresher
    results: InsightResults
    insights: SavedInsights
    dashboards: Dashboards
    annotations: Annotations
    links: SqlSharedLinkStore
    sharing: Sharing


def build_dashboards(
    database: Database,
    directory: Directory,
    reading: EventQueryServices,
    has_unprocessed: Callable[[], Awaitable[bool]],
) -> DashboardServices:
    store, links = SqlResultStore(database, has_unprocessed), SqlSharedLinkStore(database)
    executor = reading.executor
    refresher = Refresher(
        store, reading.queries, executor.pass_barriers, directory.get_project, _log_failure, utc_now
    )
    results = InsightResults(
        store, reading.queries, refresher, executor.wait_until_readable, utc_now
    )
    return DashboardServices(
        result_store=store,
        refresher=refresher,
        results=results,
        insights=SavedInsights(SqlInsightStore(database), results),
        dashboards=Dashboards(SqlDashboardStore(database), results),
        annotations=Annotations(SqlAnnotationStore(database)),
        links=links,
        sharing=Sharing(links),
    )


def _log_failure(error: BaseException) -> None:
    _log.error("the result of an insight could not be computed", exc_info=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertServices:
    """`workers` draw pictures."""

    alerts: Alerts
    checker: AlertChecker
    workers: FunctionPool
    pictures: ChartPictures
    subscription_store: SqlSubscriptionStore
    subscriptions: Subscriptions
    sender: SubscriptionSender


def build_alerts(
    settings: Settings,
    database: Database,
    queries: Queries,
    find_project: FindProject,
    catalogue: Catalogue,
) -> AlertServices:
    alerts, subscriptions = SqlAlertStore(database), SqlSubscriptionStore(database)
    workers = FunctionPool(PICTURE_LIMITS)
    pictures = ChartPictures(queries.execute, workers, utc_now)

    def find_key(id: ComponentId) -> str | None:
        component = catalogue.component(id)
        return component.key if component else None

    return AlertServices(
        alerts=Alerts(alerts),
        checker=AlertChecker(alerts, queries.execute, find_project, utc_now),
        workers=workers,
        pictures=pictures,
        subscription_store=subscriptions,
        subscriptions=Subscriptions(subscriptions, find_key),
        sender=SubscriptionSender(
            subscriptions, pictures, find_project, utc_now, public_url=settings.public_url
        ),
    )
