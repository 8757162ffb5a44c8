"""Delivery of events to destinations: routing, the delivery loop, and the outbound clients."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import structlog

from hedgerow.app.pipelines import Pipelines
from hedgerow.events.tracing import SpanLog
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import ThreadLimiter, run_in_thread
from hedgerow.outbound.files import LocalFileWriter
from hedgerow.outbound.postgres import PostgresClient
from hedgerow.outbound.postgres_tables import PostgresTables
from hedgerow.outbound.ssrf_guard import SsrfGuard
from hedgerow.pipelines.deliveries.deliverer import Deliverer
from hedgerow.pipelines.deliveries.destination_health import BacklogMonitor
from hedgerow.pipelines.deliveries.model import RetentionPeriods
from hedgerow.pipelines.deliveries.notifications import NotificationReceiver, Notifier
from hedgerow.pipelines.deliveries.routing import RoutingStage
from hedgerow.pipelines.destinations.attempt import OutboundClients
from hedgerow.pipelines.destinations.registry import DestinationRegistry
from hedgerow.pipelines.destinations.template_workers import TemplateWorkers
from hedgerow.pipelines.model import RecordId
from hedgerow.plugin.http import Request, Response, StreamedResponse
from hedgerow.settings import Settings
from hedgerow.storage.deliveries.backlogs import SqlBacklogStore
from hedgerow.storage.deliveries.groups import SqlGroupStore
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.engine.database import Database
from hedgerow.storage.pipelines.notifications import SqlNotificationStore
from hedgerow.storage.pipelines.records import SqlRecordStore

DAY_MS = 24 * 3600 * 1000
# Components have their own threads: one that blocks for long delays no query and no commit.
COMPONENT_MAX_THREADS = 32
MEGABYTE = 1024 * 1024

if TYPE_CHECKING:
    from hedgerow.outbound.http_client import GuardedHttpClient

HTTP_CLIENT_MODULE = "hedgerow.outbound.http_client"

_log = structlog.get_logger("hedgerow.deliver")


class LazyHttpClient:
    """An HTTP client that loads on first use: importing it takes a tenth of the start-up time."""

    def __init__(self, guard: SsrfGuard) -> None:
        self._guard = guard
        self._http: GuardedHttpClient | None = None

    async def send(self, request: Request) -> Response:
        return await (await self._load()).send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedResponse]:
        async with (await self._load()).stream(request) as stream:
            yield stream

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def _load(self) -> "GuardedHttpClient":
        if self._http is None:
            module = await run_in_thread(lambda: import_module(HTTP_CLIENT_MODULE))
            # A concurrent caller may have created it while this one waited.
            if self._http is None:
                self._http = module.GuardedHttpClient(self._guard)
        return self._http


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySystem:
    deliverer: Deliverer
    routing: RoutingStage
    records: SqlDeliveryStore
    clients: OutboundClients
    ages: RetentionPeriods
    http: LazyHttpClient
    files: LocalFileWriter
    databases: PostgresClient
    guard: SsrfGuard
    templates: TemplateWorkers
    backlogs: BacklogMonitor
    notifier: Notifier | None

    async def close(self) -> None:
        self.templates.close()
        await self.http.close()
        await self.databases.close()
        await self.files.close()


def build_delivery(
    settings: Settings, database: Database, pipelines: Pipelines, spans: SpanLog | None
) -> DeliverySystem:
    destinations = DestinationRegistry(
        SqlRecordStore(database), pipelines.catalogue, pipelines.encryption_keys
    )
    records = SqlDeliveryStore(database)
    guard = SsrfGuard(
        allow_private=settings.allow_private_destinations,
        allowed_networks=settings.allowed_private_networks,
    )
    http, databases = LazyHttpClient(guard), PostgresClient(guard)
    files = LocalFileWriter(
        settings.exports_path,
        min_free_bytes=settings.min_free_disk_mb * MEGABYTE,
        note=_log_unfinished_file,
    )
    templates = TemplateWorkers()
    ways_out = OutboundClients(
        http=http,
        files=files,
        tables=PostgresTables(databases),
        run_in_thread=ThreadLimiter(COMPONENT_MAX_THREADS, has_turns=True).run,
        check_address=guard.check,
        templates=templates,
        spans=spans,
    )
    ages = RetentionPeriods(
        waiting_ms=settings.delivery_max_age_days * DAY_MS,
        dead_ms=settings.dead_letter_retention_days * DAY_MS,
        delivered_ms=settings.delivered_retention_days * DAY_MS,
    )

    def note(id: RecordId, error: Exception) -> None:
        _log.error("delivery round failed", record=id, exc_info=error)

    deliverer = Deliverer(
        destinations,
        records,
        ways_out,
        utc_now,
        max_age_ms=ages.waiting_ms,
        sends_notifications=bool(settings.notification_url),
        on_error=note,
    )
    return DeliverySystem(
        deliverer=deliverer,
        routing=RoutingStage(destinations, SqlGroupStore(database), deliverer.wake, utc_now),
        records=records,
        clients=ways_out,
        ages=ages,
        http=http,
        files=files,
        databases=databases,
        guard=guard,
        templates=templates,
        backlogs=BacklogMonitor(SqlBacklogStore(database), utc_now),
        notifier=_build_notifier(settings, database, http),
    )


def _log_unfinished_file(name: str, error: OSError) -> None:
    _log.error("export file not completed yet", name=name, reason=str(error))


def _build_notifier(
    settings: Settings, database: Database, outbound: LazyHttpClient
) -> Notifier | None:
    if not settings.notification_url:
        return None

    def note(reason: str) -> None:
        _log.error("notification not delivered", reason=reason)

    receiver = NotificationReceiver(
        url=settings.notification_url, secret=settings.notification_secret
    )
    return Notifier(SqlNotificationStore(database), receiver, outbound, utc_now, note)
