"""The clauses of a query over events."""

from collections.abc import Sequence

from hedgerow.errors import Invalid
from hedgerow.events.filters.compiler import FilterCompiler
from hedgerow.events.listing.cursor import EventCursor
from hedgerow.events.listing.query import EventsQuery
from hedgerow.events.query.context import QueryContext, find_action, match_action
from hedgerow.hogql.ast import Compare, Expr, Join, OrderExpr, SelectQuery
from hedgerow.hogql.builders import FALSE, all_of, any_of, compare, constant, equals, field, in_list
from hedgerow.hogql.parser.parse import parse_expr

EVENTS_TABLE = Join(table=field("events"))


def build_conditions(
    query: EventsQuery, context: QueryContext, distinct_ids: Sequence[str] | None
) -> list[Expr]:
    """Build all conditions except `where` and the cursor. `distinct_ids` are those of the requested
    person."""
    found: list[Expr] = [compare(field("timestamp"), Compare.LT, constant(query.before))]
    if query.after is not None:
        found.append(compare(field("timestamp"), Compare.GT, constant(query.after)))
    if query.event:
        found.append(equals(field("event"), query.event))
    if query.distinct_id:
        found.append(equals(field("distinct_id"), query.distinct_id))
    if distinct_ids is not None:
        found.append(in_list(field("distinct_id"), distinct_ids))
    if query.action_id is not None:
        found.append(_match_action(query.action_id, query, context))
    if query.properties:
        found.append(
            FilterCompiler(context.time, context.cohorts, parse_expr).compile(query.properties)
        )
    return found


def _match_action(id: int, query: EventsQuery, context: QueryContext) -> Expr:
    if id not in context.actions and not query.requires_action:
        return FALSE
    return match_action(find_action(id, context, "query__actionId"), context)


def parse_where(query: EventsQuery) -> list[Expr]:
    return [parse_parameter(text, "where") for text in query.where]


def parse_parameter(text: str, attr: str) -> Expr:
    try:
        return parse_expr(text)
    except Invalid as error:
        raise Invalid(error.detail, attr=attr, code=error.code) from None


def build_cursor_condition(cursor: EventCursor, *, ascending: bool) -> Expr:
    """Match the events after a cursor. The first condition is redundant, but the sorting key needs
    it."""
    timestamp, uuid = field("timestamp"), field("uuid")
    at, op, or_at = constant(cursor.timestamp), Compare.LT, Compare.LT_EQ
    if ascending:
        op, or_at = Compare.GT, Compare.GT_EQ
    return all_of(
        [
            compare(timestamp, or_at, at),
            any_of([compare(timestamp, op, at), compare(uuid, op, constant(cursor.uuid))]),
        ]
    )


def order_by_time(*, ascending: bool) -> list[OrderExpr]:
    """Order by time and uuid, which is unique."""
    return [OrderExpr(expr=field(name), descending=not ascending) for name in ("timestamp", "uuid")]


def build_events_select(
    select: Sequence[Expr],
    where: Sequence[Expr],
    *,
    ascending: bool,
    limit: int,
    offset: int = 0,
) -> SelectQuery:
    return SelectQuery(
        select=select,
        source=EVENTS_TABLE,
        where=all_of(where),
        order_by=order_by_time(ascending=ascending),
        limit=constant(limit),
        offset=constant(offset) if offset else None,
    )
