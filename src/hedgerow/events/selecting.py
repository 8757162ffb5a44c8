"""Chosen columns of events, or what they come to: `select` and `where` of the listing.

Where something is aggregated, all other columns are grouped by, and what `where` asks of an
aggregate is asked of the groups.
"""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from hedgerow.errors import Invalid
from hedgerow.events.ask import MAX_OFFSET, Asked
from hedgerow.events.cursor import Cursor
from hedgerow.events.expressions import all_of, field, value
from hedgerow.events.listing import FEWER, STEP, Listing
from hedgerow.events.question import EVENTS, beyond, by_time, conditions, where_of
from hedgerow.events.reading import Reading
from hedgerow.events.shapes import Shape, shape_of
from hedgerow.events.store import Answer, AnswerTooLarge
from hedgerow.events.surroundings import Surroundings
from hedgerow.hogql.ast import Call, Expr, OrderExpr, SelectQuery
from hedgerow.hogql.parse import parse_order
from hedgerow.hogql.walk import aggregates
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.projects.model import Project

_MINUS = re.compile(r"\s*-\s*(?=[A-Za-z_$`(])")
HIDDEN = ("timestamp", "uuid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`next` is where it goes on: a cursor where rows come by time, else how many to pass over.
    None where there is no more, or no further way."""

    columns: Sequence[str]
    types: Sequence[str]
    rows: Sequence[Sequence[Any]]
    has_more: bool
    next: Cursor | int | None
    query: SelectQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """`has_cursor`: rows are events by time, and their time and uuid are read with them."""

    shapes: Sequence[Shape]
    query: SelectQuery
    has_cursor: bool


class Selecting:
    def __init__(self, reading: Reading, listing: Listing) -> None:
        self._reading = reading
        self._listing = listing

    async def table(self, project: Project, asked: Asked, now: datetime) -> Table:
        step = asked.limit or STEP
        return await anext(self.walk(project, asked, now, step=step))

    async def walk(
        self, project: Project, asked: Asked, now: datetime, *, step: int = STEP
    ) -> AsyncIterator[Table]:
        """All rows, some at a time; one table at least."""
        around = await self._reading.surroundings(project, now, asked.said)
        distinct_ids = await self._listing.ids_of_person(project, asked.person)
        left = asked.limit
        while left is None or left > 0:
            limit = step if left is None else min(left, step)
            table = await self._some(around, asked, distinct_ids, limit)
            yield table
            if table.next is None:
                return
            left = None if left is None else left - len(table.rows)
            asked = (
                replace(asked, cursor=table.next, offset=0)
                if isinstance(table.next, Cursor)
                else replace(asked, offset=table.next)
            )

    async def _some(
        self,
        around: Surroundings,
        asked: Asked,
        distinct_ids: Sequence[str] | None,
        limit: int,
    ) -> Table:
        plan = await in_daemon_thread(partial(_planned, asked, around, distinct_ids, limit))
        try:
            answer = await self._reading.read(around, lambda: plan.query, texts=asked.texts)
        except AnswerTooLarge:
            if limit == 1 or plan.query.group_by:
                raise
            return await self._some(around, asked, distinct_ids, max(1, limit // FEWER))
        return await in_daemon_thread(partial(_table, plan, asked, answer, limit))


def _table(plan: _Plan, asked: Asked, answer: Answer, limit: int) -> Table:
    rows, has_more = answer.rows[:limit], len(answer.rows) > limit
    return Table(
        columns=[shape.text for shape in plan.shapes],
        types=_types(plan, answer.types),
        rows=[_put(plan.shapes, row) for row in rows],
        has_more=has_more,
        next=_next(plan, asked, rows) if has_more else None,
        query=plan.query,
    )


def _planned(
    asked: Asked, around: Surroundings, distinct_ids: Sequence[str] | None, limit: int
) -> _Plan:
    shapes = [shape_of(text) for text in asked.select or ()]
    where, having = conditions(asked, around, distinct_ids), list[Expr]()
    is_grouped = any(shape.aggregates for shape in shapes)
    for each in where_of(asked):
        (having if aggregates(each) else where).append(each)
    if having and not is_grouped:
        raise Invalid("To ask about an aggregate, select one.", attr="where")
    grouped = [shape.parts[0] for shape in shapes if not shape.aggregates] if is_grouped else []
    if is_grouped and not all(shape.is_plain for shape in shapes):
        raise Invalid("* and person cannot be grouped by.", attr="select")
    has_cursor = not is_grouped and asked.is_by_time and (asked.order or _shows_time(shapes))
    if asked.cursor is not None:
        if not has_cursor:
            raise Invalid("This question has no cursor.", attr="cursor")
        where.append(beyond(asked.cursor, ascending=asked.is_ascending))
    select = [part for shape in shapes for part in shape.parts]
    query = SelectQuery(
        select=select + [field(name) for name in HIDDEN] if has_cursor else select,
        source=EVENTS,
        where=all_of(where),
        group_by=grouped,
        having=all_of(having) if having else None,
        order_by=_order(asked, shapes, grouped, has_cursor=bool(has_cursor)),
        limit=value(limit + 1),
        offset=value(asked.offset) if asked.offset else None,
    )
    return _Plan(shapes=shapes, query=query, has_cursor=bool(has_cursor))


def _shows_time(shapes: Sequence[Shape]) -> bool:
    return any(shape.text.strip() == "*" or shape.is_field("timestamp") for shape in shapes)


def _order(
    asked: Asked, shapes: Sequence[Shape], grouped: Sequence[Expr], *, has_cursor: bool
) -> list[OrderExpr]:
    """As asked, or: most first, by the first aggregate, by time, by the first column. What leaves
    two rows alike is followed by what does not, so that pages do not overlap."""
    if has_cursor:
        return by_time(ascending=asked.is_ascending)
    order = [_ordered(text) for text in asked.order] or [_usual(shapes)]
    is_grouped = any(shape.aggregates for shape in shapes)
    rest = [OrderExpr(expr=each) for each in grouped] if is_grouped else by_time(ascending=False)
    return order + rest


def _ordered(text: str) -> OrderExpr:
    minus = _MINUS.match(text)
    try:
        order = parse_order(text[minus.end() :] if minus else text)
    except Invalid as error:
        raise Invalid(error.detail, attr="orderBy", code=error.code) from None
    return replace(order, descending=True) if minus else order


def _usual(shapes: Sequence[Shape]) -> OrderExpr:
    aggregated = [shape.parts[0] for shape in shapes if shape.aggregates]
    counts = [
        each for each in aggregated if isinstance(each, Call) and (each.name, each.args) == COUNT
    ]
    if aggregated:
        return OrderExpr(expr=(counts or aggregated)[0], descending=True)
    return OrderExpr(expr=shapes[0].parts[0])


COUNT = ("count", ())


def _types(plan: _Plan, types: Sequence[str]) -> list[str]:
    found, at = list[str](), 0
    for shape in plan.shapes:
        own = types[at : at + len(shape.parts)]
        found.append(own[0] if shape.is_plain else f"Tuple({', '.join(own)})")
        at += len(shape.parts)
    return found


def _put(shapes: Sequence[Shape], row: Sequence[Any]) -> list[Any]:
    found, at = list[Any](), 0
    for shape in shapes:
        found.append(shape.put(row[at : at + len(shape.parts)]))
        at += len(shape.parts)
    return found


def _next(plan: _Plan, asked: Asked, rows: Sequence[Sequence[Any]]) -> Cursor | int | None:
    if plan.has_cursor:
        timestamp, uuid = rows[-1][-2:]
        return Cursor(timestamp=timestamp.astimezone(UTC), uuid=UUID(str(uuid)))
    following = asked.offset + len(rows)
    return following if following <= MAX_OFFSET else None
