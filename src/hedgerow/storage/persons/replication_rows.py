"""Read the current state of queued rows, in the form in which they are replicated."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection

from hedgerow.ingestion.persons.loaded_state import person_uuid
from hedgerow.lib.dates import EPOCH
from hedgerow.persons.replicas import (
    NO_PERSON_UUID,
    CohortMemberReplica,
    DistinctIdReplica,
    GroupReplica,
    PersonReplica,
    QueuedChanges,
    Replica,
)
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk

_FROM_QUEUE = " FROM mirror_queue AS q LEFT JOIN "
_WHERE_QUEUED = " WHERE q.id IN ({numbers})"
_JOIN_PERSON = " persons AS p ON p.project_id = q.project_id AND p.uuid = q.name"
_JOIN_GROUP = (
    " groups AS g ON g.project_id = q.project_id AND g.type_index = q.number AND g.key = q.name"
)
# The current state of a key, by kind of queue row. NULLs mean that the row was deleted.
_SELECT_CURRENT = {
    "person": "SELECT q.id, p.created_at, CAST(p.properties AS text), p.is_identified"
    f"{_FROM_QUEUE}{_JOIN_PERSON}{_WHERE_QUEUED}",
    "distinct_id": "SELECT q.id, p.uuid"
    f"{_FROM_QUEUE}person_distinct_ids AS d"
    " ON d.project_id = q.project_id AND d.distinct_id = q.name"
    f" LEFT JOIN persons AS p ON p.id = d.person_id{_WHERE_QUEUED}",
    "group": "SELECT q.id, g.created_at, CAST(g.properties AS text)"
    f"{_FROM_QUEUE}{_JOIN_GROUP}{_WHERE_QUEUED}",
    "member": f"SELECT q.id, m.cohort_id{_FROM_QUEUE}{_JOIN_PERSON}"
    " LEFT JOIN cohort_people AS m ON m.person_id = p.id AND m.cohort_id = q.number"
    f"{_WHERE_QUEUED}",
}
_SELECT_SIZE = {
    "person": "SELECT q.id, length(CAST(p.properties AS text))"
    f"{_FROM_QUEUE}{_JOIN_PERSON}{_WHERE_QUEUED}",
    "group": "SELECT q.id, length(CAST(g.properties AS text))"
    f"{_FROM_QUEUE}{_JOIN_GROUP}{_WHERE_QUEUED}",
}

Key = tuple[str, ProjectId, int, str]


def read_queued_rows(
    connection: Connection, after: int, limit: int, max_size: int
) -> QueuedChanges:
    rows = bulk.select(
        connection,
        "SELECT id, kind, project_id, number, name, coalesce(version, id) FROM mirror_queue"
        " WHERE id > ? AND kind <> 'all' ORDER BY id LIMIT ?",
        after,
        limit,
    )
    if all(kind == "mark" for _, kind, *_ in rows):
        return QueuedChanges(ids=(), replicas=(), size=0)
    sizes = _measure_sizes(connection, rows)
    ids: list[int] = []
    size = 0
    # Each key once, with one of its queue rows and its highest version.
    things: dict[Key, tuple[int, int]] = {}
    for id, kind, project_id, number, name, version in rows:
        key = (kind, project_id, number, name)
        if key not in things:
            if ids and size + sizes[id] > max_size:
                break
            size += sizes[id]
        ids.append(id)
        things[key] = (id, max(version, things.get(key, (0, 0))[1]))
    return QueuedChanges(ids=ids, replicas=_read_rows(connection, things), size=size)


def _measure_sizes(connection: Connection, rows: bulk.Rows) -> Mapping[int, int]:
    sizes: dict[int, int] = defaultdict(int)
    for of, sql in _SELECT_SIZE.items():
        ids = [id for id, kind, *_ in rows if kind == of]
        if ids:
            sizes.update((id, size or 0) for id, size in bulk.select(connection, sql, ids))
    return sizes


def _read_rows(connection: Connection, things: Mapping[Key, tuple[int, int]]) -> list[Replica]:
    by_kind: dict[str, dict[int, tuple[Key, int]]] = defaultdict(dict)
    for key, (id, version) in things.items():
        by_kind[key[0]][id] = key, version
    replicas: list[Replica] = []
    for kind, sql in _SELECT_CURRENT.items():
        if wanted := by_kind.get(kind):
            for id, *present in bulk.select(connection, sql, list(wanted)):
                replicas.append(_DECODERS[kind](*wanted[id], *present))
    return replicas


def _decode_person(
    key: Key, version: int, created_at: Any, properties: Any, is_identified: Any
) -> Replica:
    _, project_id, _, uuid = key
    return PersonReplica(
        project_id=project_id,
        id=uuid,
        created_at=bulk.parse_moment(created_at) if created_at else EPOCH,
        properties=properties or "",
        is_identified=bool(is_identified),
        version=version,
        is_deleted=created_at is None,
    )


def _decode_distinct_id(key: Key, version: int, uuid: Any) -> Replica:
    _, project_id, _, distinct_id = key
    return DistinctIdReplica(
        project_id=project_id,
        distinct_id=distinct_id,
        person_id=uuid or NO_PERSON_UUID,
        is_moved=bool(uuid) and uuid != person_uuid(project_id, distinct_id),
        version=version,
        is_deleted=uuid is None,
    )


def _decode_group(key: Key, version: int, created_at: Any, properties: Any) -> Replica:
    _, project_id, type_index, name = key
    return GroupReplica(
        project_id=project_id,
        group_type_index=type_index,
        group_key=name,
        created_at=bulk.parse_moment(created_at) if created_at else EPOCH,
        properties=properties or "",
        version=version,
        is_deleted=created_at is None,
    )


def _decode_member(key: Key, version: int, cohort_id: Any) -> Replica:
    _, project_id, cohort, uuid = key
    return CohortMemberReplica(
        project_id=project_id,
        cohort_id=cohort,
        person_id=uuid,
        version=version,
        is_deleted=cohort_id is None,
    )


_DECODERS: Mapping[str, Callable[..., Replica]] = {
    "person": _decode_person,
    "distinct_id": _decode_distinct_id,
    "group": _decode_group,
    "member": _decode_member,
}
