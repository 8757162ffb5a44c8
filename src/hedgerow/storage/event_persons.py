"""Who events are by, for a page of them at once."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import bindparam, func, select

from hedgerow.events.record import TOLD_PROPERTIES, EventPerson
from hedgerow.lib import jsonio
from hedgerow.lib.text import why_unstorable
from hedgerow.projects.model import ProjectId
from hedgerow.storage.database import Database, HotRead
from hedgerow.storage.tables import person_distinct_ids, persons

AT_ONCE = 100

ids, others = person_distinct_ids, person_distinct_ids.alias()
_names = [f"id{number}" for number in range(AT_ONCE)]
_first_id = (
    select(func.min(others.c.distinct_id))
    .where(others.c.person_id == persons.c.id)
    .scalar_subquery()
)
_persons_of = HotRead(
    select(ids.c.distinct_id, persons.c.is_identified, persons.c.properties, _first_id)
    .join(persons, persons.c.id == ids.c.person_id)
    .where(
        (ids.c.project_id == bindparam("project"))
        & ids.c.distinct_id.in_([bindparam(name) for name in _names])
    )
)
_properties = msgspec.json.Decoder(dict[str, msgspec.Raw])


class EventPersonRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def persons_of(
        self, project_id: ProjectId, distinct_ids: Collection[str]
    ) -> Mapping[str, EventPerson]:
        wanted = [each for each in distinct_ids if not why_unstorable(each)]
        found: dict[str, EventPerson] = {}
        for start in range(0, len(wanted), AT_ONCE):
            if start:
                await asyncio.sleep(0)  # others are served in between
            found |= await self._some(project_id, wanted[start : start + AT_ONCE])
        return found

    async def _some(
        self, project_id: ProjectId, wanted: Sequence[str]
    ) -> Iterator[tuple[str, EventPerson]]:
        """The statement always asks for as many, so the last id is asked for again and again."""
        asked = [*wanted, *[wanted[-1]] * (AT_ONCE - len(wanted))]
        values = {"project": project_id, **dict(zip(_names, asked, strict=True))}
        rows = await self._database.fetch(_persons_of, values)
        return ((row[0], _person(*row[1:])) for row in rows)


def _person(is_identified: Any, properties: Any, first_id: str) -> EventPerson:
    return EventPerson(
        is_identified=bool(is_identified),
        distinct_ids=[first_id],
        properties=_told(properties),
    )


def _told(properties: Any) -> dict[str, Any]:
    """Of JSON as text only as much is read as is told."""
    if isinstance(properties, str):
        raw = _properties.decode(properties)
        return {name: jsonio.decode(raw[name]) for name in TOLD_PROPERTIES if name in raw}
    return {name: properties[name] for name in TOLD_PROPERTIES if name in properties}
