"""Decides which destinations an event goes to. Pure: each project has one router, which is rebuilt
when its records change.
"""

from collections.abc import Iterator, Sequence
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

    def accepts(self, accepted_ms: float, now_ms: float) -> bool:
        # A switch in the future happened before the clock was set back, and so before the event.
        later = sum(accepted_ms < switch <= now_ms for switch in self.switches)
        return self.is_enabled is (later % 2 == 0)

    @property
    def last_switch_ms(self) -> int:
        return max(self.switches, default=0)


class DestinationRouter:
    def __init__(self, routes: Sequence[Route]) -> None:
        self._enabled = [each for each in routes if each.is_enabled]
        # Those whose last switch is before an event do not get it: none after them does.
        disabled = (each for each in routes if not each.is_enabled)
        self._disabled = sorted(disabled, key=lambda each: each.last_switch_ms, reverse=True)

    def destinations(self, event: Event, now: datetime) -> list[RecordId]:
        accepted_ms, now_ms = event.created_at.timestamp() * 1000, now.timestamp() * 1000
        return [
            route.record_id
            for route in self._list_candidates(accepted_ms)
            if route.accepts(accepted_ms, now_ms) and route.matches(event, now)
        ]

    def _list_candidates(self, accepted_ms: float) -> Iterator[Route]:
        yield from self._enabled
        for route in self._disabled:
            if route.last_switch_ms <= accepted_ms:
                break
            yield route
