"""The HTTP side of the service: every endpoint, and the gateway in front of them."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.types import Scope

from hedgerow.app.commands.instance_status import InstanceStatusReader
from hedgerow.app.container import Container
from hedgerow.app.metrics import connection_gauges
from hedgerow.flags.early_access import EarlyAccessFeatures
from hedgerow.flags.evaluation.blast_radius import BlastRadiusCounter
from hedgerow.flags.evaluation.decide import Decider
from hedgerow.flags.evaluation.draft import DraftEvaluation
from hedgerow.flags.evaluation.person_search import PersonSearch
from hedgerow.flags.flags import Flags
from hedgerow.flags.history.past_evaluation import PastEvaluations
from hedgerow.flags.history.person_history import PersonHistory
from hedgerow.flags.local_evaluation.cache import LocalEvaluationCache
from hedgerow.flags.local_evaluation.etag_stream import EtagStreams
from hedgerow.flags.schedules.scheduled_changes import ScheduledChanges
from hedgerow.http.api.activity import ActivityEndpoints
from hedgerow.http.api.alerts.alerts import AlertEndpoints
from hedgerow.http.api.alerts.pictures import MessagePictureEndpoints, PictureEndpoints
from hedgerow.http.api.alerts.subscriptions import SubscriptionEndpoints
from hedgerow.http.api.cohorts import CohortEndpoints
from hedgerow.http.api.dashboards.annotations import AnnotationEndpoints
from hedgerow.http.api.dashboards.dashboards import DashboardEndpoints
from hedgerow.http.api.dashboards.insights import InsightEndpoints
from hedgerow.http.api.dashboards.sharing import SharedEndpoints, SharingEndpoints
from hedgerow.http.api.dead_letters import DeadLetterEndpoints
from hedgerow.http.api.definitions.actions import ActionEndpoints
from hedgerow.http.api.definitions.event_definitions import EventDefinitionEndpoints
from hedgerow.http.api.definitions.property_definitions import PropertyDefinitionEndpoints
from hedgerow.http.api.events import EventEndpoints
from hedgerow.http.api.experiments import ExperimentEndpoints
from hedgerow.http.api.flags.drafts import FlagDraftEndpoints
from hedgerow.http.api.flags.early_access import EarlyAccessEndpoints
from hedgerow.http.api.flags.evaluation import FlagEvaluationEndpoints
from hedgerow.http.api.flags.flags import FlagEndpoints
from hedgerow.http.api.flags.past_evaluation import PastEvaluationEndpoints
from hedgerow.http.api.flags.scheduled_changes import ScheduledChangeEndpoints
from hedgerow.http.api.flags.summary import FlagRenderer
from hedgerow.http.api.groups import GroupEndpoints
from hedgerow.http.api.ingestion_warnings import IngestionWarningEndpoints
from hedgerow.http.api.instance_status import InstanceStatusEndpoints
from hedgerow.http.api.people.account import AccountEndpoints, SessionEndpoints
from hedgerow.http.api.people.invites import InviteEndpoints
from hedgerow.http.api.people.keys import KeyEndpoints
from hedgerow.http.api.people.login import LoginEndpoints
from hedgerow.http.api.people.members import MemberEndpoints
from hedgerow.http.api.people.provider_login import ProviderLoginEndpoints
from hedgerow.http.api.people.users import UserEndpoints
from hedgerow.http.api.persons import PersonEndpoints
from hedgerow.http.api.pipelines.components import ComponentEndpoints
from hedgerow.http.api.pipelines.deliveries import DeliveryEndpoints
from hedgerow.http.api.pipelines.health import HealthEndpoints
from hedgerow.http.api.pipelines.jobs import JobEndpoints
from hedgerow.http.api.pipelines.record_actions import RecordActionEndpoints
from hedgerow.http.api.pipelines.record_items import RecordRenderer
from hedgerow.http.api.pipelines.records import PageCache, RecordEndpoints
from hedgerow.http.api.pipelines.transformations import TransformationEndpoints
from hedgerow.http.api.projects import ProjectEndpoints
from hedgerow.http.api.query import QueryEndpoints
from hedgerow.http.api.surveys import SurveyEndpoints
from hedgerow.http.auth.access import Authenticator
from hedgerow.http.call import CallContext
from hedgerow.http.console.console import ConsoleEndpoints, LoginMethods
from hedgerow.http.console.files import ConsoleFileCache
from hedgerow.http.endpoint import Handler
from hedgerow.http.openapi.docs import DocsEndpoints
from hedgerow.http.payload.body import BodyReader
from hedgerow.http.payload.body_memory import BodyMemory
from hedgerow.http.payload.limits import CAPTURE_LIMITS, DECIDE_LIMITS
from hedgerow.http.payload.reader import PayloadReader, PayloadServices
from hedgerow.http.payload.workers import PayloadWorkers
from hedgerow.http.routes import build_api, build_fast_routes, documented_endpoints
from hedgerow.http.sdk.capture import CaptureEndpoints
from hedgerow.http.sdk.decide import DecideEndpoints, IdentifyVisitor, LocateRequest
from hedgerow.http.sdk.early_access import PublicFeatureEndpoints
from hedgerow.http.sdk.local_evaluation import LocalEvaluationEndpoints
from hedgerow.http.sdk.ofrep import OfrepEndpoints
from hedgerow.http.sdk.remote_config import RemoteConfigEndpoints
from hedgerow.http.sdk.sdk_config import SdkConfigs
from hedgerow.http.sdk.sdk_stubs import RecordingEndpoints, ScriptEndpoints
from hedgerow.http.sdk.site_apps import SiteAppEndpoints
from hedgerow.http.sdk.stream import StreamEndpoints
from hedgerow.http.sdk.surveys import PublicSurveyEndpoints
from hedgerow.http.sdk.user_address import find_user_address
from hedgerow.http.server.access_log import AccessLog
from hedgerow.http.server.connections import (
    ConnectionTable,
    compute_max_connections,
    raise_file_limit,
)
from hedgerow.http.server.gateway import Gateway
from hedgerow.http.server.headers import read_header
from hedgerow.http.server.health import Readiness
from hedgerow.http.server.proxies import Origins
from hedgerow.http.server.request_queues import RequestQueues
from hedgerow.http.server.senders import Senders
from hedgerow.ingestion.cookieless.identity import Visitor
from hedgerow.ingestion.cookieless.resolve import CookielessVisitors
from hedgerow.ingestion.read_barrier import FreshEvaluationData
from hedgerow.lib.clock import utc_now
from hedgerow.lib.logs import is_human_readable
from hedgerow.lib.threads import run_in_thread
from hedgerow.outbound.geoip import GeoIp
from hedgerow.persons.cohorts import Cohorts
from hedgerow.pipelines.deliveries.destination_health import DestinationHealthCache
from hedgerow.pipelines.destinations.delivery_preview import DeliveryPreviews
from hedgerow.pipelines.jobs.jobs import Jobs
from hedgerow.pipelines.transformations.preview import TransformationPreviews
from hedgerow.projects.call_limits import CallLimits
from hedgerow.projects.model import ProjectId
from hedgerow.projects.rate_limit import API_RATE_LIMITS, SDK_RATE_LIMITS, RateLimiter
from hedgerow.settings import Settings
from hedgerow.storage.dashboards.insights import SqlInsightStore
from hedgerow.storage.deliveries.history import SqlDeliveryHistory
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags.early_access import SqlFeatureStore
from hedgerow.storage.flags.evaluation_context import SqlEvaluationDataStore
from hedgerow.storage.flags.history import SqlFlagHistory
from hedgerow.storage.flags.scheduled_changes import SqlScheduledChangeStore
from hedgerow.storage.ingestion.dead_letters import SqlDeadLetterStore
from hedgerow.storage.persons.cohorts import SqlCohortStore
from hedgerow.storage.persons.persons import SqlPersonStore
from hedgerow.storage.pipelines.health import SqlPipelineHealthStore
from hedgerow.storage.pipelines.import_states import SqlImportStore
from hedgerow.storage.pipelines.jobs import SqlJobStore
from hedgerow.storage.pipelines.records import SqlRecordStore
from hedgerow.storage.pipelines.transformation_counts import SqlTransformationHistory
from hedgerow.storage.projects.activity import SqlActivityStore
from hedgerow.storage.projects.deletions import SqlProjectDeletions

DECIDE_BYTES = 1024 * 1024
CAPTURE_BYTES = 20 * 1024 * 1024


class HttpServices:
    """The services that only the HTTP API needs; endpoints share them. Fields are in the order in
    which they are built."""

    def __init__(self, container: Container, stopping: asyncio.Event) -> None:
        settings, database = container.settings, container.database
        flag_cache, pipelines = container.flag_cache, container.pipelines
        self.stopping = stopping
        self.activity = SqlActivityStore(database)
        self.persons = SqlPersonStore(database)
        self.public_records = SqlRecordStore(database)
        evaluation_data = FreshEvaluationData(
            SqlEvaluationDataStore(database),
            container.ingestion.progress,
            container.ingestion.watch,
            timeout_s=settings.read_after_write_timeout_s,
        )
        self.flag_drafts = DraftEvaluation(flag_cache, evaluation_data, self.persons)
        self.past_evaluations = PastEvaluations(
            SqlFlagHistory(database),
            PersonHistory(container.event_queries.executor),
            evaluation_data,
            self.persons,
        )
        self.decider = Decider(
            flag_cache,
            evaluation_data,
            container.evaluation_pacer,
        )
        self.flags = Flags(container.flag_store, flag_cache, pipelines.encryption_keys)
        self.early_access = EarlyAccessFeatures(
            SqlFeatureStore(database, container.flag_store), flag_cache
        )
        scanner = container.person_scanner
        self.blast_radius = BlastRadiusCounter(flag_cache, scanner, run_in_thread)
        self.person_search = PersonSearch(flag_cache, self.persons, scanner, run_in_thread)
        self.local_evaluation = LocalEvaluationCache(flag_cache, run_in_thread)
        self.sdk_configs = SdkConfigs(
            self.public_records, pipelines.catalogue, container.surveys.cache.has_running
        )
        self.destination_health = DestinationHealthCache(container.delivery.records, utc_now)
        self.page_cache = PageCache()
        self.origins = Origins(settings.trusted_proxies, settings.public_url)
        self.call_limits = CallLimits(
            project_calls_per_s=settings.project_calls_per_s,
            project_events_per_s=settings.project_events_per_s,
            address_calls_per_s=settings.address_calls_per_s,
            on_refusal=container.refusals.count,
        )
        self.payload_workers = PayloadWorkers()
        self.body_memory = BodyMemory()
        self.sdk_rate_limiter = RateLimiter(SDK_RATE_LIMITS if settings.rate_limits_enabled else ())
        self.authenticator = Authenticator(
            CallContext(
                directory=container.state.directory,
                bodies=BodyReader(
                    settings.max_body_bytes,
                    settings.request_read_timeout_s,
                    self.body_memory,
                    self.origins,
                ),
                origins=self.origins,
                clock=utc_now,
            ),
            RateLimiter(API_RATE_LIMITS if settings.rate_limits_enabled else ()),
            self.sdk_rate_limiter,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpEdge:
    """The gateway, with the services that the background tasks keep up to date."""

    gateway: Gateway
    readiness: Readiness
    log: AccessLog
    call_limits: CallLimits
    sdk_configs: SdkConfigs
    destination_health: DestinationHealthCache
    payload_workers: PayloadWorkers


def build_http(container: Container) -> HttpEdge:
    services = HttpServices(container, asyncio.Event())
    readiness = Readiness(lambda: _ping(container.database))
    settings = container.settings
    log = AccessLog(
        sys.stderr,
        for_people=is_human_readable(settings.log_format, sys.stderr),
        enabled=settings.log_level in ("debug", "info"),
    )
    open_connections = build_connection_table(settings, services.origins)
    queues = RequestQueues(
        lambda name, number: container.refusals.count(f"overload_{name}", None, number)
    )
    container.metrics.add_gauges(lambda: connection_gauges(open_connections, queues))
    gateway = Gateway(
        build_fast_routes(
            [*_build_sdk_endpoints(container, services), readiness, container.metrics]
        ),
        _build_api(container, services),
        readiness=readiness,
        metrics=container.metrics,
        log=log,
        open_connections=open_connections,
        queues=queues,
        senders=Senders(services.origins, container.state.directory.find_project_id),
        admit_client=lambda scope: services.call_limits.admit_address(
            services.origins.client(scope).group
        ),
        stopping=services.stopping,
    )
    return HttpEdge(
        gateway=gateway,
        readiness=readiness,
        log=log,
        call_limits=services.call_limits,
        sdk_configs=services.sdk_configs,
        destination_health=services.destination_health,
        payload_workers=services.payload_workers,
    )


def build_connection_table(settings: Settings, origins: Origins) -> ConnectionTable:
    """Raise the file limit of this process, and limit connections so that some files are left."""
    possible = compute_max_connections(raise_file_limit(), settings.database_pool_size)
    return ConnectionTable(min(settings.max_connections or possible, possible), origins.is_proxy)


def _build_sdk_endpoints(container: Container, services: HttpServices) -> list[Handler]:
    directory, timeout_s = container.state.directory, container.settings.request_read_timeout_s
    shared = PayloadServices(
        directory=directory,
        origins=services.origins,
        workers=services.payload_workers,
        memory=services.body_memory,
        timeout_s=timeout_s,
    )
    payloads = PayloadReader(shared, DECIDE_LIMITS, max_bytes=DECIDE_BYTES)
    capture_payloads = PayloadReader(
        shared, CAPTURE_LIMITS, max_bytes=CAPTURE_BYTES, is_lenient=True
    )
    locate = _build_locator(container.geoip, services.origins)
    decider, limits = services.decider, services.call_limits
    return [
        DecideEndpoints(
            directory,
            decider,
            services.sdk_configs,
            payloads,
            locate,
            _build_visitor_ids(container.ingestion.cookieless, services.origins),
            utc_now,
            limits,
        ),
        OfrepEndpoints(directory, decider, payloads, locate, utc_now, limits),
        LocalEvaluationEndpoints(directory, services.local_evaluation, services.sdk_rate_limiter),
        CaptureEndpoints(
            directory,
            container.ingestion.capture,
            capture_payloads,
            services.origins,
            utc_now,
            limits,
        ),
        RecordingEndpoints(max_bytes=CAPTURE_BYTES, timeout_s=timeout_s),
        PublicFeatureEndpoints(directory, services.early_access),
        PublicSurveyEndpoints(directory, container.surveys.cache),
    ]


def _build_api(container: Container, services: HttpServices) -> Starlette:
    endpoints, settings = documented_endpoints(), container.settings
    files = ConsoleFileCache()
    handlers: list[Handler] = [
        ConsoleEndpoints(
            files,
            LoginMethods(
                password=settings.password_login,
                reset=settings.password_login and container.people.outbox.is_enabled,
                provider=settings.oidc_name if settings.oidc_issuer else "",
            ),
        ),
        DocsEndpoints(endpoints, files),
        *_build_project_endpoints(container, services),
        *_build_flag_endpoints(container, services),
        *_build_event_endpoints(container, services),
        *_build_dashboard_endpoints(container, services),
        *_build_pipeline_endpoints(container, services),
        *_build_alert_endpoints(container, services),
    ]
    return build_api(handlers, services.authenticator)


def _build_project_endpoints(container: Container, services: HttpServices) -> list[Handler]:
    state = container.state
    return [
        ProjectEndpoints(
            directory=state.directory,
            projects=state.projects,
            deletions=SqlProjectDeletions(container.database),
        ),
        KeyEndpoints(directory=state.directory, keys=state.keys),
        UserEndpoints(state.directory),
        *_build_people_endpoints(container),
        ActivityEndpoints(activity=services.activity),
        InstanceStatusEndpoints(InstanceStatusReader(container).read),
    ]


def _build_people_endpoints(container: Container) -> list[Handler]:
    directory, people = container.state.directory, container.people
    return [
        LoginEndpoints(
            logins=people.logins,
            members=people.members,
            outbox=people.outbox,
            has_passwords=container.settings.password_login,
        ),
        ProviderLoginEndpoints(container.provider_logins),
        SessionEndpoints(directory=directory, logins=people.logins),
        AccountEndpoints(directory=directory, logins=people.logins, members=people.members),
        MemberEndpoints(directory=directory, logins=people.logins, members=people.members),
        InviteEndpoints(members=people.members, outbox=people.outbox),
    ]


def _build_flag_endpoints(container: Container, services: HttpServices) -> list[Handler]:
    state = container.state
    flag_renderer = FlagRenderer(
        services.early_access, container.experiments.experiments, container.surveys.cache
    )
    streams = EtagStreams(container.flag_cache, services.local_evaluation, services.stopping)
    return [
        FlagEndpoints(
            activity=services.activity,
            flag_renderer=flag_renderer,
            flags=services.flags,
            surveys=container.surveys.surveys,
        ),
        FlagEvaluationEndpoints(
            blast_radius=services.blast_radius,
            decider=services.decider,
            flags=services.flags,
            local_evaluation_cache=services.local_evaluation,
        ),
        FlagDraftEndpoints(services.flag_drafts),
        ScheduledChangeEndpoints(
            services.activity,
            ScheduledChanges(SqlScheduledChangeStore(container.database, container.flag_store)),
        ),
        PastEvaluationEndpoints(services.past_evaluations),
        EarlyAccessEndpoints(activity=services.activity, early_access=services.early_access),
        SurveyEndpoints(
            activity=services.activity,
            responses=container.surveys.responses,
            surveys=container.surveys.surveys,
        ),
        ExperimentEndpoints(
            activity=services.activity,
            directory=state.directory,
            experiments=container.experiments.experiments,
            flag_renderer=flag_renderer,
            results=container.experiments.results,
        ),
        StreamEndpoints(streams),
        RemoteConfigEndpoints(state.directory, services.sdk_configs),
    ]


def _build_event_endpoints(container: Container, services: HttpServices) -> list[Handler]:
    queries = container.event_queries
    cohorts = Cohorts(SqlCohortStore(container.database))
    return [
        EventDefinitionEndpoints(
            activity=services.activity,
            definitions=container.definitions,
            directory=container.state.directory,
            schema_workers=container.ingestion.schema_workers,
        ),
        PropertyDefinitionEndpoints(activity=services.activity, definitions=container.definitions),
        EventEndpoints(
            deletion=container.deletion,
            event_listing=queries.listing,
            persons=services.persons,
            select_listing=queries.select_listing,
            property_values=queries.property_values,
        ),
        ActionEndpoints(actions=queries.actions, activity=services.activity),
        QueryEndpoints(queries=queries.queries, results=container.dashboards.results),
        PersonEndpoints(
            cohorts=cohorts,
            deletion=container.deletion,
            persons=services.persons,
            read_barrier=container.ingestion.read_barrier,
            search=services.person_search,
        ),
        GroupEndpoints(
            flags=services.flags,
            persons=services.persons,
            read_barrier=container.ingestion.read_barrier,
        ),
        CohortEndpoints(activity=services.activity, cohorts=cohorts, flags=services.flags),
        IngestionWarningEndpoints(warnings=container.ingestion.warnings),
        DeadLetterEndpoints(SqlDeadLetterStore(container.database)),
    ]


def _build_dashboard_endpoints(container: Container, services: HttpServices) -> list[Handler]:
    kept = container.dashboards
    return [
        InsightEndpoints(activity=services.activity, insights=kept.insights, results=kept.results),
        DashboardEndpoints(
            activity=services.activity,
            dashboards=kept.dashboards,
            results=kept.results,
            links=kept.links,
        ),
        AnnotationEndpoints(activity=services.activity, annotations=kept.annotations),
        SharingEndpoints(insights=kept.insights, dashboards=kept.dashboards, sharing=kept.sharing),
        SharedEndpoints(
            sharing=kept.sharing,
            insights=kept.insights,
            dashboards=kept.dashboards,
            results=kept.results,
            limits=services.call_limits,
            rate_limiter=services.sdk_rate_limiter,
        ),
    ]


def _build_pipeline_endpoints(container: Container, services: HttpServices) -> list[Handler]:
    settings, database, pipelines = container.settings, container.database, container.pipelines
    record_renderer = RecordRenderer(pipelines.records, services.destination_health)
    scripts = Path(settings.sdk_scripts_dir) if settings.sdk_scripts_dir else None
    return [
        ComponentEndpoints(catalogue=pipelines.catalogue),
        RecordEndpoints(
            destination_health=services.destination_health,
            page_cache=services.page_cache,
            records=pipelines.records,
            renderer=record_renderer,
        ),
        RecordActionEndpoints(
            activity=services.activity, records=pipelines.records, renderer=record_renderer
        ),
        DeliveryEndpoints(
            deliveries=SqlDeliveryHistory(database),
            records=pipelines.records,
            delivery_preview=DeliveryPreviews(pipelines.records, container.delivery.clients),
        ),
        HealthEndpoints(
            backlogs=container.delivery.backlogs,
            deliveries=SqlDeliveryHistory(database),
            destination_health=services.destination_health,
            health=SqlPipelineHealthStore(database),
            records=pipelines.records,
        ),
        JobEndpoints(
            jobs=Jobs(SqlJobStore(database), services.activity),
            records=pipelines.records,
            schedules=SqlImportStore(database),
        ),
        TransformationEndpoints(
            records=pipelines.records,
            transformation_preview=TransformationPreviews(
                pipelines.records, pipelines.preview_transformations
            ),
            transformation_metrics=SqlTransformationHistory(database),
        ),
        SiteAppEndpoints(services.public_records, pipelines.catalogue),
        ScriptEndpoints(scripts),
    ]


def _build_alert_endpoints(container: Container, services: HttpServices) -> list[Handler]:
    alerts = container.alerts
    return [
        AlertEndpoints(activity=services.activity, alerts=alerts.alerts),
        SubscriptionEndpoints(activity=services.activity, subscriptions=alerts.subscriptions),
        PictureEndpoints(
            insights=SqlInsightStore(container.database),
            pictures=alerts.pictures,
        ),
        MessagePictureEndpoints(alerts.subscription_store),
    ]


def _build_locator(geoip: GeoIp, origins: Origins) -> LocateRequest | None:
    def locate(scope: Scope, body: Mapping[str, Any]) -> Mapping[str, str]:
        address = find_user_address(scope, body, origins)
        return geoip.properties(address) if address else {}

    return locate if geoip.is_available else None


def _build_visitor_ids(cookieless: CookielessVisitors, origins: Origins) -> IdentifyVisitor:
    """Events of the same page have the same data in other places, so they get the same id."""

    async def identify(project_id: ProjectId, scope: Scope, body: Mapping[str, Any]) -> str:
        extra = body.get("cookieless_hash_extra")
        visitor = Visitor(
            ip=origins.client(scope).text,
            host=read_header(scope, b"origin"),
            user_agent=read_header(scope, b"user-agent"),
            extra=extra if isinstance(extra, str) else "",
        )
        now = utc_now()
        return await cookieless.find_distinct_id(project_id, visitor, body.get("timezone"), now)

    return identify


async def _ping(database: Database) -> None:
    await database.version()
