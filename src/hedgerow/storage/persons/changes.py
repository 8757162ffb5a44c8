"""Load the persons and groups of a batch of events, and save the changes that the events cause.

Both run in one transaction. On PostgreSQL `load_state` locks the rows it reads, in the order of
their ids. If another process created the same rows concurrently, saving raises
ConcurrentPersonChangeError and the caller retries the whole batch.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from hedgerow.ingestion.persons.changes import GroupChange, PersonChange, PersonChanges
from hedgerow.ingestion.persons.loaded_state import (
    GroupName,
    LoadedState,
    ReferencedPersons,
    StoredGroup,
    StoredPerson,
    person_uuid,
)
from hedgerow.lib import jsonio
from hedgerow.persons.behaviors.model import Behavior
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk, generations
from hedgerow.storage.flags.flags import flag_topic

ReadBehaviors = Callable[[Connection, ProjectId], Sequence[Behavior]]


class ConcurrentPersonChangeError(Exception):
    """Another process changed the same persons or groups. Roll back and retry from `load_state`."""


def load_state(
    connection: Connection,
    project_id: ProjectId,
    collect_references: ReferencedPersons,
    read_behaviors: ReadBehaviors = lambda *_: (),
) -> LoadedState:
    # A shared lock: batches run concurrently, but not with a holder of the project lock.
    bulk.select(connection, "SELECT id FROM projects WHERE id = ? {shared}", project_id)
    persons = _load_persons(connection, project_id, collect_references.distinct_ids)
    types = 'SELECT name, "index" FROM group_types WHERE project_id = ?'
    group_types: dict[str, int] = dict(bulk.select(connection, types, project_id))
    return LoadedState(
        persons=persons,
        uuids=choose_person_uuids(
            connection, project_id, collect_references.distinct_ids - persons.keys()
        ),
        group_types=group_types,
        groups=_load_groups(connection, project_id, collect_references.groups, group_types),
        behaviors=read_behaviors(connection, project_id),
    )


def save_changes(
    connection: Connection, project_id: ProjectId, changes: PersonChanges, now: datetime
) -> None:
    ids = _save_persons(connection, project_id, changes.persons, now)
    _save_distinct_ids(connection, project_id, changes.persons, ids)
    _merge_persons(connection, changes.persons, ids)
    if changes.group_types:
        _save_group_types(connection, project_id, changes.group_types)
    if changes.groups:
        _save_groups(connection, project_id, changes.groups, now)


def _load_persons(
    connection: Connection, project_id: ProjectId, distinct_ids: Collection[str]
) -> dict[str, StoredPerson]:
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
        raise ConcurrentPersonChangeError
    found = {
        id: StoredPerson(
            id=id,
            uuid=uuid,
            properties=jsonio.decode(properties),
            is_identified=bool(is_identified),
            created_at=bulk.parse_moment(created_at),
        )
        for id, uuid, properties, is_identified, created_at in rows
    }
    return {distinct_id: found[person_id] for distinct_id, person_id in owners}


def choose_person_uuids(
    connection: Connection, project_id: ProjectId, strangers: Iterable[str]
) -> dict[str, str]:
    """Choose UUIDs for new persons: derived from the distinct id, or the next free one."""
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


def _load_groups(
    connection: Connection,
    project_id: ProjectId,
    wanted: Iterable[GroupName],
    group_types: Mapping[str, int],
) -> dict[GroupName, StoredGroup]:
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
        (places[index, key], key): StoredGroup(
            properties=jsonio.decode(properties), created_at=bulk.parse_moment(created_at)
        )
        for index, key, properties, created_at in rows
        if (index, key) in places
    }


def _save_persons(
    connection: Connection, project_id: ProjectId, persons: Sequence[PersonChange], now: datetime
) -> dict[str, int]:
    """Store new and changed persons and return their ids by UUID."""
    new = sorted((each for each in persons if each.id is None), key=lambda each: each.uuid)
    _execute_exactly(
        connection,
        "INSERT INTO persons (project_id, uuid, properties, is_identified, created_at, updated_at)"
        " {values} ON CONFLICT DO NOTHING",
        ("project_id", "uuid", "properties", "is_identified", "created_at", "updated_at"),
        [
            (project_id, each.uuid, each.properties, each.is_identified, each.created_at, now)
            for each in new
        ],
    )
    _execute_exactly(
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
    _execute_exactly(
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


def _merge_persons(
    connection: Connection, persons: Sequence[PersonChange], ids: Mapping[str, int]
) -> None:
    moves = [(ids[each.uuid], loser) for each in persons for loser in each.absorbs]
    if not moves:
        return
    # Lock the losing persons: rows added to them from now on would be lost with them.
    bulk.select(
        connection,
        "SELECT id FROM persons WHERE id IN ({numbers}) ORDER BY id {locked_for_deletion}",
        [loser for _, loser in moves],
    )
    numbered = [(position, *move) for position, move in enumerate(moves)]
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
        bulk.execute_many(connection, sql, ("place", "survivor", "loser"), numbered)
    losers = [(loser,) for _, loser in moves]
    _execute_exactly(
        connection, "DELETE FROM persons WHERE id IN (SELECT id FROM {rows})", ("id",), losers
    )


def _save_group_types(
    connection: Connection, project_id: ProjectId, group_types: Mapping[str, int]
) -> None:
    _execute_exactly(
        connection,
        'INSERT INTO group_types (project_id, "index", name) {values} ON CONFLICT DO NOTHING',
        ("project_id", "type_index", "name"),
        [(project_id, index, name) for name, index in group_types.items()],
    )
    generations.advance(connection, flag_topic(project_id))


def _save_groups(
    connection: Connection, project_id: ProjectId, groups: Sequence[GroupChange], now: datetime
) -> None:
    columns = ("properties", "created_at", "updated_at", "project_id", "type_index", "key")
    rows: dict[bool, list[tuple[Any, ...]]] = {True: [], False: []}
    for each in sorted(groups, key=lambda each: (each.type_index, each.key)):
        row = each.properties, each.created_at, now, project_id, each.type_index, each.key
        rows[each.is_new].append(row)
    _execute_exactly(
        connection,
        "INSERT INTO groups (properties, created_at, updated_at, project_id, type_index, key)"
        " {values} ON CONFLICT DO NOTHING",
        columns,
        rows[True],
    )
    _execute_exactly(
        connection,
        "UPDATE groups SET properties = r.properties, created_at = r.created_at,"
        " updated_at = r.updated_at FROM {rows} WHERE groups.project_id = r.project_id"
        " AND groups.type_index = r.type_index AND groups.key = r.key",
        columns,
        rows[False],
    )


def _execute_exactly(
    connection: Connection, sql: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Execute a statement that must affect exactly one row for each row passed."""
    if bulk.execute_many(connection, sql, columns, rows) != len(rows):
        raise ConcurrentPersonChangeError
