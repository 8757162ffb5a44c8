"""Ingestion: from an accepted request through the inbox to the event store."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import structlog

from hedgerow.app.event_store import LazyEventReader, LazyEventStore
from hedgerow.app.state import State
from hedgerow.app.topology import require_stream
from hedgerow.definitions.learn import DefinitionLearner
from hedgerow.definitions.relearn import DefinitionUpkeep
from hedgerow.definitions.schema_registry import WORKER_LIMITS as SCHEMA_WORKER_LIMITS
from hedgerow.definitions.schema_registry import SchemaRegistry
from hedgerow.events.behavior_backfill import BehaviorBackfill
from hedgerow.events.deletion import (
    AcceptedEvents,
    BehaviorRepairs,
    CountableEvents,
    EventDeletion,
)
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.ingestion.accept import Capture
from hedgerow.ingestion.backpressure import AdmissionControl, LagMonitor
from hedgerow.ingestion.cookieless.resolve import CookielessVisitors
from hedgerow.ingestion.inbox_watch import InboxWatch
from hedgerow.ingestion.poison_isolation import OnDeadLetter
from hedgerow.ingestion.process import Processor
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.read_barrier import (
    STORE_POLL_INTERVAL_S,
    ReadBarrier,
    SharedReadBarrier,
    wait_until_all_stored,
    wait_until_processed_are_stored,
)
from hedgerow.ingestion.schema_stage import SchemaStage
from hedgerow.ingestion.store import Stage
from hedgerow.ingestion.transform_stage import TransformStage
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import consume_exception
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.outbound.geoip import GeoIp
from hedgerow.pipelines.deliveries.routing import RoutingStage
from hedgerow.pipelines.transformations.registry import TransformationRegistry
from hedgerow.projects.model import Project, ProjectId
from hedgerow.settings import Settings
from hedgerow.storage.deletions import SqlDeletionLog
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.errors import is_data_error
from hedgerow.storage.ingestion.cookieless import SqlCookielessStore
from hedgerow.storage.ingestion.dead_letters import SqlDeadLetterStore
from hedgerow.storage.ingestion.definition_marks import ClickHouseSeenEvents, SqlMarkStore
from hedgerow.storage.ingestion.definitions import SqlDefinitionStore, SqlSchemaStore
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from hedgerow.storage.ingestion.ingestion_warnings import SqlWarningStore
from hedgerow.storage.persons.behaviors import SqlBehaviorStore
from hedgerow.storage.projects.activity import SqlActivityStore

# Partitions of the inbox: how many workers can process events at the same time.
BUCKETS = 16
STREAM_MODULE = "hedgerow.storage.ingestion.stream_inbox"
# How long a worker waits for more events when it found none.
EMBEDDED_IDLE_S = 0.5
SHARED_IDLE_S = 0.05
# How long the counting of behaviors waits until the processed events are stored.
BACKFILL_TIMEOUT_S = 60.0

_log = structlog.get_logger("hedgerow.ingestion")


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxShares:
    """Whether projects share the inbox. `on_refusal` receives a project that used up its share."""

    has_several_projects: Callable[[], bool]
    on_refusal: Callable[[ProjectId], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingestion:
    progress: Progress
    # Only if other processes accept or process events, too.
    watch: InboxWatch | None
    read_barrier: ReadBarrier
    capture: Capture
    cookieless: CookielessVisitors
    processor: Processor
    admission: AdmissionControl
    event_store: LazyEventStore
    inbox: SqlInboxStore
    lag_monitor: LagMonitor
    warnings: SqlWarningStore
    learner: DefinitionLearner
    # They check schemas, and events against them.
    schema_workers: FunctionPool

    @property
    def is_embedded(self) -> bool:
        """Whether no other process accepts or processes events."""
        return self.watch is None


def build_deletion(
    database: Database,
    events: CountableEvents,
    ingestion: Ingestion,
    behaviors: BehaviorRepairs,
) -> EventDeletion:
    copies = SqlDeliveryStore(database), SqlDeadLetterStore(database), SqlWarningStore(database)
    return EventDeletion(
        events,
        copies,
        SqlActivityStore(database),
        SqlDeletionLog(database),
        AcceptedEvents(
            wait=ingestion.read_barrier.wait_until_stored,
            wait_for_all=partial(_wait_for_project, ingestion),
        ),
        behaviors,
    )


def build_behavior_backfill(
    state: State, ingestion: Ingestion, events: LazyEventStore, executor: QueryExecutor
) -> BehaviorBackfill:
    return BehaviorBackfill(
        SqlBehaviorStore(state.database),
        executor,
        partial(
            _hurry,
            ingestion,
            partial(wait_until_processed_are_stored, timeout_s=BACKFILL_TIMEOUT_S),
        ),
        lambda: events.may_contain_data,
        state.directory.get_project,
        utc_now,
    )


async def _wait_for_project(ingestion: Ingestion, project_id: ProjectId) -> None:
    wait = partial(wait_until_all_stored, project_id=project_id)
    await _hurry(ingestion, wait, project_id)


async def _hurry(
    ingestion: Ingestion,
    wait: Callable[[SqlInboxStore], Awaitable[None]],
    project_id: ProjectId | None = None,
) -> None:
    """Wait for events as a reader: workers hurry while one waits."""

    async def read() -> None:
        while True:
            await ingestion.read_barrier.wait_until_stored(project_id)
            await asyncio.sleep(STORE_POLL_INTERVAL_S)

    # In a context without the request: its response is never stale.
    reader = asyncio.create_task(read(), context=Context())
    reader.add_done_callback(consume_exception)
    try:
        await wait(ingestion.inbox)
    finally:
        reader.cancel()


def build_ingestion(  # noqa: PLR0913 - collaborators
    settings: Settings,
    state: State,
    events: LazyEventStore,
    geoip: GeoIp,
    transformations: TransformationRegistry,
    routing: RoutingStage,
    shares: InboxShares,
) -> Ingestion:
    database = state.database
    is_embedded = database.engine_name == "sqlite"
    inbox = _build_inbox(settings, database)
    progress = Progress()
    watch = None if is_embedded else InboxWatch(inbox, progress)
    admission = AdmissionControl(
        progress,
        lambda: shutil.disk_usage(settings.data_dir).free,
        max_waiting=settings.inbox_max_events,
        min_free_bytes=settings.min_free_disk_mb * 1024 * 1024 if is_embedded else 0,
        has_several_projects=shares.has_several_projects,
        on_refusal=shares.on_refusal,
    )

    def locate_ip(address: str) -> Mapping[str, Any]:
        return geoip.details(address)

    def get_timezone(project_id: ProjectId) -> str:
        project = state.directory.get_project(project_id)
        return project.timezone if project else "UTC"

    learner = DefinitionLearner(SqlDefinitionStore(database), utc_now)
    schema_workers = FunctionPool(SCHEMA_WORKER_LIMITS)
    schemas = SchemaRegistry(SqlSchemaStore(database), schema_workers, learner.forget)
    cookieless = CookielessVisitors(SqlCookielessStore(database), locate_ip, get_timezone)
    return Ingestion(
        progress=progress,
        watch=watch,
        read_barrier=_build_read_barrier(settings, database, inbox, progress, watch, events),
        capture=Capture(inbox, progress, admission, cookieless),
        cookieless=cookieless,
        processor=Processor(
            inbox=inbox,
            events=events,
            progress=progress,
            watch=watch,
            idle_s=EMBEDDED_IDLE_S if is_embedded else SHARED_IDLE_S,
            locate_ip=locate_ip,
            transform_stage=TransformStage(transformations, in_order=inbox.has_stream),
            schema_stage=SchemaStage(schemas),
            learner=learner,
            routing=routing,
            is_data_error=is_data_error,
            on_dead_letter=_log_dead_letters(),
            clock=utc_now,
        ),
        admission=admission,
        event_store=events,
        inbox=inbox,
        lag_monitor=LagMonitor(inbox, utc_now),
        warnings=SqlWarningStore(database),
        learner=learner,
        schema_workers=schema_workers,
    )


def _build_inbox(settings: Settings, database: Database) -> SqlInboxStore:
    if not settings.inbox_url:
        return SqlInboxStore(database, 1 if database.engine_name == "sqlite" else BUCKETS)
    require_stream(settings)
    # Few installations have a stream.
    inbox: SqlInboxStore = import_module(STREAM_MODULE).open_inbox(
        database, BUCKETS, settings.inbox_url, settings.inbox_stream_max_mb << 20
    )
    return inbox


def build_definition_upkeep(
    state: State, ingestion: Ingestion, events: LazyEventStore, workers: FunctionPool
) -> DefinitionUpkeep:
    database, directory = state.database, state.directory
    reader = LazyEventReader(events, workers)

    async def load_projects() -> Iterable[Project]:
        await directory.refresh()
        return directory.list_projects()

    return DefinitionUpkeep(
        learner=ingestion.learner,
        store=SqlDefinitionStore(database),
        marks=SqlMarkStore(database),
        events=ClickHouseSeenEvents(reader, database, lambda: events.may_contain_data),
        oldest_waiting=ingestion.inbox.oldest_accepted_at,
        wait_until_stored=ingestion.read_barrier.wait_until_stored,
        load_projects=load_projects,
        is_only_worker=ingestion.is_embedded,
        clock=utc_now,
    )


def _build_read_barrier(
    settings: Settings,
    database: Database,
    inbox: SqlInboxStore,
    progress: Progress,
    watch: InboxWatch | None,
    events: LazyEventStore,
) -> ReadBarrier:
    timeout_s = settings.read_after_write_timeout_s
    if watch is None:
        return ReadBarrier(
            progress,
            events.open,
            timeout_s=timeout_s,
            count_changes=lambda: database.stats().changes,
        )
    return SharedReadBarrier(inbox, watch, events.open, timeout_s=timeout_s)


def _log_dead_letters() -> OnDeadLetter:
    """Return a function that logs dead letters: the 1st, 2nd, 4th … for each kind of reason."""
    counts: Counter[str] = Counter()

    def note(stage: Stage, uuid: str, reason: str, error: Exception | None) -> None:
        kind = reason.partition(":")[0]
        counts[kind] += 1
        if counts[kind] & (counts[kind] - 1) == 0:
            _log.error(
                "event dead-lettered: see `hedgerow events dead-letters list`",
                stage=stage,
                uuid=uuid,
                reason=reason,
                times=counts[kind],
                exc_info=error,
            )

    return note
