"""Requests that are made of events by a template, one for all of a batch. An event that the
template does not fit fails alone.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from hedgerow.events.model import Event
from hedgerow.pipelines.sending import CannotSend, Failed, Outcome
from hedgerow.pipelines.templates import TemplateProblem

T = TypeVar("T")


async def deliver_made(
    events: Sequence[Event],
    make: Callable[[Event], T],
    send: Callable[[Mapping[str, T]], Awaitable[Outcome]],
) -> Sequence[Outcome]:
    """`make` gives what is sent of an event, or raises TemplateProblem; `send` gets all of it, by
    the events' uuids."""
    outcomes: dict[str, Outcome] = {}
    made = {}
    for event in events:
        try:
            made[event.uuid] = make(event)
        except TemplateProblem as problem:
            outcomes[event.uuid] = Failed(reason=str(problem), is_final=True, is_events_fault=True)
    if made:
        try:
            sent = await send(made)
        except CannotSend as reason:
            sent = Failed(reason=str(reason))
        outcomes |= dict.fromkeys(made, sent)
    return [outcomes[event.uuid] for event in events]
