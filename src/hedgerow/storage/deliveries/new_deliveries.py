"""New deliveries, and the form in which their events are stored."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

import msgspec
from sqlalchemy import Connection

from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.pipelines.deliveries.model import NewDelivery
from hedgerow.pipelines.model import RecordId
from hedgerow.plugin.payload import RoutedEvent
from hedgerow.storage.engine import bulk

pack_event = msgspec.msgpack.Encoder().encode
_unpack_event = msgspec.msgpack.Decoder(Event).decode
_unpack_routed = msgspec.msgpack.Decoder(RoutedEvent).decode
# Only events with groups are stored as RoutedEvent: an array with more fields, by its first byte.
_ROUTED_HEAD = bytes([0x90 | len(RoutedEvent.__struct_fields__)])

_EVENT_COLUMNS = ("id", "segment", "project_id", "uuid", "distinct_id", "event")
_BATCH_COLUMNS = ("record_id", "segment", "event_ids", "number", "created_ms")
_LAST_ID = "SELECT seq FROM sqlite_sequence WHERE name = 'delivery_events'"
_NEXT_IDS = (
    "SELECT nextval(pg_get_serial_sequence('delivery_events', 'id')) FROM generate_series(1, ?)"
)


def unpack_event(packed: bytes) -> Event | None:
    """Decode an event. Return None if it is damaged."""
    try:
        return (_unpack_routed if packed.startswith(_ROUTED_HEAD) else _unpack_event)(packed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def add_deliveries(connection: Connection, made: Sequence[NewDelivery], now: datetime) -> None:
    """Store each event once, and a batch for each destination. Call this in the transaction that
    completes their source."""
    made = [each for each in made if each.record_ids]
    if not made:
        return
    ids = _allocate_ids(connection, len(made))
    segment = ids[0]
    events = [
        (
            id,
            segment,
            each.event.project_id,
            each.event.uuid,
            each.event.distinct_id,
            pack_event(each.event),
        )
        for id, each in zip(ids, made, strict=True)
    ]
    bulk.insert(connection, "delivery_events", _EVENT_COLUMNS, events)
    by_record: dict[RecordId, list[int]] = defaultdict(list)
    for id, each in zip(ids, made, strict=True):
        for record_id in each.record_ids:
            by_record[record_id].append(id)
    created_ms = int(now.timestamp() * 1000)
    batches = [
        (record_id, segment, encode_ids(event_ids), len(event_ids), created_ms)
        for record_id, event_ids in by_record.items()
    ]
    bulk.insert(connection, "delivery_batches", _BATCH_COLUMNS, batches)


def encode_ids(ids: Sequence[int]) -> str:
    return jsonio.encode(ids).decode()


def _allocate_ids(connection: Connection, number: int) -> Sequence[int]:
    """Return unused ids, in ascending order. They are known before the events are stored, so that
    both engines insert many rows at once."""
    if connection.dialect.name == "postgresql":
        return sorted(id for (id,) in bulk.select(connection, _NEXT_IDS, number))
    last = connection.exec_driver_sql(_LAST_ID).scalar() or 0
    return range(last + 1, last + 1 + number)
