"""New deliveries, and the form in which their events are stored."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from sqlalchemy import Connection

from hedgerow.events.model import Event
from hedgerow.pipelines.deliveries.model import NewDelivery
from hedgerow.plugin.payload import RoutedEvent
from hedgerow.storage.engine import bulk
from hedgerow.storage.tables import deliveries as table

_COLUMNS = tuple(column.name for column in table.c if column.name != "id")

pack_event = msgspec.msgpack.Encoder().encode
_unpack_event = msgspec.msgpack.Decoder(Event).decode
_unpack_routed = msgspec.msgpack.Decoder(RoutedEvent).decode
# Only events with groups are stored as RoutedEvent: an array with more fields, by its first byte.
_ROUTED_HEAD = bytes([0x90 | len(RoutedEvent.__struct_fields__)])


def unpack_event(packed: bytes) -> Event | None:
    """Decode an event. Return None if it is damaged."""
    try:
        return (_unpack_routed if packed.startswith(_ROUTED_HEAD) else _unpack_event)(packed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def add_deliveries(connection: Connection, made: Sequence[NewDelivery], now: datetime) -> None:
    """Queue deliveries. Call this in the transaction that completes their source."""
    created_ms = int(now.timestamp() * 1000)
    bulk.insert(
        connection,
        "deliveries",
        _COLUMNS,
        [
            (
                each.event.project_id,
                each.record_id,
                each.event.uuid,
                each.event.distinct_id,
                pack_event(each.event),
                "waiting",
                0,
                0,
                "",
                created_ms,
            )
            for each in made
        ],
    )
