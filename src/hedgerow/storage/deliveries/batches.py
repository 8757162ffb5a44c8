"""Batches of deliveries that wait for their first attempt."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import (
    JSON,
    BigInteger,
    Connection,
    Integer,
    Select,
    bindparam,
    cast,
    func,
    literal,
    literal_column,
    select,
    true,
)

from hedgerow.pipelines.model import RecordId
from hedgerow.storage.deliveries.new_deliveries import encode_ids
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.tables import delivery_batches as table

# Batches have up to a thousand events or only one: fetch a few, then four times as many.
MIN_FETCH_ROWS = 4
MAX_FETCH_ROWS = 1024

_decode_ids = msgspec.json.Decoder(list[int]).decode
_select_next = PreparedQuery(
    select(table.c.id, table.c.event_ids, table.c.created_ms)
    .where((table.c.record_id == bindparam("record_id")) & (table.c.id > bindparam("after")))
    .order_by(table.c.id)
    .limit(bindparam("limit"))
    .offset(literal_column("0", Integer))
)
_SELECT_SEGMENTS = "SELECT DISTINCT segment FROM delivery_events WHERE id IN ({numbers})"
# In the order of their ids, so that no two transactions wait for each other.
_SELECT_OF_RECORD = (
    "SELECT id, segment, event_ids, created_ms FROM delivery_batches"
    " WHERE segment IN ({numbers}) AND record_id = ? ORDER BY id {locked}"
)
_SELECT_OF_ALL = (
    "SELECT id, segment, event_ids, created_ms FROM delivery_batches"
    " WHERE segment IN ({numbers}) ORDER BY id {locked}"
)
_SELECT_BY_ID = (
    "SELECT id, segment, event_ids, created_ms FROM delivery_batches"
    " WHERE id IN ({numbers}) ORDER BY id {locked}"
)
_SHORTEN = "UPDATE delivery_batches SET event_ids = ?, number = ? WHERE id = ?"
_DELETE = "DELETE FROM delivery_batches WHERE id IN ({numbers})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    id: int
    event_ids: Sequence[int]
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedEvents:
    """Events that were removed from batches: how many times each, and when its last batch was
    created. `segments` are those of the batches that have ended."""

    numbers: Mapping[int, int]
    created_ms: Mapping[int, int]
    segments: Collection[int]


async def fetch_batches(
    database: Database, record_id: RecordId, number: int, after: int = 0
) -> list[Batch]:
    """Return the oldest batches of a destination until they have so many events, or all of them.
    `after` is the id of a batch."""
    found: list[Batch] = []
    limit = MIN_FETCH_ROWS
    while number > 0:
        params = {"record_id": record_id, "after": after, "limit": limit}
        rows = await database.fetch(_select_next, params)
        for id, event_ids, created_ms in rows:
            if number <= 0:
                break
            batch = Batch(id=id, event_ids=decode_ids(event_ids), created_ms=created_ms)
            found.append(batch)
            number -= len(batch.event_ids)
        if len(rows) < limit:
            break
        after = rows[-1][0]
        limit = min(4 * limit, MAX_FETCH_ROWS)
    return found


def decode_ids(event_ids: str) -> list[int]:
    """Return the ids of a batch in the order of their events. The migration of older rows does not
    keep it."""
    return sorted(_decode_ids(event_ids))


def find_segments(connection: Connection, event_ids: Iterable[int]) -> list[int]:
    rows = bulk.select(connection, _SELECT_SEGMENTS, list(event_ids))
    return [segment for (segment,) in rows]


def remove_events(
    connection: Connection,
    event_ids: Collection[int],
    segments: Sequence[int],
    record_id: RecordId | None = None,
) -> RemovedEvents:
    """Remove events from the batches of a destination, or of all. Batches that have no other event
    are deleted."""
    if record_id is None:
        rows = bulk.select(connection, _SELECT_OF_ALL, list(segments))
    else:
        rows = bulk.select(connection, _SELECT_OF_RECORD, list(segments), record_id)
    return _remove_from_rows(connection, rows, event_ids)


def remove_from_batches(
    connection: Connection, batch_ids: Sequence[int], event_ids: Collection[int]
) -> None:
    rows = bulk.select(connection, _SELECT_BY_ID, list(batch_ids))
    _remove_from_rows(connection, rows, event_ids)


def _remove_from_rows(
    connection: Connection, rows: bulk.Rows, event_ids: Collection[int]
) -> RemovedEvents:
    wanted = frozenset(event_ids)
    numbers: dict[int, int] = {}
    created: dict[int, int] = {}
    ended: dict[int, int] = {}
    for id, segment, encoded, created_ms in rows:
        ids = decode_ids(encoded)
        left = [each for each in ids if each not in wanted]
        if len(left) == len(ids):
            continue
        for each in wanted.intersection(ids):
            numbers[each] = numbers.get(each, 0) + 1
            created[each] = created_ms
        if left:
            bulk.execute(connection, _SHORTEN, encode_ids(left), len(left), id)
        else:
            ended[id] = segment
    if ended:
        bulk.execute(connection, _DELETE, list(ended))
    return RemovedEvents(numbers=numbers, created_ms=created, segments=set(ended.values()))


def build_waiting_select(connection: Connection, record_id: RecordId) -> Select[Any]:
    """Build a SELECT of the deliveries of a destination that wait for their first attempt, with the
    columns that `deliveries` has, but those of the event."""
    encoded = table.c.event_ids
    if connection.dialect.name == "sqlite":
        each = func.json_each(encoded).table_valued("value", name="each_id")
    else:
        each = func.json_array_elements_text(cast(encoded, JSON)).table_valued(
            "value", name="each_id"
        )
    return (
        select(
            cast(each.c.value, BigInteger).label("event_id"),
            literal("waiting").label("status"),
            literal(0).label("attempts"),
            literal(0).label("due_ms"),
            literal("").label("error"),
            table.c.created_ms,
        )
        .select_from(table)
        .join(each, true())
        .where(table.c.record_id == record_id)
    )
