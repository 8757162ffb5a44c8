"""Whole events: one page, one event by uuid, or all pages."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from uuid import UUID

from hedgerow.errors import Invalid
from hedgerow.events.listing.clauses import (
    build_conditions,
    build_cursor_condition,
    build_events_select,
    parse_where,
)
from hedgerow.events.listing.cursor import EventCursor
from hedgerow.events.listing.query import EventsQuery
from hedgerow.events.listing.record import (
    COLUMNS,
    EventPerson,
    EventRecord,
    EventRow,
    build_record,
    parse_row,
)
from hedgerow.events.query.admission import retry_if_admitted
from hedgerow.events.query.context import QueryContext, compile_or_locate
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.events.store import EventPersons, QueryResult, ResultTooLarge
from hedgerow.hogql.ast import Expr, SelectQuery
from hedgerow.hogql.builders import equals, field
from hedgerow.hogql.printer.statement import PrintedQuery
from hedgerow.lib.ids import normalize_uuid
from hedgerow.lib.text import parse_whole_number
from hedgerow.lib.threads import run_in_thread
from hedgerow.persons.store import PersonStore
from hedgerow.projects.model import Project

# The size of a page when all events are requested.
PAGE_SIZE = 5_000
# A page that is too large for one result is retried with this many times fewer events.
PAGE_SHRINK_FACTOR = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEvents:
    """Events and their persons. `end` is the cursor of the next page, None on the last."""

    rows: Sequence[EventRow]
    persons: Mapping[str, EventPerson]
    end: EventCursor | None

    def build_records(self) -> list[EventRecord]:
        return [build_record(row, self.persons.get(row.distinct_id)) for row in self.rows]


class EventListing:
    def __init__(
        self, executor: QueryExecutor, event_persons: EventPersons, persons: PersonStore
    ) -> None:
        self._executor = executor
        self._event_persons = event_persons
        self._persons = persons

    async def fetch_page(self, project: Project, query: EventsQuery, now: datetime) -> ListedEvents:
        async for page in self.iterate_pages(
            project, query, now, page_size=query.limit or PAGE_SIZE
        ):
            return page
        return ListedEvents(rows=(), persons={}, end=None)

    async def find(self, project: Project, uuid: str, now: datetime) -> EventRecord | None:
        context = await self._executor.build_context(project, now)
        where = [equals(field("uuid"), UUID(uuid))]
        answer = await self._executor.execute(context, lambda: _select_events(where, limit=1))
        page = await self._add_persons(project, _parse_rows(answer), None, include_person=True)
        return next(iter(page.build_records()), None)

    async def iterate_pages(
        self, project: Project, query: EventsQuery, now: datetime, *, page_size: int = PAGE_SIZE
    ) -> AsyncIterator[ListedEvents]:
        """Yield all pages. A slow consumer blocks no other query."""
        context = await self._executor.build_context(project, now, query.documents)
        distinct_ids = await self.resolve_person_ids(project, query.person)
        if distinct_ids is not None and not distinct_ids:
            return
        left = query.limit
        while left is None or left > 0:
            limit = page_size if left is None else min(left, page_size)
            rows, more = await retry_if_admitted(
                partial(self._fetch, context, query, distinct_ids, limit)
            )
            end = (
                EventCursor(timestamp=rows[-1].timestamp, uuid=UUID(rows[-1].uuid))
                if more
                else None
            )
            yield await retry_if_admitted(
                partial(self._add_persons, project, rows, end, include_person=query.include_person)
            )
            if end is None:
                return
            left = None if left is None else left - len(rows)
            query = replace(query, cursor=end, offset=0)

    async def resolve_person_ids(self, project: Project, person_id: str) -> Sequence[str] | None:
        """Return the distinct ids of a person by uuid or number, or None if no person is
        requested."""
        if not person_id:
            return None
        uuid, number = normalize_uuid(person_id), parse_whole_number(person_id)
        if uuid is not None:
            person = await self._persons.person(project.id, uuid)
        elif number is not None:
            number = min(max(number, 0), 2**63 - 1)  # ids never exceed this range
            person = next(iter(await self._persons.get_newest_first([number])), None)
        else:
            raise Invalid("Expected the uuid or the number of a person.", attr="person_id")
        return person.distinct_ids if person and person.project_id == project.id else ()

    async def _fetch(
        self,
        context: QueryContext,
        query: EventsQuery,
        distinct_ids: Sequence[str] | None,
        limit: int,
    ) -> tuple[Sequence[EventRow], bool]:
        """Fetch rows, and whether there are more. Large events reduce the size of the page."""

        try:
            printed = await self._executor.run_compilation(
                context, partial(_compile_page, query, context, distinct_ids, limit)
            )
            answer = await self._executor.run(context, printed)
        except ResultTooLarge:
            if limit == 1:
                raise
            return await self._fetch(
                context, query, distinct_ids, max(1, limit // PAGE_SHRINK_FACTOR)
            )
        rows = await run_in_thread(lambda: _parse_rows(answer))
        return rows[:limit], len(rows) > limit

    async def _add_persons(
        self,
        project: Project,
        rows: Sequence[EventRow],
        end: EventCursor | None,
        *,
        include_person: bool,
    ) -> ListedEvents:
        ids = {row.distinct_id for row in rows} if include_person else set()
        persons = await self._event_persons.persons_of(project.id, ids)
        return ListedEvents(rows=rows, persons=persons, end=end)


def _compile_page(
    query: EventsQuery, context: QueryContext, distinct_ids: Sequence[str] | None, limit: int
) -> PrintedQuery:
    def build_query() -> SelectQuery:
        where = build_conditions(query, context, distinct_ids) + parse_where(query)
        if query.cursor is not None:
            where.append(build_cursor_condition(query.cursor, ascending=query.is_ascending))
        return _select_events(
            where, limit=limit + 1, offset=query.offset, ascending=query.is_ascending
        )

    return compile_or_locate(build_query, context, texts=query.hogql_texts)


def _select_events(
    where: Sequence[Expr], *, limit: int, offset: int = 0, ascending: bool = False
) -> SelectQuery:
    select = [field(name) for name in COLUMNS]
    return build_events_select(select, where, ascending=ascending, limit=limit, offset=offset)


def _parse_rows(answer: QueryResult) -> Sequence[EventRow]:
    return [parse_row(values) for values in answer.rows]
