"""Subjects' SQL: what flags want to know of somebody."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import IntegrityError

from hedgerow.flags.store import StoredSubject
from hedgerow.lib import jsonio
from hedgerow.lib.text import why_unstorable
from hedgerow.projects.model import ProjectId
from hedgerow.storage.database import Database, HotRead
from hedgerow.storage.tables import (
    cohort_people,
    flag_hash_keys,
    groups,
    person_distinct_ids,
    persons,
)

ids = person_distinct_ids
TRIES = 3

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


def _json(value: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = jsonio.decode(value) if isinstance(value, str) else value
    return found


def _upsert(connection: Connection) -> Any:
    return postgres_insert if connection.dialect.name == "postgresql" else sqlite_insert
