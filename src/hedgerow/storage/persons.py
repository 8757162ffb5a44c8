"""Persons', groups' and subjects' SQL."""

import contextlib
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import IntegrityError

from hedgerow.errors import Conflict
from hedgerow.flags.store import StoredSubject
from hedgerow.kit import jsonio
from hedgerow.kit.text import why_unstorable
from hedgerow.persons.model import Group, Person, PersonId
from hedgerow.persons.store import PersonQuery, Walked
from hedgerow.projects.model import ProjectId
from hedgerow.storage import generations
from hedgerow.storage.database import Database, HotRead
from hedgerow.storage.flags import topic_of
from hedgerow.storage.locks import lock_project
from hedgerow.storage.tables import (
    cohort_people,
    flag_hash_keys,
    group_types,
    groups,
    person_distinct_ids,
    persons,
)

ids = person_distinct_ids
TRIES = 3
SEVERAL = "These distinct ids belong to several persons."

_person_of = HotRead(
    select(persons.c.id, persons.c.properties)
    .join(ids, ids.c.person_id == persons.c.id)
    .where((ids.c.project_id == bindparam("project")) & (ids.c.distinct_id == bindparam("id")))
)
_cohorts_of = HotRead(
    select(cohort_people.c.cohort_id).where(cohort_people.c.person_id == bindparam("person"))
)
_hash_keys_of = HotRead(
    select(flag_hash_keys.c.flag_key, flag_hash_keys.c.hash_key).where(
        flag_hash_keys.c.person_id == bindparam("person")
    )
)
_group_of = HotRead(
    select(groups.c.properties).where(
        (groups.c.project_id == bindparam("project"))
        & (groups.c.type_index == bindparam("type_index"))
        & (groups.c.key == bindparam("group_key"))
    )
)


class SubjectRecords:
    """What flags want to know of somebody, by the shortest way."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def subject(
        self,
        project_id: ProjectId,
        distinct_id: str,
        groups: Mapping[int, str],
        *,
        cohorts: bool = True,
        hash_keys: bool = True,
    ) -> StoredSubject:
        fetch = self._database.fetch
        found = []
        if not why_unstorable(distinct_id):  # nobody can be stored by such an id
            found = await fetch(_person_of, {"project": project_id, "id": distinct_id})
        person_id = found[0][0] if found else None
        member_of: frozenset[int] = frozenset()
        keys: Mapping[str, str] = {}
        if cohorts and person_id is not None:
            member_of = frozenset(row[0] for row in await fetch(_cohorts_of, {"person": person_id}))
        if hash_keys and person_id is not None:
            keys = dict(await fetch(_hash_keys_of, {"person": person_id}))
        stored_groups = {}
        for index, key in groups.items():
            if why_unstorable(key):
                continue
            rows = await fetch(
                _group_of, {"project": project_id, "type_index": index, "group_key": key}
            )
            if rows:
                stored_groups[index] = _json(rows[0][0])
        return StoredSubject(
            person_id=person_id,
            properties=_json(found[0][1]) if found else {},
            cohorts=member_of,
            hash_keys=keys,
            groups=stored_groups,
        )

    async def keep_hash_keys(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        hash_key: str,
        flags: Sequence[str],
    ) -> None:
        known = [each for each in distinct_ids if not why_unstorable(each)]
        if why_unstorable(hash_key) or not known:
            return

        def change(connection: Connection) -> None:
            found = connection.execute(
                select(ids.c.person_id)
                .distinct()
                .where((ids.c.project_id == project_id) & ids.c.distinct_id.in_(known))
            )
            rows = [
                {"person_id": row.person_id, "flag_key": flag, "hash_key": hash_key}
                for row in found
                for flag in flags
            ]
            if rows:
                into = _upsert(connection)(flag_hash_keys).on_conflict_do_nothing()
                connection.execute(into, rows)

        for _ in range(TRIES):
            # A person who is deleted meanwhile takes the keys of the others with them.
            with contextlib.suppress(IntegrityError):
                await self._database.write(change)
                return


class PersonRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def persons(self, query: PersonQuery) -> tuple[list[Person], int]:
        wanted = persons.c.project_id == query.project_id
        if query.distinct_id:
            wanted &= persons.c.id.in_(
                select(ids.c.person_id).where(
                    (ids.c.project_id == query.project_id)
                    & (ids.c.distinct_id == query.distinct_id)
                )
            )
        if query.search:
            wanted &= persons.c.id.in_(
                select(ids.c.person_id).where(
                    (ids.c.project_id == query.project_id)
                    & ids.c.distinct_id.icontains(query.search, autoescape=True)
                )
            )
        if query.cohort_id is not None:
            wanted &= persons.c.id.in_(
                select(cohort_people.c.person_id).where(
                    cohort_people.c.cohort_id == query.cohort_id
                )
            )

        def run(connection: Connection) -> tuple[list[Person], int]:
            count = connection.execute(
                select(func.count()).select_from(persons).where(wanted)
            ).scalar_one()
            page = (
                select(persons)
                .where(wanted)
                .order_by(persons.c.id.desc())
                .limit(query.limit)
                .offset(query.offset)
            )
            return _with_ids(connection, connection.execute(page).all()), count

        return await self._database.read(run)

    async def person(self, project_id: ProjectId, uuid: str) -> Person | None:
        return await self._database.read(lambda connection: _by_uuid(connection, project_id, uuid))

    async def put_person(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        change: Callable[[Person | None], Mapping[str, Any]],
        now: datetime,
    ) -> Person:
        def run(connection: Connection) -> Person:
            lock_project(connection, project_id)
            owners = _owners(connection, project_id, distinct_ids)
            owned = set(owners.values())
            if len(owned) > 1:
                raise Conflict(SEVERAL)
            before = _by_id(connection, owned.pop()) if owned else None
            properties = dict(change(before))
            if before is None:
                person_id = _insert(connection, project_id, properties, now)
            else:
                person_id = before.id
                _update(connection, person_id, properties, now)
            _add_ids(connection, project_id, person_id, distinct_ids, owners)
            return _surely(connection, person_id)

        return await self._database.write(run)

    async def change_person(
        self,
        project_id: ProjectId,
        uuid: str,
        more_ids: Sequence[str],
        change: Callable[[Person], Mapping[str, Any]],
        now: datetime,
    ) -> Person | None:
        def run(connection: Connection) -> Person | None:
            lock_project(connection, project_id)
            before = _by_uuid(connection, project_id, uuid)
            if before is None:
                return None
            owners = _owners(connection, project_id, more_ids)
            if set(owners.values()) - {before.id}:
                raise Conflict(SEVERAL)
            _update(connection, before.id, change(before), now)
            _add_ids(connection, project_id, before.id, more_ids, owners)
            return _surely(connection, before.id)

        return await self._database.write(run)

    async def some(self, project_id: ProjectId, *, after: int, limit: int) -> list[Walked]:
        page = (
            select(persons)
            .where((persons.c.project_id == project_id) & (persons.c.id > after))
            .order_by(persons.c.id)
            .limit(limit)
        )

        def run(connection: Connection) -> list[Walked]:
            found = _with_ids(connection, connection.execute(page).all())
            members: dict[int, set[int]] = {person.id: set() for person in found}
            people = cohort_people.c
            for person_id, cohort_id in connection.execute(
                select(people.person_id, people.cohort_id).where(people.person_id.in_(members))
            ):
                members[person_id].add(cohort_id)
            return [
                Walked(
                    id=person.id,
                    distinct_id=person.distinct_ids[0] if person.distinct_ids else "",
                    properties=person.properties,
                    cohorts=frozenset(members[person.id]),
                )
                for person in found
            ]

        return await self._database.read(run)

    async def delete_person(self, project_id: ProjectId, uuid: str) -> bool:
        def run(connection: Connection) -> bool:
            lock_project(connection, project_id)
            gone = connection.execute(
                delete(persons).where(
                    (persons.c.project_id == project_id) & (persons.c.uuid == uuid)
                )
            )
            return bool(gone.rowcount)

        return await self._database.write(run)

    async def groups(
        self, project_id: ProjectId, type_index: int, *, limit: int, offset: int
    ) -> tuple[list[Group], int]:
        wanted = (groups.c.project_id == project_id) & (groups.c.type_index == type_index)

        def run(connection: Connection) -> tuple[list[Group], int]:
            count = connection.execute(
                select(func.count()).select_from(groups).where(wanted)
            ).scalar_one()
            page = select(groups).where(wanted).order_by(groups.c.key).limit(limit).offset(offset)
            return [Group(**row._mapping) for row in connection.execute(page)], count

        return await self._database.read(run)

    async def some_groups(
        self, project_id: ProjectId, type_index: int, *, after: str, limit: int
    ) -> list[Group]:
        page = (
            select(groups)
            .where(
                (groups.c.project_id == project_id)
                & (groups.c.type_index == type_index)
                & (groups.c.key > after)
            )
            .order_by(groups.c.key)
            .limit(limit)
        )
        return await self._database.read(
            lambda connection: [Group(**row._mapping) for row in connection.execute(page)]
        )

    async def put_group(
        self,
        project_id: ProjectId,
        type_index: int,
        key: str,
        properties: Mapping[str, Any],
        now: datetime,
    ) -> Group:
        own = (
            (groups.c.project_id == project_id)
            & (groups.c.type_index == type_index)
            & (groups.c.key == key)
        )

        def run(connection: Connection) -> Group:
            lock_project(connection, project_id)
            before = connection.execute(select(groups).where(own)).one_or_none()
            if before is None:
                group = Group(
                    project_id=project_id,
                    type_index=type_index,
                    key=key,
                    properties=dict(properties),
                    created_at=now,
                    updated_at=now,
                )
                values = {name: getattr(group, name) for name in Group.__slots__}
                connection.execute(insert(groups), values)
                return group
            merged = {**before.properties, **properties}
            connection.execute(update(groups).where(own).values(properties=merged, updated_at=now))
            return Group(**{**before._mapping, "properties": merged, "updated_at": now})

        return await self._database.write(run)

    async def group_types(self, project_id: ProjectId) -> Mapping[str, int]:
        return await self._database.read(lambda connection: _types(connection, project_id))

    async def put_group_type(self, project_id: ProjectId, name: str, most: int) -> int | None:
        def run(connection: Connection) -> int | None:
            lock_project(connection, project_id)
            known = _types(connection, project_id)
            if name in known:
                return known[name]
            free = [index for index in range(most) if index not in known.values()]
            if not free:
                return None
            connection.execute(
                insert(group_types), {"project_id": project_id, "index": free[0], "name": name}
            )
            generations.advance(connection, topic_of(project_id))
            return free[0]

        return await self._database.write(run)


def _json(value: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = jsonio.decode(value) if isinstance(value, str) else value
    return found


def _upsert(connection: Connection) -> Any:
    return postgres_insert if connection.dialect.name == "postgresql" else sqlite_insert


def _types(connection: Connection, project_id: ProjectId) -> dict[str, int]:
    rows = connection.execute(
        select(group_types.c.name, group_types.c.index)
        .where(group_types.c.project_id == project_id)
        .order_by(group_types.c.index)
    )
    return dict(rows.all())


def _owners(
    connection: Connection, project_id: ProjectId, distinct_ids: Sequence[str]
) -> dict[str, PersonId]:
    """Who has these ids, of those that somebody has."""
    rows = connection.execute(
        select(ids.c.distinct_id, ids.c.person_id).where(
            (ids.c.project_id == project_id) & ids.c.distinct_id.in_(distinct_ids)
        )
    )
    return {row.distinct_id: PersonId(row.person_id) for row in rows}


def _insert(
    connection: Connection, project_id: ProjectId, properties: Mapping[str, Any], now: datetime
) -> PersonId:
    values = {
        "project_id": project_id,
        "uuid": str(uuid.uuid4()),
        "properties": properties,
        "is_identified": False,
        "created_at": now,
        "updated_at": now,
    }
    made = connection.execute(insert(persons).returning(persons.c.id), values)
    return PersonId(made.scalar_one())


def _update(
    connection: Connection, id: PersonId, properties: Mapping[str, Any], now: datetime
) -> None:
    connection.execute(
        update(persons)
        .where(persons.c.id == id)
        .values(properties=dict(properties), updated_at=now)
    )


def _add_ids(
    connection: Connection,
    project_id: ProjectId,
    id: PersonId,
    distinct_ids: Sequence[str],
    known: Collection[str],
) -> None:
    rows = [
        {"project_id": project_id, "distinct_id": each, "person_id": id}
        for each in dict.fromkeys(distinct_ids)
        if each not in known
    ]
    if rows:
        connection.execute(insert(ids), rows)


def _surely(connection: Connection, id: PersonId) -> Person:
    found = _by_id(connection, id)
    assert found is not None
    return found


def _by_uuid(connection: Connection, project_id: ProjectId, uuid: str) -> Person | None:
    own = (persons.c.project_id == project_id) & (persons.c.uuid == uuid)
    row = connection.execute(select(persons).where(own)).one_or_none()
    return None if row is None else _with_ids(connection, [row])[0]


def _by_id(connection: Connection, id: int) -> Person | None:
    row = connection.execute(select(persons).where(persons.c.id == id)).one_or_none()
    return None if row is None else _with_ids(connection, [row])[0]


def _with_ids(connection: Connection, rows: Sequence[Any]) -> list[Person]:
    owned: dict[int, list[str]] = {row.id: [] for row in rows}
    found = connection.execute(
        select(ids.c.person_id, ids.c.distinct_id)
        .where(ids.c.person_id.in_(owned))
        .order_by(ids.c.distinct_id)
    )
    for each in found:
        owned[each.person_id].append(each.distinct_id)
    return [Person(**row._mapping, distinct_ids=owned[row.id]) for row in rows]
