"""The persons of a page of events."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import bindparam, func, select

from hedgerow.events.listing.record import PERSON_SUMMARY_PROPERTIES, EventPerson
from hedgerow.events.store import EventPersons
from hedgerow.lib import jsonio
from hedgerow.lib.text import explain_unstorable
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.tables import person_distinct_ids, persons

BATCH_SIZE = 100

ids, others = person_distinct_ids, person_distinct_ids.alias()
_names = [f"id{number}" for number in range(BATCH_SIZE)]
_first_id = (
    select(func.min(others.c.distinct_id))
    .where(others.c.person_id == persons.c.id)
    .scalar_subquery()
)
_persons_of = PreparedQuery(
    select(ids.c.distinct_id, persons.c.is_identified, persons.c.properties, _first_id)
    .join(persons, persons.c.id == ids.c.person_id)
    .where(
        (ids.c.project_id == bindparam("project"))
        & ids.c.distinct_id.in_([bindparam(name) for name in _names])
    )
)
_properties = msgspec.json.Decoder(dict[str, msgspec.Raw])


class SqlEventPersons(EventPersons):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def persons_of(
        self, project_id: ProjectId, distinct_ids: Collection[str]
    ) -> Mapping[str, EventPerson]:
        wanted = [each for each in distinct_ids if not explain_unstorable(each)]
        found: dict[str, EventPerson] = {}
        for start in range(0, len(wanted), BATCH_SIZE):
            if start:
                await asyncio.sleep(0)  # let other requests run
            found |= await self._fetch_batch(project_id, wanted[start : start + BATCH_SIZE])
        return found

    async def _fetch_batch(
        self, project_id: ProjectId, wanted: Sequence[str]
    ) -> Iterator[tuple[str, EventPerson]]:
        """Fetch one batch. The statement has a fixed number of parameters: repeat the last id."""
        padded = [*wanted, *[wanted[-1]] * (BATCH_SIZE - len(wanted))]
        values = {"project": project_id, **dict(zip(_names, padded, strict=True))}
        rows = await self._database.fetch(_persons_of, values)
        return ((row[0], _decode_person(*row[1:])) for row in rows)


def _decode_person(is_identified: Any, properties: Any, first_id: str) -> EventPerson:
    return EventPerson(
        is_identified=bool(is_identified),
        distinct_ids=[first_id],
        properties=_pick_properties(properties),
    )


def _pick_properties(properties: Any) -> dict[str, Any]:
    """Decode only the properties that the list shows."""
    if isinstance(properties, str):
        raw = _properties.decode(properties)
        return {name: jsonio.decode(raw[name]) for name in PERSON_SUMMARY_PROPERTIES if name in raw}
    return {name: properties[name] for name in PERSON_SUMMARY_PROPERTIES if name in properties}
