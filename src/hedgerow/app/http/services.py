"""What the endpoints of the service share."""

import asyncio

from hedgerow.app.container import Container
from hedgerow.flags.approvals.change_requests import ChangeRequests
from hedgerow.flags.early_access import EarlyAccessFeatures
from hedgerow.flags.edge.documents import EdgeDocuments
from hedgerow.flags.evaluation.blast_radius import BlastRadiusCounter
from hedgerow.flags.evaluation.decide import Decider
from hedgerow.flags.evaluation.draft import DraftEvaluation
from hedgerow.flags.evaluation.explainer import FlagExplainer
from hedgerow.flags.evaluation.person_search import PersonSearch
from hedgerow.flags.evaluation.what_if import WhatIf
from hedgerow.flags.flags import Flags
from hedgerow.flags.history.past_evaluation import PastEvaluations
from hedgerow.flags.history.person_history import PersonHistory
from hedgerow.flags.local_evaluation.cache import LocalEvaluationCache
from hedgerow.http.api.flags.change_request_items import ChangeRequester
from hedgerow.http.api.pipelines.records import PageCache
from hedgerow.http.auth.access import Authenticator
from hedgerow.http.call import CallContext
from hedgerow.http.payload.body import BodyReader
from hedgerow.http.payload.body_memory import BodyMemory
from hedgerow.http.payload.workers import PayloadWorkers
from hedgerow.http.sdk.sdk_config import SdkConfigs
from hedgerow.http.server.proxies import Origins
from hedgerow.http.server.spans import RequestSpans
from hedgerow.ingestion.read_barrier import FreshEvaluationData
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import run_in_thread
from hedgerow.pipelines.deliveries.destination_health import DestinationHealthCache
from hedgerow.projects.call_limits import CallLimits
from hedgerow.projects.rate_limit import API_RATE_LIMITS, SDK_RATE_LIMITS, RateLimiter
from hedgerow.storage.flags.approvals.approval_store import SqlApprovalStore
from hedgerow.storage.flags.early_access import SqlFeatureStore
from hedgerow.storage.flags.evaluation_context import SqlEvaluationDataStore
from hedgerow.storage.flags.history import SqlFlagHistory
from hedgerow.storage.persons.evaluated_persons import SqlEvaluatedPersonStore
from hedgerow.storage.persons.persons import SqlPersonStore
from hedgerow.storage.pipelines.records import SqlRecordStore
from hedgerow.storage.projects.activity import SqlActivityStore


class HttpServices:
    """The services that only the HTTP API needs; endpoints share them. Fields are in the order in
    which they are built."""

    def __init__(
        self, container: Container, stopping: asyncio.Event, spans: RequestSpans | None = None
    ) -> None:
        self.spans = spans
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
        self.flag_drafts = DraftEvaluation(
            flag_cache, evaluation_data, SqlEvaluatedPersonStore(database)
        )
        self.explainer = FlagExplainer(flag_cache, evaluation_data)
        self.what_if = WhatIf(
            self.flag_drafts, container.event_queries.executor, container.person_scanner
        )
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
        self.approvals = SqlApprovalStore(database, container.flag_store)
        self.change_requests = ChangeRequests(self.approvals, flag_cache, pipelines.encryption_keys)
        self.change_requester = ChangeRequester(self.change_requests, self.what_if)
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
        self.edge_documents = EdgeDocuments(
            flag_cache, container.state.directory, self.sdk_configs.get_fields, run_in_thread
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
        has_rates = settings.rate_limits_enabled
        api_rate_limiter = RateLimiter(API_RATE_LIMITS if has_rates else (), "api")
        self.sdk_rate_limiter = RateLimiter(SDK_RATE_LIMITS if has_rates else (), "sdk")
        self.shared_limits = (self.call_limits, api_rate_limiter, self.sdk_rate_limiter)
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
            api_rate_limiter,
            self.sdk_rate_limiter,
        )
