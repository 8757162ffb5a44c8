"""What is asked, as the conditions of a query over events."""

from collections.abc import Sequence

from hedgerow.errors import Invalid
from hedgerow.events.ask import Asked
from hedgerow.events.cursor import Cursor
from hedgerow.events.expressions import all_of, among, any_of, compared, equal, field, value
from hedgerow.events.filters import Filters
from hedgerow.events.surroundings import Surroundings
from hedgerow.hogql.ast import Compare, Expr, Join, OrderExpr, SelectQuery
from hedgerow.hogql.parse import parse_expr

EVENTS = Join(table=field("events"))


def conditions(
    asked: Asked, around: Surroundings, distinct_ids: Sequence[str] | None
) -> list[Expr]:
    """All but `where` and the cursor. `distinct_ids` are those of the person who is asked for."""
    found: list[Expr] = [compared(field("timestamp"), Compare.LT, value(asked.before))]
    if asked.after is not None:
        found.append(compared(field("timestamp"), Compare.GT, value(asked.after)))
    if asked.event:
        found.append(equal(field("event"), asked.event))
    if asked.distinct_id:
        found.append(equal(field("distinct_id"), asked.distinct_id))
    if distinct_ids is not None:
        found.append(among(field("distinct_id"), distinct_ids))
    if asked.properties:
        found.append(Filters(around.at, around.cohorts, parse_expr).all(asked.properties))
    return found


def where_of(asked: Asked) -> list[Expr]:
    return [parsed(text, "where") for text in asked.where]


def parsed(text: str, attr: str) -> Expr:
    try:
        return parse_expr(text)
    except Invalid as error:
        raise Invalid(error.detail, attr=attr, code=error.code) from None


def beyond(cursor: Cursor, *, ascending: bool) -> Expr:
    """Whether an event comes after the one where a page ended. The first condition says nothing
    new; it is what the sorting key understands."""
    timestamp, uuid = field("timestamp"), field("uuid")
    at, op, or_at = value(cursor.timestamp), Compare.LT, Compare.LT_EQ
    if ascending:
        op, or_at = Compare.GT, Compare.GT_EQ
    return all_of(
        [
            compared(timestamp, or_at, at),
            any_of([compared(timestamp, op, at), compared(uuid, op, value(cursor.uuid))]),
        ]
    )


def by_time(*, ascending: bool) -> list[OrderExpr]:
    """No two events share both, so the order is sure."""
    return [OrderExpr(expr=field(name), descending=not ascending) for name in ("timestamp", "uuid")]


def of_events(
    select: Sequence[Expr],
    where: Sequence[Expr],
    *,
    ascending: bool,
    limit: int,
    offset: int = 0,
) -> SelectQuery:
    return SelectQuery(
        select=select,
        source=EVENTS,
        where=all_of(where),
        order_by=by_time(ascending=ascending),
        limit=value(limit),
        offset=value(offset) if offset else None,
    )
