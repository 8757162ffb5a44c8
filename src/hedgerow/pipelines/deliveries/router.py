"""Decides which destinations an event goes to. Pure: each project has one router, which is rebuilt
when its records change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hedgerow.events.model import Event
from hedgerow.pipelines.event_filters import EventPredicate
from hedgerow.pipelines.model import RecordId


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A destination receives the events that were accepted while it was enabled, even if they are
    routed later. `switches` are the times at which it was enabled and disabled, alternately."""

    record_id: RecordId
    is_enabled: bool
    switches: Sequence[int]
    matches: EventPredicate

    def accepts(self, event: Event, now: datetime) -> bool:
        accepted_ms, now_ms = event.created_at.timestamp() * 1000, now.timestamp() * 1000
        # A switch in the future happened before the clock was set back, and so before the event.
        later = sum(accepted_ms < switch <= now_ms for switch in self.switches)
        return self.is_enabled is (later % 2 == 0) and self.matches(event, now)


class DestinationRouter:
    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = tuple(routes)

    def destinations(self, event: Event, now: datetime) -> list[RecordId]:
        return [route.record_id for route in self._routes if route.accepts(event, now)]
