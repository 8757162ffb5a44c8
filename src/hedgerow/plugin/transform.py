"""What a transformation works with: the event before it is stored."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.plugin.deprecated import warn_renamed


class IncomingEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event before it is stored and before it updates its person.

    A promise to component packages, so it is separate from the form that the inbox stores.
    `properties` include `$set`, `$set_once` and `$ip`, the address of the client. Of a returned
    event only the name and the properties are used.
    """

    uuid: str
    event: str
    distinct_id: str
    properties: dict[str, Any]
    timestamp: datetime
    accepted_at: datetime

    def with_properties(self, properties: dict[str, Any]) -> "IncomingEvent":
        """Return the same event with other properties."""
        return IncomingEvent(
            uuid=self.uuid,
            event=self.event,
            distinct_id=self.distinct_id,
            properties=properties,
            timestamp=self.timestamp,
            accepted_at=self.accepted_at,
        )

    def having(self, properties: dict[str, Any]) -> "IncomingEvent":
        """Deprecated name of `with_properties`."""
        warn_renamed("IncomingEvent.having", "IncomingEvent.with_properties")
        return self.with_properties(properties)


class TransformError(Exception):
    """The event cannot be transformed. It is stored unchanged, and the message is shown with the
    record."""


# Returns the event itself if nothing changes, and None to drop it. It must be pure and fast: every
# event of the project passes through it before it is stored.
Transform = Callable[[IncomingEvent], IncomingEvent | None]
# A component's `transform`: called once with the settings, returns the function for events.
BuildTransform = Callable[[Mapping[str, Any]], Transform]
