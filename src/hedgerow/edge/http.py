"""The HTTP side of an edge process: its endpoints, and the gateway in front of them."""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp

from hedgerow.edge.flag_payload import EdgePayloadEndpoints
from hedgerow.edge.forwarding import (
    AssetApp,
    BuildHeaders,
    EvaluationRoute,
    ForwardedRoute,
    Forwarder,
    OriginPatience,
    build_edge_headers,
)
from hedgerow.edge.inbox.queue import Inbox
from hedgerow.edge.inbox.route import InboxRoute, InboxRoutes, ReadOnlyAcceptance
from hedgerow.edge.state import (
    NO_ORIGIN,
    AbsentData,
    EdgeState,
    NeedsOrigin,
    build_unavailable,
    refuse_visitor,
)
from hedgerow.flags.evaluation.budget import EvaluationPacer
from hedgerow.flags.evaluation.decide import Decider
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.local_evaluation.cache import LocalEvaluationCache
from hedgerow.flags.local_evaluation.etag_stream import PAGE_STREAMS, EtagStreams
from hedgerow.flags.store import EvaluationDataStore
from hedgerow.http.auth.access import Authenticator
from hedgerow.http.call import CallContext
from hedgerow.http.endpoint import Handler
from hedgerow.http.payload.body import BodyReader
from hedgerow.http.payload.body_memory import MIB, BodyMemory
from hedgerow.http.payload.limits import CAPTURE_LIMITS, DECIDE_LIMITS
from hedgerow.http.payload.reader import PayloadReader, PayloadServices
from hedgerow.http.payload.workers import PayloadWorkers
from hedgerow.http.route_tables import build_fast_table, build_routes
from hedgerow.http.sdk.capture import CaptureEndpoints
from hedgerow.http.sdk.decide import DecideEndpoints
from hedgerow.http.sdk.local_evaluation import LocalEvaluationEndpoints
from hedgerow.http.sdk.ofrep import OfrepEndpoints
from hedgerow.http.sdk.ofrep_stream import OfrepStreamEndpoints
from hedgerow.http.sdk.remote_config import RemoteConfigEndpoints
from hedgerow.http.sdk.stream import StreamEndpoints
from hedgerow.http.server.access_log import AccessLog
from hedgerow.http.server.connections import (
    ConnectionTable,
    compute_max_connections,
    raise_file_limit,
)
from hedgerow.http.server.errors import EXCEPTION_HANDLERS
from hedgerow.http.server.gateway import FastRoute, Gateway
from hedgerow.http.server.health import Readiness
from hedgerow.http.server.metrics import Metrics
from hedgerow.http.server.proxies import Origins
from hedgerow.http.server.refusals import Refusals
from hedgerow.http.server.request_queues import RequestQueues
from hedgerow.http.server.senders import Senders
from hedgerow.http.server.spans import RequestSpans
from hedgerow.lib.clock import utc_now
from hedgerow.lib.logs import is_human_readable
from hedgerow.lib.threads import run_in_thread
from hedgerow.outbound.origin_client import OriginClient
from hedgerow.projects.call_limits import CallLimits
from hedgerow.projects.directory import Directory
from hedgerow.projects.rate_limit import SDK_RATE_LIMITS, RateLimiter
from hedgerow.settings import Settings

DECIDE_BYTES = 1024 * 1024
CAPTURE_BYTES = 20 * 1024 * 1024
# Bodies of all requests, and of one address.
MAX_BODY_BYTES = 128 * MIB
MAX_BODY_BYTES_PER_SENDER = 64 * MIB

# Captured events, and what pages read about surveys and features: the origin has it.
CAPTURE_PATHS = (
    *("/capture", "/e", "/track", "/batch", "/engage", "/i/v0/e", "/i/v0/ai/batch", "/s"),
    "/i/v1/analytics/events",
    *(f"/v1/{each}" for each in ("identify", "track", "page", "screen", "group", "alias")),
    *(f"/v1/{each}" for each in ("batch", "i", "t", "p", "s", "g", "a", "m", "b")),
)
READ_PATHS = ("/api/surveys", "/api/early_access_features")


class EdgeServices:
    """What the endpoints share. Fields are in the order in which they are built."""

    def __init__(  # noqa: PLR0913 - collaborators
        self,
        settings: Settings,
        state: EdgeState,
        directory: Directory,
        flag_cache: FlagCache,
        client: OriginClient,
        build_headers: BuildHeaders = build_edge_headers,
        inbox: Inbox | None = None,
        spans: RequestSpans | None = None,
    ) -> None:
        self.settings = settings
        self.inbox = inbox
        self.spans = spans
        self.client = client
        self.state = state
        self.directory = directory
        self.flag_cache = flag_cache
        self.stopping = asyncio.Event()
        self.origins = Origins(settings.trusted_proxies, settings.public_url)
        self.memory = BodyMemory(MAX_BODY_BYTES, MAX_BODY_BYTES_PER_SENDER)
        self.workers = PayloadWorkers()
        self.refusals = Refusals()
        self.patience = OriginPatience()
        self.pacer = EvaluationPacer()
        timeout_s = settings.request_read_timeout_s
        self.forwarder = Forwarder(
            client,
            self.memory,
            self.origins,
            build_headers=build_headers,
            read_timeout_s=timeout_s,
            spans=spans,
        )
        self.local_evaluation = LocalEvaluationCache(flag_cache, run_in_thread)
        self.sdk_limiter = RateLimiter(SDK_RATE_LIMITS if settings.rate_limits_enabled else ())
        self.limits = CallLimits(
            project_calls_per_s=settings.project_calls_per_s,
            project_events_per_s=0,
            address_calls_per_s=settings.address_calls_per_s,
            on_refusal=self.refusals.count,
        )
        self.log = AccessLog(
            sys.stderr,
            for_people=is_human_readable(settings.log_format, sys.stderr),
            enabled=settings.log_level in ("debug", "info"),
        )


def build_edge_gateway(services: EdgeServices, readiness: Readiness, metrics: Metrics) -> Gateway:
    routes = {
        **_build_evaluation_routes(services),
        **build_forwarded_routes(services),
        **_build_inbox_routes(services),
        **build_fast_table([build_local_evaluation(services), readiness, metrics]),
    }
    return build_gateway(services, routes, _build_app(services), readiness, metrics)


def build_local_evaluation(services: EdgeServices) -> LocalEvaluationEndpoints:
    return LocalEvaluationEndpoints(
        services.directory, services.local_evaluation, services.sdk_limiter
    )


def build_gateway(
    services: EdgeServices,
    routes: Mapping[str, FastRoute],
    app: ASGIApp,
    readiness: Readiness,
    metrics: Metrics,
) -> Gateway:
    settings, origins = services.settings, services.origins
    possible = compute_max_connections(raise_file_limit(), 0)
    connections = ConnectionTable(
        min(settings.max_connections or possible, possible), origins.is_proxy
    )
    queues = RequestQueues(
        lambda name, number: services.refusals.count(f"overload_{name}", None, number)
    )
    metrics.add_gauges(
        lambda: (
            ("hedgerow_http_connections_open", "Open HTTP connections.", connections.open),
            (
                "hedgerow_http_requests_waiting",
                "Requests that wait for their handler to start.",
                queues.waiting,
            ),
        )
    )
    return Gateway(
        routes,
        app,
        readiness=readiness,
        metrics=metrics,
        log=services.log,
        open_connections=connections,
        queues=queues,
        senders=Senders(origins, services.directory.find_project_id),
        admit_client=lambda scope: services.limits.admit_address(origins.client(scope).group),
        stopping=services.stopping,
        spans=services.spans,
    )


def _build_evaluation_routes(services: EdgeServices) -> Mapping[str, FastRoute]:
    """Build each route twice: one that needs the origin for stored data, and one without it, which
    counts no call a second time."""
    strict = build_fast_table(
        build_evaluators(services, AbsentData(NeedsOrigin), NeedsOrigin, services.limits)
    )
    lenient = build_lenient_table(services)
    return {
        path: replace(
            route,
            handler=EvaluationRoute(
                route.handler,
                lenient[path].handler,
                services.forwarder,
                services.patience,
                max_bytes=DECIDE_BYTES,
                timeout_s=services.settings.edge_forward_timeout_s,
            ),
        )
        for path, route in strict.items()
    }


def build_lenient_table(services: EdgeServices) -> Mapping[str, FastRoute]:
    """Build the routes that answer without stored data."""
    data = AbsentData(build_unavailable)
    return build_fast_table(
        build_evaluators(services, data, build_unavailable, _build_no_limits(services))
    )


def _build_no_limits(services: EdgeServices) -> CallLimits:
    return CallLimits(
        project_calls_per_s=0,
        project_events_per_s=0,
        address_calls_per_s=0,
        on_refusal=services.refusals.count,
    )


def build_evaluators(
    services: EdgeServices,
    data: EvaluationDataStore,
    build_error: Callable[[], Exception],
    limits: CallLimits,
) -> list[Handler]:
    payloads = PayloadReader(
        _build_payload_services(services), DECIDE_LIMITS, max_bytes=DECIDE_BYTES
    )
    decider = Decider(services.flag_cache, data, services.pacer)
    # Properties of a location that a request does not have are those of the origin.
    locate = None
    return [
        DecideEndpoints(
            services.directory,
            decider,
            services.state,
            payloads,
            locate,
            partial(refuse_visitor, build_error),
            utc_now,
            limits,
        ),
        OfrepEndpoints(services.directory, decider, payloads, locate, utc_now, limits),
    ]


def _build_payload_services(services: EdgeServices) -> PayloadServices:
    return PayloadServices(
        directory=services.directory,
        origins=services.origins,
        workers=services.workers,
        memory=services.memory,
        timeout_s=services.settings.request_read_timeout_s,
    )


def _build_inbox_routes(services: EdgeServices) -> Mapping[str, FastRoute]:
    """Build the routes of capture that store a request while the origin is away."""
    if services.inbox is None:
        return {}
    payloads = PayloadReader(
        _build_payload_services(services),
        CAPTURE_LIMITS,
        max_bytes=CAPTURE_BYTES,
        is_lenient=True,
    )
    parsers = CaptureEndpoints(
        services.directory,
        ReadOnlyAcceptance(),
        payloads,
        services.origins,
        utc_now,
        _build_no_limits(services),
    )
    routes = InboxRoutes(
        services.inbox,
        services.forwarder,
        services.state,
        services.origins,
        max_bytes=CAPTURE_BYTES,
    )
    return {
        path: replace(route, handler=InboxRoute(routes, route.handler))
        for path, route in build_fast_table([parsers], CaptureEndpoints).items()
    }


def build_forwarded_routes(
    services: EdgeServices, unavailable: str = NO_ORIGIN
) -> Mapping[str, FastRoute]:
    route = ForwardedRoute(
        services.forwarder,
        max_bytes=CAPTURE_BYTES,
        timeout_s=services.settings.request_read_timeout_s,
        unavailable=unavailable,
    )
    common: dict[str, Any] = {"handler": route, "is_public": True, "allows_credentials": True}
    captures = FastRoute(methods=("POST", "GET"), is_capture=True, **common)
    reads = FastRoute(methods=("GET",), **common)
    return {
        **dict.fromkeys(CAPTURE_PATHS, captures),
        **dict.fromkeys(READ_PATHS, reads),
    }


def _build_app(services: EdgeServices) -> Starlette:
    settings = services.settings
    authenticator = Authenticator(
        CallContext(
            directory=services.directory,
            bodies=BodyReader(
                settings.max_body_bytes,
                settings.request_read_timeout_s,
                services.memory,
                services.origins,
            ),
            origins=services.origins,
            clock=utc_now,
        ),
        RateLimiter(()),
        services.sdk_limiter,
    )
    handlers: list[Handler] = [
        StreamEndpoints(
            EtagStreams(services.flag_cache, services.local_evaluation, services.stopping)
        ),
        RemoteConfigEndpoints(services.directory, services.state),
        EdgePayloadEndpoints(
            services.state, services.forwarder, timeout_s=settings.request_read_timeout_s
        ),
        OfrepStreamEndpoints(
            services.directory,
            EtagStreams(
                services.flag_cache, services.local_evaluation, services.stopping, PAGE_STREAMS
            ),
        ),
    ]
    assets = AssetApp(services.forwarder, timeout_s=settings.request_read_timeout_s)
    return build_app([build_routes(handlers, authenticator), Mount("/", assets)])


def build_app(routes: Sequence[BaseRoute]) -> Starlette:
    app = Starlette(routes=routes, exception_handlers=dict(EXCEPTION_HANDLERS))
    app.router.redirect_slashes = False
    return app
