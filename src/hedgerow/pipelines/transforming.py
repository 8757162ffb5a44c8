"""What a transformation component works with: an event on its way in, and what it makes of it.

A component's `transform` is given its settings once and answers with a function of one event. That
function is pure: the same event gives the same result, it keeps nothing and waits for nothing, for
every event of the project goes through it before it is stored.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """An event before it is stored and before it changes its person. `$set`, `$set_once` and the
    sender's address, `$ip`, are among the properties. Only the name and the properties of what is
    answered count."""

    uuid: str
    event: str
    distinct_id: str
    properties: dict[str, Any]
    timestamp: datetime
    accepted_at: datetime

    def having(self, properties: dict[str, Any]) -> "Incoming":
        """The same event with other properties."""
        return Incoming(
            uuid=self.uuid,
            event=self.event,
            distinct_id=self.distinct_id,
            properties=properties,
            timestamp=self.timestamp,
            accepted_at=self.accepted_at,
        )


class CannotTransform(Exception):
    """Why nothing can be made of an event, for people to read. The event stays as it is."""


# The event itself if nothing changes, None if it is dropped.
Transform = Callable[[Incoming], Incoming | None]
MakeTransform = Callable[[Mapping[str, Any]], Transform]
