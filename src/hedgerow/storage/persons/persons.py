"""Persons, their distinct ids, and groups."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from hedgerow.errors import Conflict
from hedgerow.persons.model import Group, Person, PersonId
from hedgerow.persons.store import (
    BuildPersonEntry,
    PersonQuery,
    PersonSplit,
    PersonStore,
)
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.flags.flags import flag_topic
from hedgerow.storage.persons.changes import choose_person_uuids
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import cohort_people, group_types, groups, person_distinct_ids, persons

ids = person_distinct_ids
SEVERAL_PERSONS_DETAIL = "These distinct ids belong to several persons."


class SqlPersonStore(PersonStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def persons(self, query: PersonQuery) -> tuple[list[Person], int]:
        assert not query.needs_scan
        page = _select_page(query)

        def run(connection: Connection) -> tuple[list[Person], int]:
            count = query.count
            if count is None:
                everyone = select(func.count()).select_from(persons).where(_build_condition(query))
                count = connection.execute(everyone).scalar_one()
            rows = connection.execute(page).all()
            return _decode_persons(
                connection, rows if query.newer_than is None else rows[::-1]
            ), count

        return await self._database.read_in_background(run)

    async def get_newest_first(self, ids: Collection[int]) -> list[Person]:
        page = select(persons).where(persons.c.id.in_(ids)).order_by(persons.c.id.desc())
        return await self._database.read(
            lambda connection: _decode_persons(connection, connection.execute(page).all())
        )

    async def person(self, project_id: ProjectId, uuid: str) -> Person | None:
        return await self._database.read(
            lambda connection: _find_by_uuid(connection, project_id, uuid)
        )

    async def upsert_person(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        change: Callable[[Person | None], Mapping[str, Any]],
        build_entry: BuildPersonEntry,
        now: datetime,
    ) -> Person:
        def run(connection: Connection) -> Person:
            lock_project(connection, project_id)
            owners = _find_owners(connection, project_id, distinct_ids)
            owned = set(owners.values())
            if len(owned) > 1:
                raise Conflict(SEVERAL_PERSONS_DETAIL)
            before = _find_by_id(connection, owned.pop()) if owned else None
            properties = dict(change(before))
            if before is None:
                person_id = _insert_person(connection, project_id, str(uuid4()), properties, now)
            else:
                person_id = before.id
                _update_person(connection, person_id, properties, now)
            _add_distinct_ids(connection, project_id, person_id, distinct_ids, owners)
            return _record_change(
                connection, before, _get_by_id(connection, person_id), build_entry, now
            )

        return await self._database.write(run)

    async def update_person(
        self,
        project_id: ProjectId,
        uuid: str,
        more_ids: Sequence[str],
        change: Callable[[Person], Mapping[str, Any]],
        build_entry: BuildPersonEntry,
        now: datetime,
    ) -> Person | None:
        def run(connection: Connection) -> Person | None:
            lock_project(connection, project_id)
            before = _find_by_uuid(connection, project_id, uuid)
            if before is None:
                return None
            owners = _find_owners(connection, project_id, more_ids)
            if set(owners.values()) - {before.id}:
                raise Conflict(SEVERAL_PERSONS_DETAIL)
            _update_person(connection, before.id, change(before), now)
            _add_distinct_ids(connection, project_id, before.id, more_ids, owners)
            return _record_change(
                connection, before, _get_by_id(connection, before.id), build_entry, now
            )

        return await self._database.write(run)

    async def split_person(
        self,
        project_id: ProjectId,
        uuid: str,
        decide: Callable[[Person], PersonSplit],
        now: datetime,
    ) -> Person | None:
        def run(connection: Connection) -> Person | None:
            lock_project(connection, project_id)
            before = _find_by_uuid(connection, project_id, uuid)
            if before is None:
                return None
            split = decide(before)
            _update_person(connection, before.id, split.properties, now)
            uuids = choose_person_uuids(connection, project_id, split.others)
            for stranger in split.others:
                other = _insert_person(connection, project_id, uuids[stranger], {}, now)
                own = (ids.c.project_id == project_id) & (ids.c.distinct_id == stranger)
                connection.execute(update(ids).where(own).values(person_id=other))
            activity.record(connection, split.entry, now)
            return _get_by_id(connection, before.id)

        return await self._database.write(run)

    async def delete_person(
        self,
        project_id: ProjectId,
        uuid: str,
        build_entry: Callable[[Person], ActivityEntry],
        now: datetime,
    ) -> bool:
        def run(connection: Connection) -> bool:
            lock_project(connection, project_id)
            before = _find_by_uuid(connection, project_id, uuid)
            if before is None:
                return False
            connection.execute(delete(persons).where(persons.c.id == before.id))
            activity.record(connection, build_entry(before), now)
            return True

        return await self._database.write(run)

    async def groups(
        self,
        project_id: ProjectId,
        type_index: int,
        *,
        limit: int,
        offset: int,
        search: str = "",
    ) -> tuple[list[Group], int]:
        wanted = (groups.c.project_id == project_id) & (groups.c.type_index == type_index)
        if search:
            texts = (groups.c.key, groups.c.properties["name"].as_string())
            needle = search.lower()
            wanted &= or_(*(func.lower(each).contains(needle, autoescape=True) for each in texts))

        def run(connection: Connection) -> tuple[list[Group], int]:
            by_key = select(groups).where(wanted).order_by(groups.c.key)
            rows, total = read_page(connection, by_key, limit=limit, offset=offset)
            return [Group(**row._mapping) for row in rows], total

        return await self._database.read(run)

    async def group(self, project_id: ProjectId, type_index: int, key: str) -> Group | None:
        wanted = (
            (groups.c.project_id == project_id)
            & (groups.c.type_index == type_index)
            & (groups.c.key == key)
        )

        def run(connection: Connection) -> Group | None:
            row = connection.execute(select(groups).where(wanted)).one_or_none()
            return None if row is None else Group(**row._mapping)

        return await self._database.read(run)

    async def upsert_group(
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
        return await self._database.read(
            lambda connection: _read_group_types(connection, project_id)
        )

    async def upsert_group_type(self, project_id: ProjectId, name: str, most: int) -> int | None:
        def run(connection: Connection) -> int | None:
            lock_project(connection, project_id)
            known = _read_group_types(connection, project_id)
            if name in known:
                return known[name]
            free = [index for index in range(most) if index not in known.values()]
            if not free:
                return None
            connection.execute(
                insert(group_types), {"project_id": project_id, "index": free[0], "name": name}
            )
            generations.advance(connection, flag_topic(project_id))
            return free[0]

        return await self._database.write(run)


def _select_page(query: PersonQuery) -> Select[Any]:
    """Select the page from its position, in the order of `persons_by_project`."""
    wanted, id = _build_condition(query), persons.c.id
    if query.older_than is not None:
        wanted &= id < query.older_than
    if query.newer_than is not None:
        wanted &= id > query.newer_than
    order = id.desc() if query.newer_than is None else id.asc()
    return select(persons).where(wanted).order_by(order).limit(query.limit).offset(query.offset)


def _build_condition(query: PersonQuery) -> ColumnElement[bool]:
    wanted: ColumnElement[bool] = persons.c.project_id == query.project_id
    if query.distinct_id:
        own = (ids.c.project_id == query.project_id) & (ids.c.distinct_id == query.distinct_id)
        wanted &= persons.c.id.in_(select(ids.c.person_id).where(own))
    if query.cohort_id is not None:
        members = cohort_people.c.cohort_id == query.cohort_id
        wanted &= persons.c.id.in_(select(cohort_people.c.person_id).where(members))
    return wanted


def _read_group_types(connection: Connection, project_id: ProjectId) -> dict[str, int]:
    rows = connection.execute(
        select(group_types.c.name, group_types.c.index)
        .where(group_types.c.project_id == project_id)
        .order_by(group_types.c.index)
    )
    return dict(rows.all())


def _find_owners(
    connection: Connection, project_id: ProjectId, distinct_ids: Sequence[str]
) -> dict[str, PersonId]:
    """Return the owners of those distinct ids that have one."""
    rows = connection.execute(
        select(ids.c.distinct_id, ids.c.person_id).where(
            (ids.c.project_id == project_id) & ids.c.distinct_id.in_(distinct_ids)
        )
    )
    return {row.distinct_id: PersonId(row.person_id) for row in rows}


def _insert_person(
    connection: Connection,
    project_id: ProjectId,
    uuid: str,
    properties: Mapping[str, Any],
    now: datetime,
) -> PersonId:
    values = {
        "project_id": project_id,
        "uuid": uuid,
        "properties": properties,
        "is_identified": False,
        "created_at": now,
        "updated_at": now,
    }
    made = connection.execute(insert(persons).returning(persons.c.id), values)
    return PersonId(made.scalar_one())


def _update_person(
    connection: Connection, id: PersonId, properties: Mapping[str, Any], now: datetime
) -> None:
    connection.execute(
        update(persons)
        .where(persons.c.id == id)
        .values(properties=dict(properties), updated_at=now)
    )


def _add_distinct_ids(
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


def _get_by_id(connection: Connection, id: PersonId) -> Person:
    found = _find_by_id(connection, id)
    assert found is not None
    return found


def _record_change(
    connection: Connection,
    before: Person | None,
    after: Person,
    build_entry: BuildPersonEntry,
    now: datetime,
) -> Person:
    if (entry := build_entry(before, after)) is not None:
        activity.record(connection, entry, now)
    return after


def _find_by_uuid(connection: Connection, project_id: ProjectId, uuid: str) -> Person | None:
    own = (persons.c.project_id == project_id) & (persons.c.uuid == uuid)
    row = connection.execute(select(persons).where(own)).one_or_none()
    return None if row is None else _decode_persons(connection, [row])[0]


def _find_by_id(connection: Connection, id: int) -> Person | None:
    row = connection.execute(select(persons).where(persons.c.id == id)).one_or_none()
    return None if row is None else _decode_persons(connection, [row])[0]


def _decode_persons(connection: Connection, rows: Sequence[Any]) -> list[Person]:
    owned: dict[int, list[str]] = {row.id: [] for row in rows}
    found = connection.execute(
        select(ids.c.person_id, ids.c.distinct_id)
        .where(ids.c.person_id.in_(owned))
        .order_by(ids.c.distinct_id)
    )
    for each in found:
        owned[each.person_id].append(each.distinct_id)
    return [Person(**row._mapping, distinct_ids=owned[row.id]) for row in rows]
