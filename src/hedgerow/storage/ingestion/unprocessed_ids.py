"""Which persons and groups have unprocessed events. PostgreSQL only: processes share the inbox, and
each must know what the others accepted.

Rows older than the inbox count for nothing: an older version leaves them when it deletes the rows
of the inbox.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from hedgerow.ingestion.store import PendingQuery
from hedgerow.storage.engine.database import Database, PreparedInsert, PreparedQuery
from hedgerow.storage.tables.ingestion import inbox

# A reader waits for the events of so many distinct ids of its person. Each costs its readers a few
# microseconds.
MAX_DISTINCT_IDS = 500

# `hash_in_project` (`ingestion/changed_names.py`) of the distinct ids of the person `{person}`.
_KEYS_OF_PERSON = f"""
  SELECT ('x' || encode(substr(sha256(convert_to(distinct_id, 'UTF8')), 1, 8), 'hex'))
    ::bit(64)::bigint # project_id AS key
  FROM (
    SELECT distinct_id, project_id FROM person_distinct_ids
    WHERE person_id = {{person}} LIMIT {MAX_DISTINCT_IDS}
  ) AS ids
"""  # noqa: S608 - our own names

# A subquery for statements with a parameter `keys` that join a person `p`: the unprocessed events
# that change what the keys stand for, or the person, under any of its distinct ids. PostgreSQL does
# not compute any key while the inbox is empty.
UNPROCESSED_OF_PERSON = f"""
  SELECT min(u.inbox_id) AS first, (SELECT max(id) FROM inbox) AS last,
    array_agg(DISTINCT u.bucket) AS buckets
  FROM (
    SELECT unnest(CAST(:keys AS bigint[])) AS key
    UNION ALL {_KEYS_OF_PERSON.format(person="p.id")}
  ) AS k
  JOIN unprocessed_ids AS u ON u.key = k.key AND u.inbox_id >= (SELECT min(id) FROM inbox)
  WHERE (SELECT min(id) FROM inbox) IS NOT NULL
"""  # noqa: S608 - our own names

_find_buckets = PreparedQuery(
    text(f"""
SELECT k.reader, array_agg(DISTINCT u.bucket)
FROM (
  SELECT given.reader, given.key
  FROM unnest(CAST(:key_readers AS int[]), CAST(:keys AS bigint[])) AS given (reader, key)
  UNION ALL
  SELECT r.number, o.key
  FROM unnest(CAST(:projects AS bigint[]), CAST(:ids AS text[]))
    WITH ORDINALITY AS r (project_id, distinct_id, number)
  JOIN person_distinct_ids AS i
    ON i.project_id = r.project_id AND i.distinct_id = r.distinct_id
  CROSS JOIN LATERAL ({_KEYS_OF_PERSON.format(person="i.person_id")}) AS o
) AS k
JOIN unnest(CAST(:lasts AS bigint[])) WITH ORDINALITY AS until (last, reader)
  ON until.reader = k.reader
JOIN unprocessed_ids AS u ON u.key = k.key AND u.inbox_id <= until.last
  AND u.inbox_id >= (SELECT min(id) FROM inbox)
GROUP BY k.reader
""")  # noqa: S608 - our own names
)

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


_REMOVE_ROWS = (
    "WITH gone AS (DELETE FROM inbox WHERE id = ANY(%s))"
    " DELETE FROM unprocessed_ids WHERE inbox_id = ANY(%s)"
)


def remove_rows(connection: Connection, inbox_ids: Sequence[int]) -> None:
    """Remove rows of the inbox with their keys."""
    ids = list(inbox_ids)
    connection.exec_driver_sql(_REMOVE_ROWS, (ids, ids))


async def find_buckets(
    database: Database, queries: Sequence[PendingQuery]
) -> Sequence[Sequence[int]]:
    """Return, for each query, the buckets with unprocessed events that it waits for."""
    keys = [(number, key) for number, query in enumerate(queries, 1) for key in query.keys]
    rows = await database.fetch(
        _find_buckets,
        {
            "key_readers": [number for number, _ in keys],
            "keys": [key for _, key in keys],
            "projects": [query.project_id for query in queries],
            "ids": [query.distinct_id for query in queries],
            "lasts": [query.last for query in queries],
        },
    )
    found: dict[int, Sequence[int]] = dict(rows)
    return [found.get(number, ()) for number in range(1, len(queries) + 1)]
