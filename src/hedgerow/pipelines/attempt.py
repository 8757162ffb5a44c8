"""One call of a component's `deliver`, whatever it does."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hedgerow.events.model import Event
from hedgerow.lib.text import storable_text
from hedgerow.pipelines.sending import Deliver, Failed, Outcome, Sent, Surroundings

# A component that takes longer than this has forgotten its own bounds.
SEND_S = 60.0
REASON_MAX = 500


async def attempted(
    deliver: Deliver, events: Sequence[Event], settings: Mapping[str, Any], around: Surroundings
) -> Sequence[Outcome]:
    """An outcome for each event, with reasons that can be stored and shown."""
    try:
        async with asyncio.timeout(SEND_S):
            outcomes = await deliver(events, settings, around)
        if len(outcomes) == len(events):
            return [_bounded(outcome) for outcome in outcomes]
        reason = f"The component told of {len(outcomes)} events instead of {len(events)}"
    except TimeoutError:
        reason = f"The component took longer than {SEND_S:.0f} s"
    except BaseException as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        reason = f"The component failed: {type(error).__name__}"
    # Sent one by one, the others arrive if only one of them is more than the component can bear.
    return [Failed(reason=reason, is_events_fault=len(events) > 1)] * len(events)


def _bounded(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Sent):
        return outcome
    return replace(outcome, reason=storable_text(outcome.reason[:REASON_MAX]))
