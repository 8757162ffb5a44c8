"""Going through whole tables, so that everything is copied: where there is no copy of anything yet,
or where the copies are of another state than ours, restored from a backup for instance.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from hedgerow.lib import jsonio
from hedgerow.persons.mirrored import (
    KINDS,
    DistinctIdCopy,
    Finished,
    GroupCopy,
    MemberCopy,
    PersonCopy,
)
from hedgerow.storage import bulk

AT_THE_END = ""

_QUEUE_KEYS = "INSERT INTO mirror_queue (kind, project_id, number, name, version) SELECT "
# How to go through everything of a kind: its key, the least of it, and how it is queued.
_WALKS: Mapping[int, tuple[str, list[Any], str]] = {
    KINDS.index(PersonCopy): (
        "t.id",
        [0],
        "'person', t.project_id, 0, t.uuid, ? FROM persons AS t",
    ),
    KINDS.index(DistinctIdCopy): (
        "t.project_id, t.distinct_id",
        [0, ""],
        "'distinct_id', t.project_id, 0, t.distinct_id, ? FROM person_distinct_ids AS t",
    ),
    KINDS.index(GroupCopy): (
        "t.project_id, t.type_index, t.key",
        [0, 0, ""],
        "'group', t.project_id, t.type_index, t.key, ? FROM groups AS t",
    ),
    KINDS.index(MemberCopy): (
        "t.person_id, t.cohort_id",
        [0, 0],
        "'member', p.project_id, t.cohort_id, p.uuid, ? FROM cohort_people AS t"
        " JOIN persons AS p ON p.id = t.person_id",
    ),
}


def walk_on(connection: Connection, limit: int) -> Finished | None:
    walks = bulk.select(
        connection,
        "SELECT id, number, name FROM mirror_queue WHERE kind = 'all' ORDER BY id LIMIT 1 {locked}",
    )
    if not walks:
        return None
    [(version, kind, place)] = walks
    if place == AT_THE_END:
        [(waiting,)] = bulk.select(
            connection, "SELECT count(*) FROM mirror_queue WHERE version = ?", version
        )
        return None if waiting else Finished(id=version, kind=KINDS[kind])
    columns, _, queued = _WALKS[kind]
    start = jsonio.decode(place)
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
    next_place = jsonio.encode(end).decode() if end else AT_THE_END
    bulk.run(connection, moved, ("id", "name"), [(version, next_place)])
    return None


def begin(connection: Connection, newest_copy: int) -> None:
    """Unless it has begun, or the copies are of this state as far as their versions tell."""
    if _is_ours(connection, newest_copy):
        return
    is_postgres = connection.dialect.name == "postgresql"
    if is_postgres:
        # Who changes something at this moment is waited for: their number is drawn already, and
        # must not be smaller than that of a copy which does not show their change.
        connection.exec_driver_sql(
            "LOCK TABLE persons, person_distinct_ids, groups, cohort_people, mirror_queue"
            " IN SHARE ROW EXCLUSIVE MODE"
        )
        if _is_ours(connection, newest_copy):
            return
    drawn = "nextval(pg_get_serial_sequence('mirror_queue', 'id'))" if is_postgres else "0"
    [(last, number)] = bulk.select(
        connection,
        f"SELECT max(id), {drawn} FROM mirror_queue",  # noqa: S608
    )
    first = max(last or 0, number, newest_copy) + 1
    bulk.run(
        connection,
        "INSERT INTO mirror_queue (id, kind, project_id, number, name) {values}",
        ("id", "kind", "project_id", "number", "name"),
        [
            (first + place, "all", 0, kind, jsonio.encode(least).decode())
            for place, (kind, (_, least, _)) in enumerate(_WALKS.items())
        ],
    )
    if is_postgres:
        connection.exec_driver_sql(
            "SELECT setval(pg_get_serial_sequence('mirror_queue', 'id'), %s)",
            (first + len(_WALKS),),
        )


def _is_ours(connection: Connection, newest_copy: int) -> bool:
    """Whether the copies, with what is queued, are of this state. Without any copy they are only if
    everything is queued: all is gone through, or nothing was ever taken from the queue."""
    [(last, walks, first)] = bulk.select(
        connection,
        "SELECT (SELECT max(id) FROM mirror_queue),"
        " (SELECT count(*) FROM mirror_queue WHERE kind = 'all'),"
        " (SELECT count(*) FROM mirror_queue WHERE id = 1 AND kind <> 'mark')",
    )
    return newest_copy <= (last or 0) and bool(newest_copy or walks or first or last is None)
