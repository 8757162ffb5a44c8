"""The service: the HTTP application in front of the container, and the background tasks."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import structlog

from hedgerow.app.background_tasks import (
    build_service_tasks,
    build_usage_tasks,
    build_worker_tasks,
)
from hedgerow.app.container import Container, build_container
from hedgerow.app.event_store import event_store_location
from hedgerow.app.http.edge import HttpEdge, build_http
from hedgerow.app.periodic_tasks import PeriodicTask, run_tasks
from hedgerow.app.pipelines import register_components
from hedgerow.app.startup import DATABASE, wait_for_database
from hedgerow.app.state import (
    WRONG_ENCRYPTION_KEY,
    choose_initial_keys,
    events_folder,
    state_location,
)
from hedgerow.http.loop_holds import count_loop_holds
from hedgerow.http.server.gateway import FastHandler
from hedgerow.http.server.health import STOPPING, Readiness
from hedgerow.http.server.metrics import Metrics
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.settings import Settings
from hedgerow.storage.backup import encryption_check
from hedgerow.storage.backup.encryption_key_file import load_encryption_keys
from hedgerow.storage.connect import create_sync_engine, has_event_store
from hedgerow.storage.migrations.apply import prepare_database
from hedgerow.storage.waiting_work import must_have_stored_events

T = TypeVar("T")

LOST_EVENT_STORE = (
    "events were captured, but their folder is missing: stop the service and put it back, or "
    "restore a backup"
)

_log = structlog.get_logger("hedgerow")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCallbacks:
    """Callbacks of the service's caller."""

    ready: Callable[[InitialKeys | None], None]
    failed: Callable[[Exception], None]
    # Returns handlers that answer while the database is away at the start.
    build_fallback: Callable[[], Awaitable[Mapping[str, FastHandler]]] | None = None


@asynccontextmanager
async def run_service(
    settings: Settings, events: ServiceCallbacks, *, worker: bool
) -> AsyncIterator[HttpEdge]:
    """Run the service. It answers 503 until its database is ready."""
    container = build_container(
        settings, load_encryption_keys(settings.encryption_keys, settings.data_dir)
    )
    http = build_http(container)
    tasks = [
        *build_service_tasks(container, http.sdk_configs, http.destination_health),
        *build_usage_tasks(container, http.shared_limits),
        *(build_worker_tasks(container) if worker else []),
    ]
    background = asyncio.create_task(_run(container, tasks, http.readiness, events))
    try:
        with _expose_metrics(container.metrics, http.readiness, settings):
            async with container.telemetry.run(container.metrics.collect):
                yield http
    finally:
        http.readiness.waiting_for = STOPPING
        background.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await background
        http.payload_workers.close()
        await container.close()
        http.log.flush()


def _expose_metrics(
    metrics: Metrics, readiness: Readiness, settings: Settings
) -> AbstractContextManager[object]:
    if not settings.metrics_port:
        return contextlib.nullcontext()
    return metrics.serve(settings.metrics_host, settings.metrics_port, readiness.answer)


async def _run(
    container: Container,
    tasks: Sequence[PeriodicTask],
    readiness: Readiness,
    events: ServiceCallbacks,
) -> None:
    """Prepare the database, report that the service is ready, run the tasks until cancelled."""
    settings, pipelines = container.settings, container.pipelines
    keys = choose_initial_keys(settings)
    location = state_location(settings)
    fallback: asyncio.Task[None] | None = None

    def prepare() -> bool:
        return prepare_database(location, keys, utc_now)

    def report(waiting_for: str) -> None:
        nonlocal fallback
        readiness.waiting_for = waiting_for
        if waiting_for == DATABASE and fallback is None and events.build_fallback is not None:
            fallback = asyncio.create_task(_add_fallback(readiness, events.build_fallback))

    async def wait_for(step: Callable[[], Awaitable[T]], name: str) -> T:
        return await wait_for_database(step, name, report)

    try:
        is_new = await wait_for(lambda: run_in_thread(prepare), "applying migrations")
        await wait_for(lambda: register_components(pipelines), "loading components")
        await wait_for(container.ingestion.processor.start, "reading the inbox")
        for task in tasks:
            if not task.has_backoff:  # fill the caches before the first request
                await wait_for(task.run, "filling caches")
        if not await wait_for(
            lambda: encryption_check.check_keys(container.database, pipelines.encryption_keys),
            "checking the encryption key",
        ):
            _log.error(WRONG_ENCRYPTION_KEY)
        if await wait_for(
            lambda: run_in_thread(lambda: _is_event_store_lost(settings)), "checking the events"
        ):
            _log.error(LOST_EVENT_STORE, folder=str(events_folder(settings)))
    except Exception as error:  # noqa: BLE001 - reported to the caller, who ends the process
        events.failed(error)
        return
    readiness.waiting_for = None
    readiness.fallback = {}
    events.ready(keys if is_new else None)
    async with count_loop_holds(container.metrics):
        await run_tasks(tasks, container.task_health)


def _is_event_store_lost(settings: Settings) -> bool:
    """Return whether events were stored and the folder of the event store is gone."""
    if has_event_store(event_store_location(settings)):
        return False
    with create_sync_engine(state_location(settings)).connect() as connection:
        return must_have_stored_events(connection)


async def _add_fallback(
    readiness: Readiness, build: Callable[[], Awaitable[Mapping[str, FastHandler]]]
) -> None:
    handlers = await build()
    if readiness.waiting_for is not None:
        readiness.fallback = handlers
