"""How far the inbox stream is processed: a position per bucket, in PostgreSQL. The transaction that
changes persons moves it, so an event has its effect once.

Positions belong to an era of the stream. A stream that was created anew, or that lost messages
which are processed already, begins another era: its sequence numbers occur again.
"""

from collections.abc import Mapping

import msgspec
from sqlalchemy import Connection, bindparam, select, text

from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.tables.ingestion import inbox_positions as table


class BucketPosition(msgspec.Struct, frozen=True):
    """The last row of a bucket that is processed, and how many events of the next one are."""

    last_id: int = 0
    events: int = 0


_select_positions = PreparedQuery(
    select(table.c.bucket, table.c.last_id, table.c.events).where(table.c.era == bindparam("era"))
)
_MOVE = text(
    "INSERT INTO inbox_positions (era, bucket, last_id, events)"
    " VALUES (:era, :bucket, :last_id, :events) ON CONFLICT (era, bucket)"
    " DO UPDATE SET last_id = excluded.last_id, events = excluded.events"
)
_BEGIN_ERA = text(
    "INSERT INTO inbox_positions (era, bucket, last_id, events)"
    " SELECT :new, bucket, least(last_id, :last_id), CASE WHEN last_id < :last_id THEN events"
    " ELSE 0 END FROM inbox_positions WHERE era = :old ON CONFLICT DO NOTHING"
)


async def fetch_positions(database: Database, era: str) -> Mapping[int, BucketPosition]:
    rows = await database.fetch(_select_positions, {"era": era})
    return {bucket: BucketPosition(last_id, events) for bucket, last_id, events in rows}


def read_position(connection: Connection, era: str, bucket: int) -> BucketPosition:
    own = (table.c.era == era) & (table.c.bucket == bucket)
    row = connection.execute(select(table.c.last_id, table.c.events).where(own)).first()
    return BucketPosition(*row) if row else BucketPosition()


def move_position(connection: Connection, era: str, bucket: int, position: BucketPosition) -> None:
    values = {"era": era, "bucket": bucket, "last_id": position.last_id}
    connection.execute(_MOVE, values | {"events": position.events})


async def begin_era(database: Database, old: str, new: str, last_id: int) -> None:
    """Copy the positions of an era to another one, but none behind this row."""
    values = {"old": old, "new": new, "last_id": last_id}
    await database.write(lambda connection: connection.execute(_BEGIN_ERA, values).close())
