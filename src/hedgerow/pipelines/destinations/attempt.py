"""One call of a component's `deliver`, and the clients that it may use."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.events.model import Event
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.plugin.delivery import (
    UNAVAILABLE,
    Deliver,
    DeliveryContext,
    FileWriter,
    RunInThread,
    TableWriter,
    run_inline,
)
from hedgerow.plugin.http import HttpClient
from hedgerow.plugin.outcomes import Delivered, Failed, Outcome

# Longer than any timeout that a component should set for its requests.
DELIVERY_TIMEOUT_S = 60.0
REASON_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundClients:
    """The clients of a process that destinations share. Each bounds its own concurrency."""

    http: HttpClient
    files: FileWriter = UNAVAILABLE
    tables: TableWriter = UNAVAILABLE
    run_in_thread: RunInThread = run_inline

    def context_at(self, now: datetime) -> DeliveryContext:
        return DeliveryContext(
            http=self.http,
            files=self.files,
            tables=self.tables,
            run_in_thread=self.run_in_thread,
            now=now,
        )


async def attempt_delivery(
    deliver: Deliver, events: Sequence[Event], settings: Mapping[str, Any], ctx: DeliveryContext
) -> Sequence[Outcome]:
    """Call `deliver` and return one outcome per event, with reasons that can be stored and shown.

    Exceptions, timeouts and a wrong number of outcomes count as failures.
    """
    try:
        async with asyncio.timeout(DELIVERY_TIMEOUT_S):
            outcomes = await deliver(events, settings, ctx)
        if len(outcomes) == len(events):
            return [_sanitize(outcome) for outcome in outcomes]
        reason = f"The component returned {len(outcomes)} outcomes for {len(events)} events"
    except TimeoutError:
        reason = f"The component took longer than {DELIVERY_TIMEOUT_S:.0f} s"
    except BaseException as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        reason = f"The component failed: {type(error).__name__}"
    # Mark a failed batch as rejected, so that it is split: one event may have caused it.
    return [Failed(reason=reason, event_rejected=len(events) > 1)] * len(events)


def _sanitize(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Delivered):
        return outcome
    return replace(outcome, reason=replace_unstorable_characters(outcome.reason[:REASON_MAX]))
