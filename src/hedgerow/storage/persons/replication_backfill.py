"""Backfill: queue all rows of the replicated tables.

Needed when there are no replicas yet, or when the replicas belong to another state of the database,
for example after a restore from a backup.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from hedgerow.lib import jsonio
from hedgerow.persons.replicas import (
    REPLICA_KINDS,
    BackfillFinished,
    CohortMemberReplica,
    DistinctIdReplica,
    GroupReplica,
    PersonReplica,
)
from hedgerow.storage.engine import bulk

END_OF_TABLE = ""

_QUEUE_KEYS = "INSERT INTO mirror_queue (kind, project_id, number, name, version) SELECT "
# For each kind of row: its key columns, the smallest key, and the SELECT that queues its rows.
_BACKFILLS: Mapping[int, tuple[str, list[Any], str]] = {
    REPLICA_KINDS.index(PersonReplica): (
        "t.id",
        [0],
        "'person', t.project_id, 0, t.uuid, ? FROM persons AS t",
    ),
    REPLICA_KINDS.index(DistinctIdReplica): (
        "t.project_id, t.distinct_id",
        [0, ""],
        "'distinct_id', t.project_id, 0, t.distinct_id, ? FROM person_distinct_ids AS t",
    ),
    REPLICA_KINDS.index(GroupReplica): (
        "t.project_id, t.type_index, t.key",
        [0, 0, ""],
        "'group', t.project_id, t.type_index, t.key, ? FROM groups AS t",
    ),
    REPLICA_KINDS.index(CohortMemberReplica): (
        "t.person_id, t.cohort_id",
        [0, 0],
        "'member', p.project_id, t.cohort_id, p.uuid, ? FROM cohort_people AS t"
        " JOIN persons AS p ON p.id = t.person_id",
    ),
}


def backfill_step(connection: Connection, limit: int) -> BackfillFinished | None:
    walks = bulk.select(
        connection,
        "SELECT id, number, name FROM mirror_queue WHERE kind = 'all' ORDER BY id LIMIT 1 {locked}",
    )
    if not walks:
        return None
    [(version, kind, position)] = walks
    if position == END_OF_TABLE:
        [(waiting,)] = bulk.select(
            connection, "SELECT count(*) FROM mirror_queue WHERE version = ?", version
        )
        return None if waiting else BackfillFinished(id=version, kind=REPLICA_KINDS[kind])
    columns, _, queued = _BACKFILLS[kind]
    start = jsonio.decode(position)
    holes = ", ".join("?" for _ in start)
    table = queued.partition(" FROM ")[2]
    ends = bulk.select(
        connection,
        f"SELECT {columns} FROM {table} WHERE ({columns}) > ({holes})"  # noqa: S608
        f" ORDER BY {columns} LIMIT 1 OFFSET ?",
        *start,
        limit - 1,
    )
    upto = f" AND ({columns}) <= ({holes})" if ends else ""
    end = list(ends[0]) if ends else []
    bulk.select(
        connection,
        f"{_QUEUE_KEYS}{queued} WHERE ({columns}) > ({holes}){upto} RETURNING id",
        version,
        *start,
        *end,
    )
    moved = "UPDATE mirror_queue SET name = r.name FROM {rows} WHERE mirror_queue.id = r.id"
    next_place = jsonio.encode(end).decode() if end else END_OF_TABLE
    bulk.execute_many(connection, moved, ("id", "name"), [(version, next_place)])
    return None


def start_backfill(connection: Connection, newest_replica: int) -> None:
    """Start a backfill, unless one is running or the replicas match this database."""
    if _is_in_sync(connection, newest_replica):
        return
    is_postgres = connection.dialect.name == "postgresql"
    if is_postgres:
        # Wait for running transactions. They already drew a queue number, which must not be lower
        # than the version of a replica that lacks their change.
        connection.exec_driver_sql(
            "LOCK TABLE persons, person_distinct_ids, groups, cohort_people, mirror_queue"
            " IN SHARE ROW EXCLUSIVE MODE"
        )
        if _is_in_sync(connection, newest_replica):
            return
    drawn = "nextval(pg_get_serial_sequence('mirror_queue', 'id'))" if is_postgres else "0"
    [(last, number)] = bulk.select(
        connection,
        f"SELECT max(id), {drawn} FROM mirror_queue",  # noqa: S608
    )
    first = max(last or 0, number, newest_replica) + 1
    bulk.execute_many(
        connection,
        "INSERT INTO mirror_queue (id, kind, project_id, number, name) {values}",
        ("id", "kind", "project_id", "number", "name"),
        [
            (first + position, "all", 0, kind, jsonio.encode(least).decode())
            for position, (kind, (_, least, _)) in enumerate(_BACKFILLS.items())
        ],
    )
    if is_postgres:
        connection.exec_driver_sql(
            "SELECT setval(pg_get_serial_sequence('mirror_queue', 'id'), %s)",
            (first + len(_BACKFILLS),),
        )


def _is_in_sync(connection: Connection, newest_replica: int) -> bool:
    """Return whether the replicas and the queue together match this database.

    If there are no replicas, they match only if everything is queued: a backfill is running, or
    nothing was ever taken from the queue.
    """
    [(last, walks, first)] = bulk.select(
        connection,
        "SELECT (SELECT max(id) FROM mirror_queue),"
        " (SELECT count(*) FROM mirror_queue WHERE kind = 'all'),"
        " (SELECT count(*) FROM mirror_queue WHERE id = 1 AND kind <> 'mark')",
    )
    return newest_replica <= (last or 0) and bool(newest_replica or walks or first or last is None)
