"""Events for those who ask: a page, one by its uuid, or all of them one page after another."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from hedgerow.errors import Invalid
from hedgerow.events.ask import Asked
from hedgerow.events.cursor import Cursor
from hedgerow.events.expressions import equal, field
from hedgerow.events.question import beyond, conditions, of_events, where_of
from hedgerow.events.reading import Reading
from hedgerow.events.record import COLUMNS, EventPerson, EventRecord, Row, record_of, row_of
from hedgerow.events.store import Answer, AnswerTooLarge, EventPersons
from hedgerow.events.surroundings import Surroundings
from hedgerow.hogql.ast import Expr, SelectQuery
from hedgerow.lib.ids import canonical_uuid
from hedgerow.lib.text import whole_number
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.persons.store import PersonStore
from hedgerow.projects.model import Project

# How many events are read at a time when all are asked for.
STEP = 5_000
# Where events are large, a page holds so many times fewer of them, and if need be again.
FEWER = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Events and whose they are. `end` is where the page ended, if there is more."""

    rows: Sequence[Row]
    persons: Mapping[str, EventPerson]
    end: Cursor | None

    def records(self) -> list[EventRecord]:
        return [record_of(row, self.persons.get(row.distinct_id)) for row in self.rows]


class Listing:
    def __init__(self, reading: Reading, event_persons: EventPersons, persons: PersonStore) -> None:
        self._reading = reading
        self._event_persons = event_persons
        self._persons = persons

    async def page(self, project: Project, asked: Asked, now: datetime) -> Page:
        async for page in self.walk(project, asked, now, step=asked.limit or STEP):
            return page
        return Page(rows=(), persons={}, end=None)

    async def find(self, project: Project, uuid: str, now: datetime) -> EventRecord | None:
        around = await self._reading.surroundings(project, now)
        wanted = [equal(field("uuid"), UUID(uuid))]
        answer = await self._reading.read(around, lambda: _events(wanted, limit=1))
        page = await self._shown(project, _rows(answer), None, include_person=True)
        return next(iter(page.records()), None)

    async def walk(
        self, project: Project, asked: Asked, now: datetime, *, step: int = STEP
    ) -> AsyncIterator[Page]:
        """All that are asked for, some at a time. Who is slow to take them holds up nobody."""
        around = await self._reading.surroundings(project, now, asked.said)
        distinct_ids = await self.ids_of_person(project, asked.person)
        if distinct_ids is not None and not distinct_ids:
            return
        left = asked.limit
        while left is None or left > 0:
            limit = step if left is None else min(left, step)
            rows, more = await self._some(around, asked, distinct_ids, limit)
            end = Cursor(timestamp=rows[-1].timestamp, uuid=UUID(rows[-1].uuid)) if more else None
            yield await self._shown(project, rows, end, include_person=asked.include_person)
            if end is None:
                return
            left = None if left is None else left - len(rows)
            asked = replace(asked, cursor=end, offset=0)

    async def ids_of_person(self, project: Project, who: str) -> Sequence[str] | None:
        """The distinct ids of a person by uuid or number; None if nobody is asked for."""
        if not who:
            return None
        uuid, number = canonical_uuid(who), whole_number(who)
        if uuid is not None:
            person = await self._persons.person(project.id, uuid)
        elif number is not None:
            number = min(max(number, 0), 2**63 - 1)  # nobody has ids beyond
            person = next(iter(await self._persons.newest_of([number])), None)
        else:
            raise Invalid("The uuid or the number of a person is required.", attr="person_id")
        return person.distinct_ids if person and person.project_id == project.id else ()

    async def _some(
        self,
        around: Surroundings,
        asked: Asked,
        distinct_ids: Sequence[str] | None,
        limit: int,
    ) -> tuple[Sequence[Row], bool]:
        """Some rows, and whether there are more; fewer than asked for where they are large."""

        def ask() -> SelectQuery:
            where = conditions(asked, around, distinct_ids) + where_of(asked)
            if asked.cursor is not None:
                where.append(beyond(asked.cursor, ascending=asked.is_ascending))
            return _events(
                where, limit=limit + 1, offset=asked.offset, ascending=asked.is_ascending
            )

        try:
            answer = await self._reading.read(around, ask, texts=asked.texts)
        except AnswerTooLarge:
            if limit == 1:
                raise
            return await self._some(around, asked, distinct_ids, max(1, limit // FEWER))
        rows = await in_daemon_thread(lambda: _rows(answer))
        return rows[:limit], len(rows) > limit

    async def _shown(
        self, project: Project, rows: Sequence[Row], end: Cursor | None, *, include_person: bool
    ) -> Page:
        ids = {row.distinct_id for row in rows} if include_person else set()
        persons = await self._event_persons.persons_of(project.id, ids)
        return Page(rows=rows, persons=persons, end=end)


def _events(
    where: Sequence[Expr], *, limit: int, offset: int = 0, ascending: bool = False
) -> SelectQuery:
    select = [field(name) for name in COLUMNS]
    return of_events(select, where, ascending=ascending, limit=limit, offset=offset)


def _rows(answer: Answer) -> Sequence[Row]:
    return [row_of(values) for values in answer.rows]
