"""Queries as SQL for the engine, with every value as a parameter.

No name and no text of the query's own gets into the SQL: tables, columns, aliases and arguments
have names that we give, and the answer's column names are told beside it.
"""

from dataclasses import dataclass

from hedgerow.hogql.ast import Select, SelectQuery, SelectSet
from hedgerow.hogql.context import Context
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.select_sql import Outer, print_query, whole_number
from hedgerow.hogql.world import World

DEFAULT_LIMIT = 100
MAX_LIMIT = 50_000


@dataclass(frozen=True, slots=True)
class Printed:
    """`limit` is how many rows the SQL gives at most, or None when it gives all."""

    sql: str
    parameters: dict[str, object]
    columns: list[str]
    limit: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How many rows a query gives that does not say, and at most; None is no bound. `ahead` is
    added to whatever it is, to see whether there is more."""

    default: int | None = DEFAULT_LIMIT
    maximum: int | None = MAX_LIMIT
    ahead: int = 0


def print_select(
    query: Select, world: World, limits: Limits | None = None, text: str | None = None
) -> Printed:
    """The query as SQL. With the `text` that it was read from, an error tells the place."""
    context = Context(world)
    limits = limits or Limits()
    try:
        wanted, offset = _outer_limit(query, limits)
        page = None if wanted is None else wanted + limits.ahead + offset
        sql, columns = print_query(context, query, {}, 0, Outer(page))
    except HogQLError as error:
        raise (error.located(text) if text is not None else error) from None
    except RecursionError:
        raise HogQLError("The query nests too deep") from None
    if isinstance(query, SelectSet):
        sql = f"SELECT * FROM ({sql})"  # noqa: S608 - see above: nothing of the caller's
    ties = " WITH TIES" if isinstance(query, SelectQuery) and query.limit_with_ties else ""
    if wanted is not None:
        sql += f" LIMIT {context.parameters.integer(wanted + limits.ahead)}"
    if offset:
        sql += f" OFFSET {context.parameters.integer(offset)}"
    sql += ties
    return Printed(
        sql=sql,
        parameters=context.parameters.values,
        columns=[name for name, _ in columns],
        limit=wanted,
        offset=offset,
    )


def _outer_limit(query: Select, limits: Limits) -> tuple[int | None, int]:
    asked = None if query.limit is None else whole_number(query.limit, "LIMIT")
    wanted = limits.default if asked is None else asked
    if limits.maximum is not None:
        wanted = limits.maximum if wanted is None else min(wanted, limits.maximum)
    return wanted, 0 if query.offset is None else whole_number(query.offset, "OFFSET")
