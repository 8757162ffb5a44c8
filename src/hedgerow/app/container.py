"""The object graph of a process, built in one place for `serve` and `worker` alike."""

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import structlog

from hedgerow.app.commands.people import People, build_people, check_login_settings
from hedgerow.app.delivery import DeliverySystem, LazyHttpClient, build_delivery
from hedgerow.app.event_queries import (
    AlertServices,
    DashboardServices,
    EventQueryServices,
    ExperimentServices,
    RolloutServices,
    SurveyServices,
    build_alerts,
    build_dashboards,
    build_event_queries,
    build_experiments,
    build_rollouts,
    build_surveys,
)
from hedgerow.app.event_store import LazyEventStore, event_store_location
from hedgerow.app.ingestion import (
    InboxShares,
    Ingestion,
    build_behavior_backfill,
    build_definition_upkeep,
    build_deletion,
    build_ingestion,
)
from hedgerow.app.jobs import JobSystem, build_jobs
from hedgerow.app.metrics import build_metrics
from hedgerow.app.periodic_tasks import TaskHealth
from hedgerow.app.pipelines import Pipelines, build_pipelines
from hedgerow.app.state import State, build_state, state_location
from hedgerow.definitions.definitions import DefinitionCatalogue
from hedgerow.definitions.relearn import DefinitionUpkeep
from hedgerow.events.behavior_backfill import BehaviorBackfill
from hedgerow.events.deletion import EventDeletion
from hedgerow.flags.evaluation.budget import EvaluationPacer
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.evaluation.flag_values import StoredFlagEvaluator
from hedgerow.http.server.metrics import Metrics
from hedgerow.http.server.refusals import Refusals
from hedgerow.lib.encryption import EncryptionKeys
from hedgerow.lib.threads import run_in_thread
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.outbound.geoip import GeoIp
from hedgerow.outbound.ssrf_guard import SsrfGuard
from hedgerow.outbound.telemetry import Telemetry
from hedgerow.persons.replication import Replicator
from hedgerow.pipelines.records.limits import EnabledLimits
from hedgerow.projects.model import ProjectId
from hedgerow.settings import Settings
from hedgerow.storage.connect import open_database
from hedgerow.storage.engine.database import Database
from hedgerow.storage.events.person_replicas import ClickHousePersonReplicas
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.ingestion.definitions import SqlDefinitionStore
from hedgerow.storage.persons.person_scanner import WORKER_LIMITS, SqlPersonScanner
from hedgerow.storage.persons.replication_queue import SqlReplicationQueue

if TYPE_CHECKING:
    from hedgerow.people.oidc.login import ProviderLogins

PROVIDER_MODULE = "hedgerow.app.commands.provider"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The services of one process. Fields are in the order in which they are built."""

    settings: Settings
    database: Database
    event_store: LazyEventStore
    geoip: GeoIp
    state: State
    people: People
    provider_http: LazyHttpClient
    provider_logins: "ProviderLogins | None"
    flag_store: SqlFlagStore
    flag_cache: FlagCache
    evaluation_pacer: EvaluationPacer
    pipelines: Pipelines
    delivery: DeliverySystem
    telemetry: Telemetry
    refusals: Refusals
    ingestion: Ingestion
    deletion: EventDeletion
    replication: Replicator
    jobs: JobSystem
    event_queries: EventQueryServices
    behaviors: BehaviorBackfill
    scan_workers: FunctionPool
    person_scanner: SqlPersonScanner
    definitions: DefinitionCatalogue
    definition_upkeep: DefinitionUpkeep
    surveys: SurveyServices
    experiments: ExperimentServices
    rollouts: RolloutServices
    dashboards: DashboardServices
    alerts: AlertServices
    task_health: TaskHealth
    metrics: Metrics

    async def close(self) -> None:
        """Close in reverse order: nothing is closed before the services that use it."""
        await self.dashboards.refresher.stop()
        await self.event_queries.queries.stop()
        await self.definition_upkeep.stop()
        self.ingestion.schema_workers.close()
        self.jobs.close()
        await self.ingestion.processor.stop()
        await self.delivery.close()
        await self.provider_http.close()
        self.pipelines.close()
        self.event_queries.workers.close()
        self.scan_workers.close()
        self.alerts.workers.close()
        await self.event_store.close()
        await self.ingestion.inbox.close()
        await self.database.close()


def build_container(settings: Settings, encryption_keys: EncryptionKeys) -> Container:
    """Build every service. An embedded event store is locked; nothing is read or written yet."""
    check_login_settings(settings)
    location = state_location(settings)
    event_store = LazyEventStore(event_store_location(settings), locks_at_once=location.is_sqlite)
    database = open_database(location)
    geoip = GeoIp(settings.geoip_file)
    state = build_state(database)
    scan_workers = FunctionPool(WORKER_LIMITS)
    scanner = SqlPersonScanner(location, scan_workers)
    flag_store = SqlFlagStore(database, scanner)
    flag_cache = FlagCache(flag_store, run_in_thread)
    evaluation_pacer = EvaluationPacer(_log_exceeded_budget)
    limits = EnabledLimits(
        destinations=settings.max_enabled_destinations,
        transformations=settings.max_enabled_transformations,
    )
    pipelines = build_pipelines(database, encryption_keys, limits)
    telemetry = Telemetry()
    delivery = build_delivery(settings, database, pipelines, telemetry.spans)
    refusals = Refusals()
    ingestion = build_ingestion(
        settings,
        state,
        event_store,
        geoip,
        pipelines.transformations,
        delivery.routing,
        InboxShares(
            has_several_projects=lambda: state.directory.project_count > 1,
            on_refusal=partial(refusals.count, "inbox"),
        ),
    )
    replication = build_replication(database, event_store)
    event_queries = build_event_queries(
        database,
        event_store,
        ingestion.read_barrier.wait_until_stored,
        partial(replication.wait_until_replicated, timeout_s=settings.read_after_write_timeout_s),
        ingestion.read_barrier.fetch_state,
        StoredFlagEvaluator(flag_cache, scanner),
    )
    behaviors = build_behavior_backfill(state, ingestion, event_store, event_queries.executor)
    task_health = TaskHealth()
    people = build_people(settings, database, state.directory, lambda: encryption_keys)
    provider_http = LazyHttpClient(SsrfGuard(allow_private=True))
    provider_logins: ProviderLogins | None = None
    if settings.oidc_issuer:
        provider_logins = import_module(PROVIDER_MODULE).build_provider_logins(
            settings,
            people,
            state.directory,
            encryption_keys,
            (provider_http, delivery.http),
        )
    return Container(
        settings=settings,
        database=database,
        event_store=event_store,
        geoip=geoip,
        state=state,
        people=people,
        provider_http=provider_http,
        provider_logins=provider_logins,
        flag_store=flag_store,
        flag_cache=flag_cache,
        evaluation_pacer=evaluation_pacer,
        pipelines=pipelines,
        delivery=delivery,
        telemetry=telemetry,
        refusals=refusals,
        ingestion=ingestion,
        deletion=build_deletion(database, event_store, ingestion, behaviors),
        replication=replication,
        jobs=build_jobs(settings, database, pipelines, delivery, ingestion),
        event_queries=event_queries,
        behaviors=behaviors,
        scan_workers=scan_workers,
        person_scanner=scanner,
        definitions=DefinitionCatalogue(SqlDefinitionStore(database)),
        definition_upkeep=build_definition_upkeep(
            state, ingestion, event_store, event_queries.workers
        ),
        surveys=build_surveys(database, flag_store, flag_cache, event_queries.executor),
        experiments=build_experiments(database, flag_store, flag_cache, event_queries),
        rollouts=build_rollouts(
            flag_store, flag_cache, event_queries.executor, state, lambda: encryption_keys
        ),
        dashboards=build_dashboards(
            database, state.directory, event_queries, ingestion.inbox.has_unprocessed
        ),
        alerts=build_alerts(
            settings,
            database,
            event_queries.queries,
            state.directory.get_project,
            pipelines.catalogue,
        ),
        task_health=task_health,
        metrics=build_metrics(
            database, ingestion, delivery, task_health, refusals, evaluation_pacer
        ),
    )


def _log_exceeded_budget(project_id: ProjectId) -> None:
    log.warning(
        "flag evaluation exceeded its budget",
        project_id=project_id,
        hint="Simplify regular expressions, or use fewer filters, cohorts and flags.",
    )


def build_replication(database: Database, events: LazyEventStore) -> Replicator:
    tables = ClickHousePersonReplicas(events.open_or_unavailable, lambda: events.is_open)
    return Replicator(SqlReplicationQueue(database), tables)
