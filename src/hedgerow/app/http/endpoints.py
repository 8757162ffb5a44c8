"""Builds the endpoints of the service, by area."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.types import Scope

from hedgerow.app.commands.dashboards import build_dashboard_documents
from hedgerow.app.commands.flags import Environments, build_environments
from hedgerow.app.commands.instance_status import InstanceStatusReader
from hedgerow.app.container import Container
from hedgerow.app.http.services import HttpServices
from hedgerow.definitions.as_code import DefinitionsAsCode
from hedgerow.definitions.documents import DefinitionDocuments
from hedgerow.events.cohort_preview import CohortCounter
from hedgerow.experiments.holdouts import Holdouts
from hedgerow.flags.approvals.approval_policies import ApprovalPolicies
from hedgerow.flags.environments.copies import FlagCopies
from hedgerow.flags.environments.promotion_requests import PromotionRequests
from hedgerow.flags.local_evaluation.etag_stream import PAGE_STREAMS, EtagStreams
from hedgerow.flags.schedules.scheduled_changes import ScheduledChanges
from hedgerow.http.api.activity import ActivityEndpoints
from hedgerow.http.api.alerts.alerts import AlertEndpoints
from hedgerow.http.api.alerts.pictures import MessagePictureEndpoints, PictureEndpoints
from hedgerow.http.api.alerts.subscriptions import SubscriptionEndpoints
from hedgerow.http.api.cohorts import CohortEndpoints, CohortPreviewEndpoints
from hedgerow.http.api.dashboards.annotations import AnnotationEndpoints
from hedgerow.http.api.dashboards.dashboards import DashboardEndpoints
from hedgerow.http.api.dashboards.insights import InsightEndpoints
from hedgerow.http.api.dashboards.sharing import SharedEndpoints, SharingEndpoints
from hedgerow.http.api.dead_letters import DeadLetterEndpoints
from hedgerow.http.api.definitions.actions import ActionEndpoints
from hedgerow.http.api.definitions.event_definitions import EventDefinitionEndpoints
from hedgerow.http.api.definitions.property_definitions import PropertyDefinitionEndpoints
from hedgerow.http.api.environments.documents import ProductDocumentEndpoints
from hedgerow.http.api.environments.matrix import MatrixEndpoints
from hedgerow.http.api.environments.organization_flags import OrganizationFlagEndpoints
from hedgerow.http.api.environments.products import ProductEndpoints, ProductFinder
from hedgerow.http.api.environments.promote import PromotionEndpoints
from hedgerow.http.api.events import EventEndpoints
from hedgerow.http.api.experiments import ExperimentEndpoints
from hedgerow.http.api.flags.approval_policies import ApprovalPolicyEndpoints
from hedgerow.http.api.flags.bandits import BanditEndpoints
from hedgerow.http.api.flags.change_requests import ChangeRequestEndpoints
from hedgerow.http.api.flags.code_references import CodeReferenceEndpoints
from hedgerow.http.api.flags.drafts import FlagDraftEndpoints
from hedgerow.http.api.flags.early_access import EarlyAccessEndpoints
from hedgerow.http.api.flags.evaluation import FlagEvaluationEndpoints
from hedgerow.http.api.flags.flags import FlagEndpoints
from hedgerow.http.api.flags.holdouts import HoldoutEndpoints
from hedgerow.http.api.flags.past_evaluation import PastEvaluationEndpoints
from hedgerow.http.api.flags.rollout_plans import RolloutPlanEndpoints
from hedgerow.http.api.flags.scheduled_changes import ScheduledChangeEndpoints
from hedgerow.http.api.flags.summary import FlagRenderer
from hedgerow.http.api.flags.what_if import WhatIfEndpoints
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
from hedgerow.http.api.pipelines.records import RecordEndpoints
from hedgerow.http.api.pipelines.transformations import TransformationEndpoints
from hedgerow.http.api.projects import ProjectEndpoints
from hedgerow.http.api.query import QueryEndpoints
from hedgerow.http.api.surveys import SurveyEndpoints
from hedgerow.http.documents import DocumentEndpoints
from hedgerow.http.endpoint import Handler
from hedgerow.http.payload.limits import CAPTURE_LIMITS, DECIDE_LIMITS
from hedgerow.http.payload.reader import PayloadReader, PayloadServices
from hedgerow.http.sdk.capture import CaptureEndpoints
from hedgerow.http.sdk.decide import DecideEndpoints, IdentifyVisitor, LocateRequest
from hedgerow.http.sdk.early_access import PublicFeatureEndpoints
from hedgerow.http.sdk.edge import EdgeEndpoints
from hedgerow.http.sdk.local_evaluation import LocalEvaluationEndpoints
from hedgerow.http.sdk.ofrep import OfrepEndpoints
from hedgerow.http.sdk.ofrep_stream import OfrepStreamEndpoints
from hedgerow.http.sdk.remote_config import RemoteConfigEndpoints
from hedgerow.http.sdk.sdk_stubs import RecordingEndpoints, ScriptEndpoints
from hedgerow.http.sdk.site_apps import SiteAppEndpoints
from hedgerow.http.sdk.stream import StreamEndpoints
from hedgerow.http.sdk.surveys import PublicSurveyEndpoints
from hedgerow.http.sdk.user_address import find_user_address
from hedgerow.http.server.headers import read_header
from hedgerow.http.server.proxies import Origins
from hedgerow.ingestion.cookieless.identity import Visitor
from hedgerow.ingestion.cookieless.resolve import CookielessVisitors
from hedgerow.lib.clock import utc_now
from hedgerow.outbound.geoip import GeoIp
from hedgerow.persons.cohorts import Cohorts
from hedgerow.pipelines.destinations.delivery_preview import DeliveryPreviews
from hedgerow.pipelines.jobs.jobs import Jobs
from hedgerow.pipelines.records.documents import RecordDocuments
from hedgerow.pipelines.transformations.preview import TransformationPreviews
from hedgerow.projects.model import ProjectId
from hedgerow.storage.dashboards.insights import SqlInsightStore
from hedgerow.storage.deliveries.history import SqlDeliveryHistory
from hedgerow.storage.flags.code_references import SqlCodeReferenceStore
from hedgerow.storage.flags.holdouts import SqlHoldoutStore
from hedgerow.storage.flags.scheduled_changes import SqlScheduledChangeStore
from hedgerow.storage.ingestion.dead_letters import SqlDeadLetterStore
from hedgerow.storage.ingestion.definitions import SqlDefinitionStore
from hedgerow.storage.persons.behaviors import SqlBehaviorStore
from hedgerow.storage.persons.cohorts import SqlCohortStore
from hedgerow.storage.pipelines.health import SqlPipelineHealthStore
from hedgerow.storage.pipelines.import_states import SqlImportStore
from hedgerow.storage.pipelines.jobs import SqlJobStore
from hedgerow.storage.pipelines.transformation_counts import SqlTransformationHistory
from hedgerow.storage.projects.deletions import SqlProjectDeletions

DECIDE_BYTES = 1024 * 1024
CAPTURE_BYTES = 20 * 1024 * 1024


def build_sdk_endpoints(container: Container, services: HttpServices) -> list[Handler]:
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
            services.spans,
        ),
        RecordingEndpoints(max_bytes=CAPTURE_BYTES, timeout_s=timeout_s),
        PublicFeatureEndpoints(directory, services.early_access),
        PublicSurveyEndpoints(directory, container.surveys.cache),
    ]


def build_api_endpoints(container: Container, services: HttpServices) -> list[Handler]:
    return [
        *_build_project_endpoints(container, services),
        *_build_flag_endpoints(container, services),
        *_build_event_endpoints(container, services),
        *_build_dashboard_endpoints(container, services),
        *_build_pipeline_endpoints(container, services),
        *_build_alert_endpoints(container, services),
    ]


def _build_project_endpoints(container: Container, services: HttpServices) -> list[Handler]:
    state = container.state
    return [
        ProjectEndpoints(
            directory=state.directory,
            projects=state.projects,
            deletions=SqlProjectDeletions(container.database),
            count_events=container.deletion.count_all,
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
    schedules = ScheduledChanges(SqlScheduledChangeStore(container.database, container.flag_store))
    holdouts = Holdouts(
        SqlHoldoutStore(container.database, container.flag_store), container.flag_cache
    )
    environments = build_environments(state, container.flag_store, container.flag_cache)
    promotions = PromotionRequests(
        environments.promotions, services.change_requests, state.directory
    )
    return [
        FlagEndpoints(
            activity=services.activity,
            flag_renderer=flag_renderer,
            flags=services.flags,
            requester=services.change_requester,
            surveys=container.surveys.surveys,
        ),
        FlagEvaluationEndpoints(
            blast_radius=services.blast_radius,
            decider=services.decider,
            flags=services.flags,
            local_evaluation_cache=services.local_evaluation,
        ),
        FlagDraftEndpoints(services.flag_drafts, services.explainer),
        WhatIfEndpoints(services.what_if),
        CodeReferenceEndpoints(SqlCodeReferenceStore(container.database)),
        ChangeRequestEndpoints(
            services.activity,
            services.change_requests,
            services.change_requester,
            promotions,
            container.rollouts.bandits,
        ),
        ApprovalPolicyEndpoints(
            services.activity,
            ApprovalPolicies(services.approvals),
            services.change_requester,
            container.flag_cache,
        ),
        ScheduledChangeEndpoints(services.activity, schedules, services.change_requester),
        RolloutPlanEndpoints(services.activity, container.rollouts.plans),
        BanditEndpoints(services.activity, container.rollouts.bandits, services.change_requester),
        *_build_environment_endpoints(container, environments, promotions),
        _build_document_endpoints(container, environments),
        OrganizationFlagEndpoints(
            FlagCopies(environments.promotions, schedules, container.flag_cache),
            state.directory,
            flag_renderer,
            promotions,
            services.change_requester,
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
            holdouts=holdouts,
            experiments=container.experiments.experiments,
            flag_renderer=flag_renderer,
            results=container.experiments.results,
        ),
        HoldoutEndpoints(services.activity, holdouts),
        StreamEndpoints(streams),
        OfrepStreamEndpoints(
            state.directory,
            EtagStreams(
                container.flag_cache, services.local_evaluation, services.stopping, PAGE_STREAMS
            ),
        ),
        EdgeEndpoints(services.edge_documents, streams),
        RemoteConfigEndpoints(state.directory, services.sdk_configs),
    ]


def _build_environment_endpoints(
    container: Container, built: Environments, requests: PromotionRequests
) -> list[Handler]:
    directory = container.state.directory
    finder = ProductFinder(built.products, directory)
    return [
        ProductEndpoints(built.products, finder),
        MatrixEndpoints(directory, container.experiments.experiments, finder, built.matrix),
        PromotionEndpoints(directory, finder, built.promotions, requests),
        ProductDocumentEndpoints(built.products, finder, built.documents),
    ]


def _build_document_endpoints(container: Container, built: Environments) -> Handler:
    database, pipelines = container.database, container.pipelines
    definitions = DefinitionsAsCode(SqlDefinitionStore(database))
    return DocumentEndpoints(
        {
            "flags": built.documents,
            "pipelines": RecordDocuments(pipelines.as_code, pipelines.catalogue),
            "definitions": DefinitionDocuments(definitions),
            "dashboards": build_dashboard_documents(database, container.dashboards),
        }
    )


def _build_event_endpoints(container: Container, services: HttpServices) -> list[Handler]:
    queries = container.event_queries
    cohorts = Cohorts(SqlCohortStore(container.database, container.flag_store))
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
        CohortEndpoints(
            activity=services.activity,
            cohorts=cohorts,
            flags=services.flags,
            behaviors=SqlBehaviorStore(container.database),
            backfill=container.behaviors,
            requester=services.change_requester,
        ),
        CohortPreviewEndpoints(CohortCounter(queries.executor)),
        IngestionWarningEndpoints(warnings=container.ingestion.warnings),
        DeadLetterEndpoints(SqlDeadLetterStore(container.database)),
    ]


def _build_dashboard_endpoints(container: Container, services: HttpServices) -> list[Handler]:
    kept = container.dashboards
    return [
        InsightEndpoints(
            activity=services.activity,
            insights=kept.insights,
            dashboards=kept.dashboards,
            results=kept.results,
        ),
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
