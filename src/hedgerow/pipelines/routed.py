"""An event on its way out, with its groups as they were when it was routed."""

from hedgerow.events.model import Event


class RoutedEvent(Event, frozen=True, kw_only=True, array_like=True):
    """`groups` is JSON text: index, key and properties by the name of the type."""

    groups: str
