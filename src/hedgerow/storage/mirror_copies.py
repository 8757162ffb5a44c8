"""What is there now of the things whose keys are queued, read as their copies will be."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection

from hedgerow.persons.changes import NEVER
from hedgerow.persons.known import person_uuid
from hedgerow.persons.mirrored import (
    NOBODY,
    Copy,
    DistinctIdCopy,
    GroupCopy,
    MemberCopy,
    PersonCopy,
    Taken,
)
from hedgerow.projects.model import ProjectId
from hedgerow.storage import bulk

_OLD = " FROM mirror_queue AS q LEFT JOIN "
_THESE = " WHERE q.id IN ({numbers})"
_PERSON = " persons AS p ON p.project_id = q.project_id AND p.uuid = q.name"
_GROUP = (
    " groups AS g ON g.project_id = q.project_id AND g.type_index = q.number AND g.key = q.name"
)
# What is there of a key, by the kind of the row that names it: nulls if it is gone.
_PRESENT = {
    "person": "SELECT q.id, p.created_at, CAST(p.properties AS text), p.is_identified"
    f"{_OLD}{_PERSON}{_THESE}",
    "distinct_id": "SELECT q.id, p.uuid"
    f"{_OLD}person_distinct_ids AS d"
    " ON d.project_id = q.project_id AND d.distinct_id = q.name"
    f" LEFT JOIN persons AS p ON p.id = d.person_id{_THESE}",
    "group": f"SELECT q.id, g.created_at, CAST(g.properties AS text){_OLD}{_GROUP}{_THESE}",
    "member": f"SELECT q.id, m.cohort_id{_OLD}{_PERSON}"
    f" LEFT JOIN cohort_people AS m ON m.person_id = p.id AND m.cohort_id = q.number{_THESE}",
}
_SIZES = {
    "person": f"SELECT q.id, length(CAST(p.properties AS text)){_OLD}{_PERSON}{_THESE}",
    "group": f"SELECT q.id, length(CAST(g.properties AS text)){_OLD}{_GROUP}{_THESE}",
}

Key = tuple[str, ProjectId, int, str]


def taken(connection: Connection, after: int, limit: int, max_size: int) -> Taken:
    rows = bulk.select(
        connection,
        "SELECT id, kind, project_id, number, name, coalesce(version, id) FROM mirror_queue"
        " WHERE id > ? AND kind <> 'all' ORDER BY id LIMIT ?",
        after,
        limit,
    )
    if all(kind == "mark" for _, kind, *_ in rows):
        return Taken(ids=(), copies=(), size=0)
    sizes = _sizes(connection, rows)
    ids: list[int] = []
    size = 0
    # By its key, each thing once: a row that names it, and the newest of its versions.
    things: dict[Key, tuple[int, int]] = {}
    for id, kind, project_id, number, name, version in rows:
        key = (kind, project_id, number, name)
        if key not in things:
            if ids and size + sizes[id] > max_size:
                break
            size += sizes[id]
        ids.append(id)
        things[key] = (id, max(version, things.get(key, (0, 0))[1]))
    return Taken(ids=ids, copies=_copies(connection, things), size=size)


def _sizes(connection: Connection, rows: bulk.Rows) -> Mapping[int, int]:
    sizes: dict[int, int] = defaultdict(int)
    for of, sql in _SIZES.items():
        ids = [id for id, kind, *_ in rows if kind == of]
        if ids:
            sizes.update((id, size or 0) for id, size in bulk.select(connection, sql, ids))
    return sizes


def _copies(connection: Connection, things: Mapping[Key, tuple[int, int]]) -> list[Copy]:
    by_kind: dict[str, dict[int, tuple[Key, int]]] = defaultdict(dict)
    for key, (id, version) in things.items():
        by_kind[key[0]][id] = key, version
    copies: list[Copy] = []
    for kind, sql in _PRESENT.items():
        if wanted := by_kind.get(kind):
            for id, *present in bulk.select(connection, sql, list(wanted)):
                copies.append(_COPIED[kind](*wanted[id], *present))
    return copies


def _person(key: Key, version: int, created_at: Any, properties: Any, is_identified: Any) -> Copy:
    _, project_id, _, uuid = key
    return PersonCopy(
        project_id=project_id,
        id=uuid,
        created_at=bulk.moment(created_at) if created_at else NEVER,
        properties=properties or "",
        is_identified=bool(is_identified),
        version=version,
        is_deleted=created_at is None,
    )


def _distinct_id(key: Key, version: int, uuid: Any) -> Copy:
    _, project_id, _, distinct_id = key
    return DistinctIdCopy(
        project_id=project_id,
        distinct_id=distinct_id,
        person_id=uuid or NOBODY,
        is_moved=bool(uuid) and uuid != person_uuid(project_id, distinct_id),
        version=version,
        is_deleted=uuid is None,
    )


def _group(key: Key, version: int, created_at: Any, properties: Any) -> Copy:
    _, project_id, type_index, name = key
    return GroupCopy(
        project_id=project_id,
        group_type_index=type_index,
        group_key=name,
        created_at=bulk.moment(created_at) if created_at else NEVER,
        properties=properties or "",
        version=version,
        is_deleted=created_at is None,
    )


def _member(key: Key, version: int, cohort_id: Any) -> Copy:
    _, project_id, cohort, uuid = key
    return MemberCopy(
        project_id=project_id,
        cohort_id=cohort,
        person_id=uuid,
        version=version,
        is_deleted=cohort_id is None,
    )


_COPIED: Mapping[str, Callable[..., Copy]] = {
    "person": _person,
    "distinct_id": _distinct_id,
    "group": _group,
    "member": _member,
}
