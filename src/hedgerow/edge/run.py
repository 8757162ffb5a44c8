"""The edge process: follows its sources, and answers requests until it is stopped."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import structlog

from hedgerow import __version__
from hedgerow.edge.copies import DocumentCopies
from hedgerow.edge.follower import Follower, SourceStatus
from hedgerow.edge.http import EdgeServices, build_edge_gateway
from hedgerow.edge.inbox.queue import Inbox
from hedgerow.edge.inbox.sender import InboxSender
from hedgerow.edge.sources import EdgeSource
from hedgerow.edge.state import EdgeDirectoryStore, EdgeFlagStore, EdgeState
from hedgerow.errors import OperatorError
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.http.loop_holds import count_loop_holds
from hedgerow.http.payload.body_memory import MIB
from hedgerow.http.server.gateway import Gateway
from hedgerow.http.server.health import STOPPING, Readiness
from hedgerow.http.server.metrics import LabelledMetric, Metrics
from hedgerow.http.server.spans import RequestSpans
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import run_in_thread
from hedgerow.outbound.origin_client import OriginClient
from hedgerow.outbound.telemetry import Telemetry
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project
from hedgerow.settings import Settings

_log = structlog.get_logger("hedgerow.edge")


@asynccontextmanager
async def run_edge(
    settings: Settings,
    sources: Sequence[EdgeSource],
    *,
    ready: Callable[[Sequence[Project]], None],
    failed: Callable[[Exception], None],
) -> AsyncIterator[Gateway]:
    """Run an edge process. It answers 503 until it has the definitions of all sources. `failed` is
    called if the origin refuses a key that there is no copy for."""
    state = EdgeState()
    directory = Directory(EdgeDirectoryStore(state), utc_now, time.monotonic)
    flag_cache = FlagCache(EdgeFlagStore(state), run_in_thread)
    client = OriginClient(sources[0].url, f"hedgerow-edge/{__version__}")
    telemetry = Telemetry()
    spans = None if telemetry.spans is None else RequestSpans(telemetry.spans)
    inbox = await _open_inbox(settings, is_shared=len(sources) > 1)
    services = EdgeServices(
        settings, state, directory, flag_cache, client, inbox=inbox, spans=spans
    )
    sender = (
        None
        if inbox is None
        else InboxSender(inbox, client, give_up_s=settings.edge_inbox_give_up_s)
    )

    def on_contact() -> None:
        services.patience.record_success()
        if sender is not None:
            sender.wake()

    async def publish(project: Project) -> None:
        await directory.refresh()
        await flag_cache.refresh(project)

    copies = DocumentCopies(settings.data_dir)
    followers = [
        Follower(
            source,
            client,
            state,
            copies,
            publish=publish,
            on_contact=on_contact,
            poll_interval_s=settings.edge_poll_interval_s,
        )
        for source in sources
    ]
    readiness = Readiness(check_nothing, partial(_describe_inbox, inbox))
    metrics = Metrics(
        lambda: (*build_gauges(services), *_build_inbox_gauges(inbox, sender)),
        lambda: (*_build_source_metrics(state, followers), services.refusals.metric()),
    )
    gateway = build_edge_gateway(services, readiness, metrics)
    following = _follow(followers, state, readiness, ready, failed, sender)
    try:
        async with (
            telemetry.run(metrics.collect),
            run_gateway(services, gateway, metrics, following),
        ):
            yield gateway
    finally:
        if inbox is not None:
            await inbox.close()


@asynccontextmanager
async def run_gateway(
    services: EdgeServices,
    gateway: Gateway,
    metrics: Metrics,
    following: Coroutine[Any, Any, None],
) -> AsyncIterator[None]:
    """Follow the definitions while the gateway serves requests, then close the services."""
    settings = services.settings
    running = asyncio.create_task(following)
    try:
        async with count_loop_holds(metrics):
            with (
                metrics.serve(
                    settings.metrics_host, settings.metrics_port, gateway.readiness.answer
                )
                if settings.metrics_port
                else contextlib.nullcontext()
            ):
                yield
    finally:
        gateway.readiness.waiting_for = STOPPING
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        services.workers.close()
        await services.client.close()
        services.log.flush()


async def _follow(
    followers: Sequence[Follower],
    state: EdgeState,
    readiness: Readiness,
    ready: Callable[[Sequence[Project]], None],
    failed: Callable[[Exception], None],
    sender: InboxSender | None,
) -> None:
    readiness.waiting_for = "the definitions of the origin"
    async with asyncio.TaskGroup() as tasks:
        for each in followers:
            await each.start_from_copy()
            tasks.create_task(each.run())
        for each in followers:
            await each.first_answer.wait()
        projects = []
        for each in followers:
            project = state.get_project(each.source)
            if project is None:
                failed(
                    OperatorError(
                        f"The origin {each.source.url} refuses the key {each.source.mask}: "
                        f"{each.refusal}. HEDGEROW_EDGE_KEYS needs a secret key of each project: "
                        "the project page of the console and `PATCH "
                        "/api/projects/:id/rotate_secret_token/` create one."
                    )
                )
                return
            projects.append(project)
            if sender is not None:
                tasks.create_task(sender.run(each.source, project.id))
        if sender is not None:
            tasks.create_task(sender.run_commands())
        readiness.waiting_for = None
        ready(projects)


async def _open_inbox(settings: Settings, *, is_shared: bool) -> Inbox | None:
    if not settings.edge_inbox_max_mb:
        return None
    inbox = Inbox(
        settings.data_dir,
        max_bytes=settings.edge_inbox_max_mb * MIB,
        min_free_bytes=settings.min_free_disk_mb * MIB,
        is_shared=is_shared,
    )
    await inbox.open()
    return inbox


def _describe_inbox(inbox: Inbox | None) -> Mapping[str, Any]:
    if inbox is None:
        return {}
    return {
        "inbox": {
            "requests": inbox.number,
            "bytes": inbox.size,
            "oldest_age_s": round(_find_age_s(inbox), 3),
            "dead_letters": inbox.dead_number,
            "lost_requests": inbox.lost,
        }
    }


def _find_age_s(inbox: Inbox) -> float:
    return max(0.0, time.time() - inbox.oldest_us / 1e6) if inbox.oldest_us else 0.0


def _build_inbox_gauges(
    inbox: Inbox | None, sender: InboxSender | None
) -> Iterable[tuple[str, str, float]]:
    if inbox is None or sender is None:
        return
    name = "hedgerow_edge_inbox_"
    yield f"{name}requests", "Captured requests that wait for the origin.", inbox.number
    yield f"{name}bytes", "Size of what waits, and of the dead letters.", inbox.size
    yield f"{name}oldest_age_seconds", "How long the oldest has waited.", _find_age_s(inbox)
    yield f"{name}dead_letters", "Stored requests that were given up.", inbox.dead_number
    yield f"{name}lost_requests", "Stored requests whose files are damaged or gone.", inbox.lost
    yield f"{name}stored_total", "Captured requests that were stored.", inbox.stored
    yield (
        f"{name}send_failed_total",
        "Attempts to send a stored request that failed.",
        sender.failed_attempts,
    )
    yield f"{name}sent_total", "Stored requests that the origin has accepted.", sender.sent


async def check_nothing() -> None:
    """An edge process with definitions is ready, with or without its origin."""


def build_gauges(services: EdgeServices) -> Iterable[tuple[str, str, float]]:
    yield (
        "hedgerow_edge_requests_forwarded_total",
        "Requests sent on to the origin.",
        services.forwarder.forwarded,
    )
    yield (
        "hedgerow_edge_requests_forward_failed_total",
        "Requests sent on that the origin did not answer in time.",
        services.forwarder.failed,
    )
    yield (
        "hedgerow_flag_evaluations_over_budget_total",
        "Flag evaluations in which a flag failed because it takes too long.",
        services.pacer.exceeded,
    )


def _build_source_metrics(
    state: EdgeState, followers: Sequence[Follower]
) -> Iterable[LabelledMetric]:
    def build(name: str, help: str, value: Callable[[SourceStatus], float]) -> LabelledMetric:
        values: dict[tuple[str, ...], float] = {
            (str(project.id),): value(each.status)
            for each in followers
            if (project := state.get_project(each.source)) is not None
        }
        return LabelledMetric(name=name, help=help, labels=("project",), values=values)

    yield build(
        "hedgerow_edge_stream_connected",
        "1 while changes of the definitions arrive by a stream.",
        lambda status: float(status.is_connected),
    )
    yield build(
        "hedgerow_edge_key_refused",
        "1 while the origin refuses the key.",
        lambda status: float(status.is_refused),
    )
    yield build(
        "hedgerow_edge_definitions_confirmed_timestamp_seconds",
        "When the origin last confirmed the definitions.",
        lambda status: status.confirmed_at_s or 0.0,
    )
