"""One call of a component's `deliver`, and the clients that it may use."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from hedgerow.events.model import Event
from hedgerow.events.tracing import SpanLog
from hedgerow.lib.fair_queue import Places
from hedgerow.lib.optional_packages import name_error
from hedgerow.lib.sync_bridge import run_bridged
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.pipelines.destinations.delivery_spans import DeliverySpan
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.secret_mask import SecretMask
from hedgerow.plugin.delivery import (
    UNAVAILABLE,
    CheckAddress,
    Deliver,
    DeliveryContext,
    FileWriter,
    RunInThread,
    TableWriter,
    refuse_address,
    run_inline,
)
from hedgerow.plugin.http import HttpClient
from hedgerow.plugin.outcomes import Delivered, Failed, Outcome, mask_secrets
from hedgerow.plugin.templates import RemoteRender, remote_render
from hedgerow.projects.model import ProjectId

# Longer than any timeout that a component should set for its requests.
DELIVERY_TIMEOUT_S = 60.0
# Attempts that begin at the same time: a project gets half of these while it is alone. Other work
# of the event loop waits for so many at most.
CONCURRENT_STARTS = 32
CONCURRENT_LARGE_STARTS = 4
LARGE_START_BYTES = 64 * 1024
# An attempt that takes longer waits for its receiver.
START_S = 0.01
REASON_MAX = 500


class TemplateRenderer(Protocol):
    """Renders templates in another process; see TemplateWorkers."""

    async def render(
        self,
        source: bytes,
        payload: Mapping[str, Any],
        *,
        project_id: ProjectId,
        record_id: RecordId,
    ) -> Any: ...


class AttemptStarts:
    """Projects take turns to begin attempts. An attempt costs this process most when it begins:
    then its events are rendered, encoded, signed and sent. How many wait for receivers is not
    limited here."""

    def __init__(self) -> None:
        self._small: Places[ProjectId] = Places(CONCURRENT_STARTS)
        self._large: Places[ProjectId] = Places(CONCURRENT_LARGE_STARTS)

    def hold(
        self, project_id: ProjectId, events: Sequence[Event]
    ) -> AbstractAsyncContextManager[None]:
        size = sum(len(each.properties) + len(each.person_properties) for each in events)
        places = self._small if size < LARGE_START_BYTES else self._large
        return places.hold(project_id, START_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundClients:
    """The clients of a process that destinations share. Each bounds its own concurrency."""

    http: HttpClient
    files: FileWriter = UNAVAILABLE
    tables: TableWriter = UNAVAILABLE
    run_in_thread: RunInThread = run_inline
    check_address: CheckAddress = refuse_address
    templates: TemplateRenderer | None = None
    # Where the spans of deliveries are collected, if they are exported.
    spans: SpanLog | None = None
    starts: AttemptStarts = field(default_factory=AttemptStarts)

    def context_at(self, now: datetime, traceparent: str) -> DeliveryContext:
        return DeliveryContext(
            http=self.http,
            files=self.files,
            tables=self.tables,
            run_in_thread=self.run_in_thread,
            check_address=self.check_address,
            now=now,
            traceparent=traceparent,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTarget:
    """A record's component with its decrypted settings, and a mask for the secrets in them."""

    project_id: ProjectId
    record_id: RecordId
    deliver: Deliver
    settings: Mapping[str, Any]
    mask: SecretMask


async def attempt_delivery(
    target: DeliveryTarget, events: Sequence[Event], clients: OutboundClients, now: datetime
) -> Sequence[Outcome]:
    """Call `deliver` and return one outcome per event, with reasons that can be stored and shown:
    secrets are masked.

    Exceptions, timeouts and a wrong number of outcomes count as failures.
    """
    span = DeliverySpan(events, clients.spans)
    context = clients.context_at(now, span.traceparent)
    outcomes = await _attempt(target, events, clients, context)
    span.end(target.project_id, target.record_id, outcomes)
    return outcomes


async def _attempt(
    target: DeliveryTarget,
    events: Sequence[Event],
    clients: OutboundClients,
    context: DeliveryContext,
) -> Sequence[Outcome]:
    async def call() -> Sequence[Outcome]:
        return await target.deliver(events, target.settings, context)

    try:
        async with asyncio.timeout(DELIVERY_TIMEOUT_S):
            with _use_services(target, clients):
                outcomes = await run_bridged(call())
        if len(outcomes) == len(events):
            return [_sanitize(outcome, target.mask) for outcome in outcomes]
        reason = f"The component returned {len(outcomes)} outcomes for {len(events)} events"
    except TimeoutError:
        reason = f"The component took longer than {DELIVERY_TIMEOUT_S:.0f} s"
    except BaseException as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        reason = f"The component failed: {name_error(error)}"
    # Mark a failed batch as rejected, so that it is split: one event may have caused it.
    return [Failed(reason=reason, event_rejected=len(events) > 1)] * len(events)


@contextmanager
def _use_services(target: DeliveryTarget, clients: OutboundClients) -> Iterator[None]:
    """Give the functions of `hedgerow.plugin` what they need while the component runs."""
    render: RemoteRender | None = None
    if clients.templates is not None:
        render = partial(
            clients.templates.render, project_id=target.project_id, record_id=target.record_id
        )
    render_token = remote_render.set(render)
    mask_token = mask_secrets.set((target.mask.apply, 4 * target.mask.margin))
    try:
        yield
    finally:
        remote_render.reset(render_token)
        mask_secrets.reset(mask_token)


def _sanitize(outcome: Outcome, mask: SecretMask) -> Outcome:
    if isinstance(outcome, Delivered):
        return outcome
    reason = mask.cut(str(outcome.reason), REASON_MAX)
    return replace(outcome, reason=replace_unstorable_characters(reason))
