"""Read many persons for the evaluation of flags: only what flags depend on."""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Connection, Text, cast, func, select

from hedgerow.flags.evaluation.evaluation_context import NO_BEHAVIORS
from hedgerow.flags.store import EvaluatedPerson, EvaluatedPersonStore, PersonPage
from hedgerow.persons.behaviors.times import join_behaviors
from hedgerow.persons.model import PersonId
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database
from hedgerow.storage.persons.scan_worker import build_decoder
from hedgerow.storage.tables import (
    behavior_times,
    cohort_people,
    flag_hash_keys,
    person_distinct_ids,
    persons,
)

ids = person_distinct_ids
NO_COHORTS = frozenset[int]()
# Of a page. Persons have few distinct ids; a preview of those with very many may lack behaviors.
MAX_BEHAVIOR_ROWS = 100_000


class SqlEvaluatedPersonStore(EvaluatedPersonStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def count_persons(self, project_id: ProjectId) -> int:
        everyone = select(func.count()).where(persons.c.project_id == project_id)
        return await self._database.read_in_background(
            lambda connection: connection.execute(everyone).scalar_one()
        )

    async def load_page(self, page: PersonPage) -> Sequence[EvaluatedPerson]:
        return await self._database.read_in_background(
            lambda connection: _load_page(connection, page)
        )


def _load_page(connection: Connection, page: PersonPage) -> Sequence[EvaluatedPerson]:
    first = (
        select(func.min(ids.c.distinct_id)).where(ids.c.person_id == persons.c.id).scalar_subquery()
    )
    wanted = (
        select(
            persons.c.id,
            func.coalesce(first, cast(persons.c.uuid, Text)),
            cast(persons.c.properties, Text),
        )
        .where(persons.c.project_id == page.project_id)
        .order_by(persons.c.id.desc())
        .limit(page.limit)
    )
    if page.older_than is not None:
        wanted = wanted.where(persons.c.id < page.older_than)
    rows = connection.execute(wanted).all()
    found = [row[0] for row in rows]
    cohorts: defaultdict[int, set[int]] = defaultdict(set)
    hash_keys: defaultdict[int, dict[str, str]] = defaultdict(dict)
    behaviors: defaultdict[int, list[str]] = defaultdict(list)
    if page.cohorts:
        members = select(cohort_people.c.person_id, cohort_people.c.cohort_id)
        for id, cohort in connection.execute(members.where(cohort_people.c.person_id.in_(found))):
            cohorts[id].add(cohort)
    if page.hash_keys:
        keys = select(
            flag_hash_keys.c.person_id, flag_hash_keys.c.flag_key, flag_hash_keys.c.hash_key
        )
        for id, flag, key in connection.execute(keys.where(flag_hash_keys.c.person_id.in_(found))):
            hash_keys[id][flag] = key
    if page.behaviors:
        times = select(ids.c.person_id, behavior_times.c.times).join(
            behavior_times,
            (ids.c.project_id == behavior_times.c.project_id)
            & (ids.c.distinct_id == behavior_times.c.distinct_id),
        )
        own = times.where(ids.c.person_id.in_(found)).limit(MAX_BEHAVIOR_ROWS)
        for id, packed in connection.execute(own):
            behaviors[id].append(packed)
    decode = build_decoder(page.property_keys)
    return [
        EvaluatedPerson(
            id=PersonId(id),
            distinct_id=distinct_id,
            properties=decode(properties),
            cohorts=frozenset(cohorts[id]) if id in cohorts else NO_COHORTS,
            hash_keys=hash_keys.get(id, {}),
            behaviors=join_behaviors(behaviors[id]) if id in behaviors else NO_BEHAVIORS,
        )
        for id, distinct_id, properties in rows
    ]
