"""The SQL of what events do to persons and groups: read those of a batch, store what became of
them. Both run in one transaction, `load` first.

On PostgreSQL `load` locks the rows it reads, in the order of their ids. What another process made
at the same moment is noticed when it is stored, and then all of it is done again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from hedgerow.lib import jsonio
from hedgerow.persons.changes import Changes, GroupChange, PersonChange
from hedgerow.persons.known import (
    GroupName,
    Known,
    KnownGroup,
    KnownPerson,
    Mentioned,
    person_uuid,
)
from hedgerow.projects.model import ProjectId
from hedgerow.storage import bulk, generations
from hedgerow.storage.flags import topic_of


class PersonsMoved(Exception):
    """Somebody else changed the same persons or groups meanwhile. Nothing is stored: roll back, and
    begin again with `load`."""


def load(connection: Connection, project_id: ProjectId, mentioned: Mentioned) -> Known:
    # Batches may run beside each other, but not beside whoever holds the project alone.
    bulk.select(connection, "SELECT id FROM projects WHERE id = ? {shared}", project_id)
    persons = _persons(connection, project_id, mentioned.distinct_ids)
    types = 'SELECT name, "index" FROM group_types WHERE project_id = ?'
    group_types: dict[str, int] = dict(bulk.select(connection, types, project_id))
    return Known(
        persons=persons,
        uuids=uuids_of(connection, project_id, mentioned.distinct_ids - persons.keys()),
        group_types=group_types,
        groups=_groups(connection, project_id, mentioned.groups, group_types),
    )


def save(connection: Connection, project_id: ProjectId, changes: Changes, now: datetime) -> None:
    ids = _save_persons(connection, project_id, changes.persons, now)
    _save_distinct_ids(connection, project_id, changes.persons, ids)
    _merge(connection, changes.persons, ids)
    if changes.group_types:
        _save_group_types(connection, project_id, changes.group_types)
    if changes.groups:
        _save_groups(connection, project_id, changes.groups, now)


def _persons(
    connection: Connection, project_id: ProjectId, distinct_ids: Collection[str]
) -> dict[str, KnownPerson]:
    owners = bulk.select(
        connection,
        "SELECT distinct_id, person_id FROM person_distinct_ids"
        " WHERE project_id = ? AND distinct_id IN ({texts})",
        project_id,
        list(distinct_ids),
    )
    wanted = {person_id for _, person_id in owners}
    rows = bulk.select(
        connection,
        "SELECT id, uuid, CAST(properties AS text), is_identified, created_at FROM persons"
        " WHERE id IN ({numbers}) ORDER BY id {locked}",
        list(wanted),
    )
    if len(rows) < len(wanted):
        raise PersonsMoved
    found = {
        id: KnownPerson(
            id=id,
            uuid=uuid,
            properties=jsonio.decode(properties),
            is_identified=bool(is_identified),
            created_at=bulk.moment(created_at),
        )
        for id, uuid, properties, is_identified, created_at in rows
    }
    return {distinct_id: found[person_id] for distinct_id, person_id in owners}


def uuids_of(
    connection: Connection, project_id: ProjectId, strangers: Iterable[str]
) -> dict[str, str]:
    """The ids that strangers would have as persons: their own, or the next that is free."""
    uuids = {stranger: person_uuid(project_id, stranger) for stranger in strangers}
    waiting, attempt = dict(uuids), 0
    while waiting:
        rows = bulk.select(
            connection,
            "SELECT uuid FROM persons WHERE project_id = ? AND uuid IN ({texts})",
            project_id,
            list(waiting.values()),
        )
        taken = {uuid for (uuid,) in rows}
        attempt += 1
        waiting = {
            stranger: person_uuid(project_id, stranger, attempt)
            for stranger, uuid in waiting.items()
            if uuid in taken
        }
        uuids |= waiting
    return uuids


def _groups(
    connection: Connection,
    project_id: ProjectId,
    wanted: Iterable[GroupName],
    group_types: Mapping[str, int],
) -> dict[GroupName, KnownGroup]:
    places = {(group_types[name], key): name for name, key in wanted if name in group_types}
    if not places:
        return {}
    rows = bulk.select(
        connection,
        "SELECT type_index, key, CAST(properties AS text), created_at FROM groups"
        " WHERE project_id = ? AND key IN ({texts}) ORDER BY type_index, key {locked}",
        project_id,
        list({key for _, key in places}),
    )
    return {
        (places[index, key], key): KnownGroup(
            properties=jsonio.decode(properties), created_at=bulk.moment(created_at)
        )
        for index, key, properties, created_at in rows
        if (index, key) in places
    }


def _save_persons(
    connection: Connection, project_id: ProjectId, persons: Sequence[PersonChange], now: datetime
) -> dict[str, int]:
    """Store new and changed persons; their ids by their uuids."""
    new = sorted((each for each in persons if each.id is None), key=lambda each: each.uuid)
    _run(
        connection,
        "INSERT INTO persons (project_id, uuid, properties, is_identified, created_at, updated_at)"
        " {values} ON CONFLICT DO NOTHING",
        ("project_id", "uuid", "properties", "is_identified", "created_at", "updated_at"),
        [
            (project_id, each.uuid, each.properties, each.is_identified, each.created_at, now)
            for each in new
        ],
    )
    _run(
        connection,
        "UPDATE persons SET properties = r.properties, is_identified = r.is_identified,"
        " created_at = r.created_at, updated_at = r.updated_at FROM {rows} WHERE persons.id = r.id",
        ("properties", "is_identified", "created_at", "updated_at", "id"),
        [
            (each.properties, each.is_identified, each.created_at, now, each.id)
            for each in persons
            if each.id is not None and each.is_changed
        ],
    )
    ids = {each.uuid: each.id for each in persons if each.id is not None}
    if new:
        rows = bulk.select(
            connection,
            "SELECT uuid, id FROM persons WHERE project_id = ? AND uuid IN ({texts})",
            project_id,
            [each.uuid for each in new],
        )
        ids |= dict(rows)
    return ids


def _save_distinct_ids(
    connection: Connection,
    project_id: ProjectId,
    persons: Sequence[PersonChange],
    ids: Mapping[str, int],
) -> None:
    _run(
        connection,
        "INSERT INTO person_distinct_ids (project_id, distinct_id, person_id)"
        " {values} ON CONFLICT DO NOTHING",
        ("project_id", "distinct_id", "person_id"),
        sorted(
            (project_id, distinct_id, ids[each.uuid])
            for each in persons
            for distinct_id in each.distinct_ids
        ),
    )


def _merge(connection: Connection, persons: Sequence[PersonChange], ids: Mapping[str, int]) -> None:
    moves = [(ids[each.uuid], loser) for each in persons for loser in each.absorbs]
    if not moves:
        return
    # Nobody may give the losers anything more, or it would go with them.
    bulk.select(
        connection,
        "SELECT id FROM persons WHERE id IN ({numbers}) ORDER BY id {locked_for_deletion}",
        [loser for _, loser in moves],
    )
    numbered = [(place, *move) for place, move in enumerate(moves)]
    for sql in (
        "UPDATE person_distinct_ids SET person_id = r.survivor FROM {rows}"
        " WHERE person_id = r.loser",
        "INSERT INTO cohort_people (person_id, cohort_id)"
        " SELECT r.survivor, had.cohort_id FROM {rows}"
        " JOIN cohort_people AS had ON had.person_id = r.loser"
        " WHERE true ON CONFLICT DO NOTHING",
        "INSERT INTO flag_hash_keys (person_id, flag_key, hash_key)"
        " SELECT r.survivor, had.flag_key, had.hash_key FROM {rows}"
        " JOIN flag_hash_keys AS had ON had.person_id = r.loser"
        " WHERE true ORDER BY r.place ON CONFLICT DO NOTHING",
    ):
        bulk.run(connection, sql, ("place", "survivor", "loser"), numbered)
    losers = [(loser,) for _, loser in moves]
    _run(connection, "DELETE FROM persons WHERE id IN (SELECT id FROM {rows})", ("id",), losers)


def _save_group_types(
    connection: Connection, project_id: ProjectId, group_types: Mapping[str, int]
) -> None:
    _run(
        connection,
        'INSERT INTO group_types (project_id, "index", name) {values} ON CONFLICT DO NOTHING',
        ("project_id", "type_index", "name"),
        [(project_id, index, name) for name, index in group_types.items()],
    )
    generations.advance(connection, topic_of(project_id))


def _save_groups(
    connection: Connection, project_id: ProjectId, groups: Sequence[GroupChange], now: datetime
) -> None:
    columns = ("properties", "created_at", "updated_at", "project_id", "type_index", "key")
    rows: dict[bool, list[tuple[Any, ...]]] = {True: [], False: []}
    for each in sorted(groups, key=lambda each: (each.type_index, each.key)):
        row = each.properties, each.created_at, now, project_id, each.type_index, each.key
        rows[each.is_new].append(row)
    _run(
        connection,
        "INSERT INTO groups (properties, created_at, updated_at, project_id, type_index, key)"
        " {values} ON CONFLICT DO NOTHING",
        columns,
        rows[True],
    )
    _run(
        connection,
        "UPDATE groups SET properties = r.properties, created_at = r.created_at,"
        " updated_at = r.updated_at FROM {rows} WHERE groups.project_id = r.project_id"
        " AND groups.type_index = r.type_index AND groups.key = r.key",
        columns,
        rows[False],
    )


def _run(
    connection: Connection, sql: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Run a statement that finds or makes one row for each that is given."""
    if bulk.run(connection, sql, columns, rows) != len(rows):
        raise PersonsMoved
