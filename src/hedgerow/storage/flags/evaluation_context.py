"""The stored data that flags are evaluated against: persons, groups, cohorts and hash keys."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Integer, bindparam, literal_column, select
from sqlalchemy.exc import IntegrityError

from hedgerow.flags.store import EvaluationDataStore, StoredData
from hedgerow.ingestion.changed_names import hash_in_project, list_read_names
from hedgerow.lib import jsonio
from hedgerow.lib.text import explain_unstorable
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.ingestion.unprocessed_ids import HAS_UNPROCESSED
from hedgerow.storage.tables import (
    cohort_people,
    flag_hash_keys,
    groups,
    person_distinct_ids,
    persons,
)

ids = person_distinct_ids
MAX_ATTEMPTS = 3

_person_of = PreparedQuery(
    select(persons.c.id, persons.c.properties)
    .join(ids, ids.c.person_id == persons.c.id)
    .where((ids.c.project_id == bindparam("project")) & (ids.c.distinct_id == bindparam("id")))
)
# The same if several processes share the inbox: one row, even for an unknown person.
_person_and_staleness = PreparedQuery(
    select(persons.c.id, persons.c.properties, HAS_UNPROCESSED)
    .select_from(select(literal_column("1", Integer).label("one")).subquery("anyone"))
    .outerjoin(
        ids, (ids.c.project_id == bindparam("project")) & (ids.c.distinct_id == bindparam("id"))
    )
    .outerjoin(persons, persons.c.id == ids.c.person_id)
)
_cohorts_of = PreparedQuery(
    select(cohort_people.c.cohort_id).where(cohort_people.c.person_id == bindparam("person"))
)
_hash_keys_of = PreparedQuery(
    select(flag_hash_keys.c.flag_key, flag_hash_keys.c.hash_key).where(
        flag_hash_keys.c.person_id == bindparam("person")
    )
)
_group_of = PreparedQuery(
    select(groups.c.properties).where(
        (groups.c.project_id == bindparam("project"))
        & (groups.c.type_index == bindparam("type_index"))
        & (groups.c.key == bindparam("group_key"))
    )
)


class SqlEvaluationDataStore(EvaluationDataStore):
    def __init__(self, database: Database) -> None:
        self._database = database
        # Whether other processes accept and process events, too.
        self._is_shared = database.engine_name == "postgresql"

    async def load(
        self,
        project_id: ProjectId,
        distinct_id: str,
        groups: Mapping[int, str],
        *,
        cohorts: bool = True,
        hash_keys: bool = True,
    ) -> StoredData:
        fetch = self._database.fetch
        person_id, properties, is_stale = await self._fetch_person(project_id, distinct_id, groups)
        member_of: frozenset[int] = frozenset()
        keys: Mapping[str, str] = {}
        if cohorts and person_id is not None:
            member_of = frozenset(row[0] for row in await fetch(_cohorts_of, {"person": person_id}))
        if hash_keys and person_id is not None:
            keys = dict(await fetch(_hash_keys_of, {"person": person_id}))
        stored_groups = {}
        for index, key in groups.items():
            if explain_unstorable(key):
                continue
            rows = await fetch(
                _group_of, {"project": project_id, "type_index": index, "group_key": key}
            )
            if rows:
                stored_groups[index] = _decode_json(rows[0][0])
        return StoredData(
            person_id=person_id,
            properties=_decode_json(properties) if properties else {},
            cohorts=member_of,
            hash_keys=keys,
            groups=stored_groups,
            is_stale=is_stale,
        )

    async def _fetch_person(
        self, project_id: ProjectId, distinct_id: str, groups: Mapping[int, str]
    ) -> tuple[int | None, Any, bool]:
        """Return the id and the properties of a person, and whether they are stale."""
        if explain_unstorable(distinct_id):  # no person can have such an id
            return None, None, False
        params: dict[str, Any] = {"project": project_id, "id": distinct_id}
        if not self._is_shared:
            found = await self._database.fetch(_person_of, params)
            return (*found[0], False) if found else (None, None, False)
        names = list_read_names(distinct_id, groups)
        params["keys"] = [hash_in_project(project_id, name) for name in names]
        ((id, properties, is_stale),) = await self._database.fetch(_person_and_staleness, params)
        return id, properties, is_stale

    async def save_hash_keys(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        hash_key: str,
        flags: Sequence[str],
    ) -> None:
        known = [each for each in distinct_ids if not explain_unstorable(each)]
        if explain_unstorable(hash_key) or not known:
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
            bulk.insert_ignoring_conflicts(connection, flag_hash_keys, rows)

        for _ in range(MAX_ATTEMPTS):
            # Retry if a person was deleted concurrently: the insert fails for all rows.
            with contextlib.suppress(IntegrityError):
                await self._database.write(change)
                return


def _decode_json(value: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = jsonio.decode(value) if isinstance(value, str) else value
    return found
