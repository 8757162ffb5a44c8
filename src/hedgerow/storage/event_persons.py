"""Who events are by, for a page of them at once."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlalchemy import Connection, func, select

from hedgerow.events.record import TOLD_PROPERTIES, EventPerson
from hedgerow.kit.text import why_unstorable
from hedgerow.projects.model import ProjectId
from hedgerow.storage.database import Database
from hedgerow.storage.tables import person_distinct_ids, persons

AT_ONCE = 500

ids = person_distinct_ids


class EventPersonRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def persons_of(
        self, project_id: ProjectId, distinct_ids: Collection[str]
    ) -> Mapping[str, EventPerson]:
        wanted = [each for each in distinct_ids if not why_unstorable(each)]

        def run(connection: Connection) -> dict[str, EventPerson]:
            found: dict[str, EventPerson] = {}
            for start in range(0, len(wanted), AT_ONCE):
                found |= _found(connection, project_id, wanted[start : start + AT_ONCE])
            return found

        return await self._database.read(run) if wanted else {}


def _found(
    connection: Connection, project_id: ProjectId, distinct_ids: Sequence[str]
) -> Iterator[tuple[str, EventPerson]]:
    told = [persons.c.properties[name].label(f"told_{name}") for name in TOLD_PROPERTIES]
    own = (ids.c.project_id == project_id) & ids.c.distinct_id.in_(distinct_ids)
    rows = connection.execute(
        select(ids.c.distinct_id, ids.c.person_id, persons.c.is_identified, *told)
        .join(persons, persons.c.id == ids.c.person_id)
        .where(own)
    ).all()
    first = _first_ids(connection, {row.person_id for row in rows})
    for row in rows:
        values = zip(TOLD_PROPERTIES, row[3:], strict=True)
        person = EventPerson(
            is_identified=row.is_identified,
            distinct_ids=[first[row.person_id]],
            properties={name: value for name, value in values if value is not None},
        )
        yield row.distinct_id, person


def _first_ids(connection: Connection, person_ids: Collection[int]) -> dict[int, str]:
    query = (
        select(ids.c.person_id, func.min(ids.c.distinct_id))
        .where(ids.c.person_id.in_(person_ids))
        .group_by(ids.c.person_id)
    )
    return {row[0]: row[1] for row in connection.execute(query)}
