"""Selected columns of events, or aggregates: the `select` and `where` parameters.

With an aggregate, the query groups by all other columns, and conditions of `where` on aggregates go
to HAVING.
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from hedgerow.errors import Invalid
from hedgerow.events.listing.clauses import (
    EVENTS_TABLE,
    build_conditions,
    build_cursor_condition,
    order_by_time,
    parse_where,
)
from hedgerow.events.listing.cursor import EventCursor
from hedgerow.events.listing.event_listing import PAGE_SHRINK_FACTOR, PAGE_SIZE, EventListing
from hedgerow.events.listing.query import MAX_OFFSET, EventsQuery
from hedgerow.events.listing.select_columns import SelectColumn, parse_select_column
from hedgerow.events.query.admission import retry_if_admitted
from hedgerow.events.query.context import QueryContext, compile_or_locate
from hedgerow.events.query.encoded_rows import encode_bounded
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.events.store import QueryResult, ResultTooLarge
from hedgerow.hogql.ast import Expr, FunctionCall, OrderExpr, SelectQuery
from hedgerow.hogql.builders import all_of, constant, field
from hedgerow.hogql.parser.parse import parse_order
from hedgerow.hogql.printer.statement import PrintedQuery
from hedgerow.hogql.traversal import has_aggregate
from hedgerow.projects.model import Project

_MINUS = re.compile(r"\s*-\s*(?=[A-Za-z_$`(])")
CURSOR_COLUMNS = ("timestamp", "uuid")

RowEncoder = Callable[[Sequence[Sequence[Any]]], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """`rows` are encoded. `next` is where the table continues: a cursor if rows are ordered by
    time, else an offset. It is None on the last page, or if the maximum offset is reached."""

    columns: Sequence[str]
    types: Sequence[str]
    rows: bytes
    row_count: int
    has_more: bool
    next: EventCursor | int | None
    query: SelectQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class _SelectPlan:
    """With `has_cursor`, rows are events in order of time, and the query also selects their time
    and uuid."""

    columns: Sequence[SelectColumn]
    query: SelectQuery
    has_cursor: bool


class SelectListing:
    """Rows are encoded as JSON, or by a function that may run in another process."""

    def __init__(self, executor: QueryExecutor, listing: EventListing) -> None:
        self._executor = executor
        self._listing = listing

    async def fetch_table(self, project: Project, query: EventsQuery, now: datetime) -> ResultTable:
        page_size = query.limit or PAGE_SIZE
        return await anext(self.iterate_tables(project, query, now, page_size=page_size))

    async def iterate_tables(
        self,
        project: Project,
        query: EventsQuery,
        now: datetime,
        *,
        page_size: int = PAGE_SIZE,
        encode: RowEncoder = encode_bounded,
    ) -> AsyncIterator[ResultTable]:
        """Yield all rows in tables, at least one."""
        context = await self._executor.build_context(project, now, query.documents)
        distinct_ids = await self._listing.resolve_person_ids(project, query.person)
        left = query.limit
        while left is None or left > 0:
            limit = page_size if left is None else min(left, page_size)
            table = await retry_if_admitted(
                partial(self._fetch, context, query, distinct_ids, (limit, encode))
            )
            yield table
            if table.next is None:
                return
            left = None if left is None else left - table.row_count
            query = (
                replace(query, cursor=table.next, offset=0)
                if isinstance(table.next, EventCursor)
                else replace(query, offset=table.next)
            )

    async def _fetch(
        self,
        context: QueryContext,
        query: EventsQuery,
        distinct_ids: Sequence[str] | None,
        limit_and_encoder: tuple[int, RowEncoder],
    ) -> ResultTable:
        limit, encode = limit_and_encoder
        plan, printed = await self._executor.run_compilation(
            context, partial(_compile_select, query, context, distinct_ids, limit)
        )
        shape = partial(_build_table, plan=plan, query=query, limit=limit, encode=encode)
        try:
            return await self._executor.run_shaped(context, printed, shape)
        except ResultTooLarge:
            if limit == 1 or plan.query.group_by:
                raise
            fewer = max(1, limit // PAGE_SHRINK_FACTOR)
            return await self._fetch(context, query, distinct_ids, (fewer, encode))


def _build_table(
    answer: QueryResult, plan: _SelectPlan, query: EventsQuery, limit: int, encode: RowEncoder
) -> ResultTable:
    rows, has_more = answer.rows[:limit], len(answer.rows) > limit
    return ResultTable(
        columns=[column.text for column in plan.columns],
        types=_list_types(plan, answer.types),
        rows=encode([_assemble_row(plan.columns, row) for row in rows]),
        row_count=len(rows),
        has_more=has_more,
        next=_next_position(plan, query, rows) if has_more else None,
        query=plan.query,
    )


def _compile_select(
    query: EventsQuery, context: QueryContext, distinct_ids: Sequence[str] | None, limit: int
) -> tuple[_SelectPlan, PrintedQuery]:
    plan = _plan_select(query, context, distinct_ids, limit)
    return plan, compile_or_locate(lambda: plan.query, context, texts=query.hogql_texts)


def _plan_select(
    query: EventsQuery, context: QueryContext, distinct_ids: Sequence[str] | None, limit: int
) -> _SelectPlan:
    columns = [parse_select_column(text) for text in query.select or ()]
    where, having = build_conditions(query, context, distinct_ids), list[Expr]()
    is_grouped = any(column.has_aggregate for column in columns)
    for each in parse_where(query):
        (having if has_aggregate(each) else where).append(each)
    if having and not is_grouped:
        raise Invalid(
            "A condition on an aggregate requires an aggregate in `select`.", attr="where"
        )
    grouped = (
        [column.parts[0] for column in columns if not (column.has_aggregate or column.is_constant)]
        if is_grouped
        else []
    )
    if is_grouped and not all(column.is_single_expression for column in columns):
        raise Invalid("`*` and `person` cannot be combined with aggregates.", attr="select")
    has_cursor = not is_grouped and query.is_by_time and (query.order or _has_time_column(columns))
    if query.cursor is not None:
        if not has_cursor:
            raise Invalid(
                "This query has no cursor. Use `offset`, or order by timestamp.", attr="cursor"
            )
        where.append(build_cursor_condition(query.cursor, ascending=query.is_ascending))
    select = [part for column in columns for part in column.parts]
    select_query = SelectQuery(
        select=select + [field(name) for name in CURSOR_COLUMNS] if has_cursor else select,
        source=EVENTS_TABLE,
        where=all_of(where),
        group_by=grouped,
        having=all_of(having) if having else None,
        order_by=_build_order(query, columns, grouped, has_cursor=bool(has_cursor)),
        limit=constant(limit + 1),
        offset=constant(query.offset) if query.offset else None,
    )
    return _SelectPlan(columns=columns, query=select_query, has_cursor=bool(has_cursor))


def _has_time_column(columns: Sequence[SelectColumn]) -> bool:
    return any(column.text.strip() == "*" or column.is_field("timestamp") for column in columns)


def _build_order(
    query: EventsQuery,
    columns: Sequence[SelectColumn],
    grouped: Sequence[Expr],
    *,
    has_cursor: bool,
) -> list[OrderExpr]:
    """Build the requested order, or the default. Adds unique columns at the end, so that pages do
    not overlap."""
    if has_cursor:
        return order_by_time(ascending=query.is_ascending)
    order = [_parse_order_by(text) for text in query.order] or _default_order(columns)
    is_grouped = any(column.has_aggregate for column in columns)
    rest = (
        [OrderExpr(expr=each) for each in grouped] if is_grouped else order_by_time(ascending=False)
    )
    return order + rest


def _parse_order_by(text: str) -> OrderExpr:
    minus = _MINUS.match(text)
    try:
        order = parse_order(text[minus.end() :] if minus else text)
    except Invalid as error:
        raise Invalid(error.detail, attr="orderBy", code=error.code) from None
    return replace(order, descending=True) if minus else order


def _default_order(columns: Sequence[SelectColumn]) -> list[OrderExpr]:
    aggregated = [column.parts[0] for column in columns if column.has_aggregate]
    counts = [
        each
        for each in aggregated
        if isinstance(each, FunctionCall) and (each.name, each.args) == COUNT
    ]
    if aggregated:
        return [OrderExpr(expr=(counts or aggregated)[0], descending=True)]
    return [OrderExpr(expr=each.parts[0]) for each in columns if not each.is_constant][:1]


COUNT = ("count", ())


def _list_types(plan: _SelectPlan, types: Sequence[str]) -> list[str]:
    found, at = list[str](), 0
    for column in plan.columns:
        own = types[at : at + len(column.parts)]
        found.append(own[0] if column.is_single_expression else f"Tuple({', '.join(own)})")
        at += len(column.parts)
    return found


def _assemble_row(columns: Sequence[SelectColumn], row: Sequence[Any]) -> list[Any]:
    found, at = list[Any](), 0
    for column in columns:
        found.append(column.assemble(row[at : at + len(column.parts)]))
        at += len(column.parts)
    return found


def _next_position(
    plan: _SelectPlan, query: EventsQuery, rows: Sequence[Sequence[Any]]
) -> EventCursor | int | None:
    if plan.has_cursor:
        timestamp, uuid = rows[-1][-2:]
        return EventCursor(timestamp=timestamp.astimezone(UTC), uuid=UUID(str(uuid)))
    following = query.offset + len(rows)
    return following if following <= MAX_OFFSET else None
