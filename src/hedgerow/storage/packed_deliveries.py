"""Events as deliveries keep them. Few have groups; the others are shorter by that field."""

import msgspec

from hedgerow.events.model import Event
from hedgerow.pipelines.routed import RoutedEvent

packed_event = msgspec.msgpack.Encoder().encode

_event = msgspec.msgpack.Decoder(Event).decode
_routed = msgspec.msgpack.Decoder(RoutedEvent).decode
# How an array of so many begins.
_ROUTED_HEAD = bytes([0x90 | len(RoutedEvent.__struct_fields__)])


def unpacked_event(packed: bytes) -> Event | None:
    """None for what cannot be read."""
    try:
        return (_routed if packed.startswith(_ROUTED_HEAD) else _event)(packed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
