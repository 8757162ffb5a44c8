"""The HTTP side of the service: every endpoint, and the gateway in front of them."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.applications import Starlette

from hedgerow.app.container import Container
from hedgerow.app.http.endpoints import build_api_endpoints, build_sdk_endpoints
from hedgerow.app.http.internal import InternalApp
from hedgerow.app.http.readers import AcknowledgedApi, Readers
from hedgerow.app.http.services import HttpServices
from hedgerow.app.metrics import connection_gauges
from hedgerow.app.startup import ping
from hedgerow.flags.edge.documents import EdgeDocuments
from hedgerow.http.console.console import ConsoleEndpoints, LoginMethods
from hedgerow.http.console.files import ConsoleFileCache
from hedgerow.http.endpoint import Handler
from hedgerow.http.mcp import McpEndpoints
from hedgerow.http.openapi.docs import DocsEndpoints
from hedgerow.http.payload.workers import PayloadWorkers
from hedgerow.http.routes import build_api, build_fast_routes, documented_endpoints
from hedgerow.http.sdk.sdk_config import SdkConfigs
from hedgerow.http.server.access_log import AccessLog
from hedgerow.http.server.connections import (
    ConnectionTable,
    compute_max_connections,
    raise_file_limit,
)
from hedgerow.http.server.gateway import Gateway
from hedgerow.http.server.health import Readiness
from hedgerow.http.server.proxies import Origins
from hedgerow.http.server.request_queues import RequestQueues
from hedgerow.http.server.senders import Senders
from hedgerow.http.server.spans import RequestSpans
from hedgerow.lib.logs import is_human_readable
from hedgerow.pipelines.deliveries.destination_health import DestinationHealthCache
from hedgerow.projects.call_limits import SharedLimits
from hedgerow.projects.directory import Directory
from hedgerow.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpEdge:
    """The gateway, with the services that the background tasks keep up to date."""

    gateway: Gateway
    readiness: Readiness
    log: AccessLog
    shared_limits: Sequence[SharedLimits]
    sdk_configs: SdkConfigs
    destination_health: DestinationHealthCache
    payload_workers: PayloadWorkers
    edge_documents: EdgeDocuments
    # Serves the other processes of this machine.
    internal_app: InternalApp
    directory: Directory


def build_http(container: Container) -> HttpEdge:
    span_log = container.telemetry.spans
    spans = None if span_log is None else RequestSpans(span_log)
    services = HttpServices(container, asyncio.Event(), spans)
    readiness = Readiness(lambda: ping(container.database))
    settings = container.settings
    log = AccessLog(
        sys.stderr,
        for_people=is_human_readable(settings.log_format, sys.stderr),
        enabled=settings.log_level in ("debug", "info"),
    )
    readers = _build_readers(container, services)
    open_connections = build_connection_table(settings, services.origins)
    queues = RequestQueues(
        lambda name, number: container.refusals.count(f"overload_{name}", None, number)
    )
    container.metrics.add_gauges(lambda: connection_gauges(open_connections, queues))
    gateway = Gateway(
        build_fast_routes(
            [*build_sdk_endpoints(container, services), readiness, container.metrics]
        ),
        AcknowledgedApi(_build_api(container, services), readers),
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
        spans=spans,
    )
    return HttpEdge(
        gateway=gateway,
        readiness=readiness,
        log=log,
        shared_limits=services.shared_limits,
        sdk_configs=services.sdk_configs,
        destination_health=services.destination_health,
        payload_workers=services.payload_workers,
        edge_documents=services.edge_documents,
        internal_app=InternalApp(
            gateway, services.edge_documents, container.state.directory, readers
        ),
        directory=container.state.directory,
    )


def _build_readers(container: Container, services: HttpServices) -> Readers:
    async def refresh() -> None:
        await container.state.directory.refresh()
        await container.flag_cache.refresh_changed()

    return Readers(
        services.edge_documents.list_projects, container.flag_cache, refresh, services.stopping
    )


def build_connection_table(settings: Settings, origins: Origins) -> ConnectionTable:
    """Raise the file limit of this process, and limit connections so that some files are left."""
    possible = compute_max_connections(raise_file_limit(), settings.database_pool_size)
    return ConnectionTable(min(settings.max_connections or possible, possible), origins.is_proxy)


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
        McpEndpoints(lambda: api),
        *build_api_endpoints(container, services),
    ]
    api = build_api(handlers, services.authenticator)
    return api
