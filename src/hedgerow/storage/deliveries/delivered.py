"""UUIDs of delivered events, by the second of their timestamp. A replay skips them.

One row holds the UUIDs of one batch and second, so that a busy destination adds few rows.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, insert, select

from hedgerow.events.model import Event
from hedgerow.pipelines.model import RecordId
from hedgerow.storage.engine import bulk
from hedgerow.storage.tables import delivered_events as table

UUID_BYTES = 16

_OLD = (
    "SELECT id FROM (SELECT id, created_ms FROM delivered_events ORDER BY id LIMIT ?) AS first"
    " WHERE created_ms < ?"
)
_FORGET = "DELETE FROM delivered_events WHERE id IN ({numbers})"


def add_delivered(
    connection: Connection, record_id: RecordId, events: Sequence[Event], now: datetime
) -> None:
    by_second: dict[int, list[bytes]] = defaultdict(list)
    for event in events:
        by_second[_get_second(event)].append(UUID(event.uuid).bytes)
    if by_second:
        created_ms = int(now.timestamp() * 1000)
        rows = [
            {
                "record_id": record_id,
                "second": second,
                "uuids": b"".join(uuids),
                "created_ms": created_ms,
            }
            for second, uuids in by_second.items()
        ]
        connection.execute(insert(table), rows)


def find_delivered(
    connection: Connection, record_id: RecordId, events: Sequence[Event]
) -> set[str]:
    """Return the UUIDs of those events that were delivered."""
    wanted = {UUID(event.uuid).bytes: event.uuid for event in events}
    seconds = [_get_second(event) for event in events]
    rows = connection.execute(
        select(table.c.uuids).where(
            (table.c.record_id == record_id) & table.c.second.between(min(seconds), max(seconds))
        )
    )
    delivered = set()
    for (uuids,) in rows:
        for start in range(0, len(uuids), UUID_BYTES):
            uuid = wanted.get(uuids[start : start + UUID_BYTES])
            if uuid is not None:
                delivered.add(uuid)
    return delivered


def delete_old_delivered(before_ms: int, at_most: int, connection: Connection) -> int:
    """Delete one batch of old rows and return their number. Rows are in order of creation."""
    old = [id for (id,) in bulk.select(connection, _OLD, at_most, before_ms)]
    return bulk.execute(connection, _FORGET, old) if old else 0


def _get_second(event: Event) -> int:
    return int(event.timestamp.timestamp())
