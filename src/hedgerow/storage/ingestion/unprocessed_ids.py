"""Which persons and groups have unprocessed events. PostgreSQL only: processes share the inbox, and
each must know what the others accepted.

Rows older than the inbox count for nothing: an older version leaves them when it deletes the rows
of the inbox.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    any_,
    bindparam,
    exists,
    func,
    select,
)

from hedgerow.ingestion.store import UnprocessedRows
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database, PreparedInsert, PreparedQuery
from hedgerow.storage.ingestion_tables import inbox
from hedgerow.storage.ingestion_tables import unprocessed_ids as table

_KEYS = "keys"

_is_unprocessed = (table.c.key == any_(bindparam(_KEYS, type_=ARRAY(BigInteger)))) & (
    table.c.inbox_id >= select(func.min(inbox.c.id)).scalar_subquery()
)
_select_rows = PreparedQuery(
    select(
        table.c.key,
        func.min(table.c.inbox_id),
        func.max(table.c.inbox_id),
        func.min(table.c.bucket),
    )
    .where(_is_unprocessed)
    .group_by(table.c.key)
)

# A condition for queries with a parameter `keys`: whether unprocessed events change one of these.
HAS_UNPROCESSED: ColumnElement[bool] = exists().where(_is_unprocessed)

# Adds rows to the inbox with the keys of each: hashes as decimal numbers with commas. One statement
# for both tables and for the rows of many requests: capture waits for it.
INSERT_ROWS = PreparedInsert(
    table=inbox,
    columns=("bucket", "project_id", "events", "number", "accepted_ms", "keys"),
    array_sql="""
WITH new AS (
  SELECT nextval(pg_get_serial_sequence('inbox', 'id')) AS id, given.*
  FROM unnest(%b::int[], %b::bigint[], %b::bytea[], %b::int[], %b::bigint[], %b::text[])
    AS given (bucket, project_id, events, number, accepted_ms, keys)
), added AS (
  INSERT INTO inbox (id, bucket, project_id, events, number, accepted_ms)
  SELECT id, bucket, project_id, events, number, accepted_ms FROM new
)
INSERT INTO unprocessed_ids (key, inbox_id, bucket)
SELECT hash # project_id, id, bucket FROM new, unnest(('{' || keys || '}')::bigint[]) AS hash
""",
)


def remove_rows(connection: Connection, inbox_ids: Sequence[int]) -> None:
    gone = "DELETE FROM unprocessed_ids WHERE inbox_id IN ({numbers})"
    bulk.execute(connection, gone, list(inbox_ids))


async def find_rows(database: Database, keys: Sequence[int]) -> Mapping[int, UnprocessedRows]:
    """Return the unprocessed rows for those of these keys that have some."""
    rows = await database.fetch(_select_rows, {_KEYS: list(keys)})
    return {
        key: UnprocessedRows(first=first, last=last, bucket=bucket)
        for key, first, last, bucket in rows
    }
