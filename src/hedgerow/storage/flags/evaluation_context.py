"""The stored data that flags are evaluated against: persons, groups, cohorts and hash keys."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Integer, bindparam, literal_column, select, text
from sqlalchemy.exc import IntegrityError

from hedgerow.flags.evaluation.evaluation_context import NO_BEHAVIORS, PersonBehaviors
from hedgerow.flags.store import EvaluationDataStore, PendingEvents, StoredData
from hedgerow.ingestion.changed_names import hash_in_project, list_read_names
from hedgerow.lib import jsonio
from hedgerow.lib.text import explain_unstorable
from hedgerow.persons.behaviors.times import join_behaviors
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.ingestion.unprocessed_ids import MAX_DISTINCT_IDS, UNPROCESSED_OF_PERSON
from hedgerow.storage.tables import (
    behavior_times,
    cohort_people,
    flag_hash_keys,
    groups,
    person_distinct_ids,
    persons,
)

ids = person_distinct_ids
others = person_distinct_ids.alias("others")
MAX_ATTEMPTS = 3
# The distinct ids of a person with behaviors. Flags by behavior fail for a person with more.
MAX_BEHAVIOR_ROWS = 1000

_person_of = PreparedQuery(
    select(persons.c.id, persons.c.properties)
    .join(ids, ids.c.person_id == persons.c.id)
    .where((ids.c.project_id == bindparam("project")) & (ids.c.distinct_id == bindparam("id")))
)
# The same if several processes share the inbox: one row, even for an unknown person.
_person_and_pending = PreparedQuery(
    text(f"""
SELECT p.id, p.properties, unprocessed.first, unprocessed.last, unprocessed.buckets
FROM (SELECT 1) AS anyone
LEFT JOIN person_distinct_ids AS i ON i.project_id = :project AND i.distinct_id = :id
LEFT JOIN persons AS p ON p.id = i.person_id
LEFT JOIN LATERAL ({UNPROCESSED_OF_PERSON}) AS unprocessed ON true
""")  # noqa: S608 - our own names
)
_ids_of_person = PreparedQuery(
    select(others.c.distinct_id)
    .join(ids, ids.c.person_id == others.c.person_id)
    .where((ids.c.project_id == bindparam("project")) & (ids.c.distinct_id == bindparam("id")))
    .limit(literal_column(str(MAX_DISTINCT_IDS), Integer))
    .offset(literal_column("0", Integer))
)
_cohorts_of = PreparedQuery(
    select(cohort_people.c.cohort_id).where(cohort_people.c.person_id == bindparam("person"))
)
_hash_keys_of = PreparedQuery(
    select(flag_hash_keys.c.flag_key, flag_hash_keys.c.hash_key).where(
        flag_hash_keys.c.person_id == bindparam("person")
    )
)
_behaviors_of = PreparedQuery(
    select(behavior_times.c.times)
    .join(
        ids,
        (ids.c.project_id == behavior_times.c.project_id)
        & (ids.c.distinct_id == behavior_times.c.distinct_id),
    )
    .where(ids.c.person_id == bindparam("person"))
    .limit(literal_column(str(MAX_BEHAVIOR_ROWS + 1), Integer))
    .offset(literal_column("0", Integer))
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
        behaviors: bool = True,
    ) -> StoredData:
        fetch = self._database.fetch
        person_id, properties, pending = await self._fetch_person(project_id, distinct_id, groups)
        member_of: frozenset[int] = frozenset()
        keys: Mapping[str, str] = {}
        if cohorts and person_id is not None:
            member_of = frozenset(row[0] for row in await fetch(_cohorts_of, {"person": person_id}))
        if hash_keys and person_id is not None:
            keys = dict(await fetch(_hash_keys_of, {"person": person_id}))
        found: PersonBehaviors | None = NO_BEHAVIORS
        if behaviors and person_id is not None:
            rows = await fetch(_behaviors_of, {"person": person_id})
            is_complete = len(rows) <= MAX_BEHAVIOR_ROWS
            found = join_behaviors(row[0] for row in rows) if is_complete else None
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
            is_stale=pending is not None,
            pending=pending,
            behaviors=found,
        )

    async def _fetch_person(
        self, project_id: ProjectId, distinct_id: str, groups: Mapping[int, str]
    ) -> tuple[int | None, Any, PendingEvents | None]:
        """Return the id and the properties of a person, and the events that they lack."""
        if explain_unstorable(distinct_id):  # no person can have such an id
            return None, None, None
        params: dict[str, Any] = {"project": project_id, "id": distinct_id}
        if not self._is_shared:
            found = await self._database.fetch(_person_of, params)
            return (*found[0], None) if found else (None, None, None)
        names = list_read_names(distinct_id, groups)
        params["keys"] = [hash_in_project(project_id, name) for name in names]
        ((id, properties, first, last, buckets),) = await self._database.fetch(
            _person_and_pending, params
        )
        pending = PendingEvents(first=first, last=last, buckets=buckets) if buckets else None
        return id, properties, pending

    async def list_distinct_ids(self, project_id: ProjectId, distinct_id: str) -> Sequence[str]:
        if explain_unstorable(distinct_id):
            return ()
        params = {"project": project_id, "id": distinct_id}
        return [row[0] for row in await self._database.fetch(_ids_of_person, params)]

    async def wait_for_group_types(self, project_id: ProjectId, names: Sequence[str]) -> None:
        """The stored data is what there is."""

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
