"""Which destinations an event goes to. Pure; one router for each project, made anew when its
records change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hedgerow.events.model import Event
from hedgerow.pipelines.filters import Wants
from hedgerow.pipelines.model import RecordId


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A destination gets what was accepted while it was enabled, whenever that is looked at. Each
    of the `switches` enabled it or disabled it, in turns."""

    record_id: RecordId
    is_enabled: bool
    switches: Sequence[int]
    wants: Wants

    def takes(self, event: Event, now: datetime) -> bool:
        accepted_ms = event.created_at.timestamp() * 1000
        later = sum(switch > accepted_ms for switch in self.switches)
        return self.is_enabled is (later % 2 == 0) and self.wants(event, now)


class Router:
    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = tuple(routes)

    def destinations(self, event: Event, now: datetime) -> list[RecordId]:
        return [route.record_id for route in self._routes if route.takes(event, now)]
