"""One call of a component's `deliver`, and the clients that it may use."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from hedgerow.events.model import Event
from hedgerow.events.tracing import SpanLog
from hedgerow.lib.optional_packages import name_error
from hedgerow.lib.sync_bridge import run_bridged
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.lib.workers.fair_queue import Starts
from hedgerow.lib.workers.sender import work_for
from hedgerow.lib.workers.sender_places import limit_time
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
from hedgerow.projects.model import ProjectId, name_sender

# Longer than any timeout that a component should set for its requests. The time that an attempt
# waits for its place, while others of its project run, does not count.
DELIVERY_TIMEOUT_S = 60.0
# An attempt takes the event loop about 0.5 ms in all, and as much more for each of so many bytes.
STARTS_PER_ITERATION = 4
BYTES_PER_START = 32 * 1024
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


def estimate_starts(events: Sequence[Event]) -> float:
    """Return the cost of an attempt for `OutboundClients.starts`."""
    size = sum(len(each.properties) + len(each.person_properties) for each in events)
    return 1 + size / BYTES_PER_START


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
    # Attempts of projects take turns to begin.
    starts: Starts[ProjectId] = field(default_factory=lambda: Starts(STARTS_PER_ITERATION))

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
        with work_for(name_sender(target.project_id)):
            async with limit_time(DELIVERY_TIMEOUT_S):
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
