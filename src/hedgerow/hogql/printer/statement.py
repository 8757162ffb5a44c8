"""The entry point of the printer.

The SQL contains no name and no text from the query. The printer generates the names of tables,
columns, aliases and arguments, binds every value as a parameter, and returns the column names
separately.
"""

from dataclasses import dataclass

from hedgerow.hogql.ast import Select, SelectQuery, SelectSet
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.printer.context import PrintContext, PrinterState
from hedgerow.hogql.printer.from_clause import Columns
from hedgerow.hogql.printer.select import OutermostQuery, print_query, read_integer
from hedgerow.hogql.views import parse_view

DEFAULT_LIMIT = 100
MAX_LIMIT = 50_000


@dataclass(frozen=True, slots=True)
class PrintedQuery:
    """`limit` is the LIMIT of the query, None if it has none. `sent_tables` are the names of tables
    that must be sent with the query."""

    sql: str
    parameters: dict[str, object]
    columns: list[str]
    limit: int | None
    offset: int
    sent_tables: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RowLimits:
    """The LIMIT of a query without one, and the highest LIMIT; None means unlimited. `lookahead`
    rows are read in addition, to detect whether there are more."""

    default: int | None = DEFAULT_LIMIT
    maximum: int | None = MAX_LIMIT
    lookahead: int = 0


def print_select(
    query: Select, context: PrintContext, limits: RowLimits | None = None, text: str | None = None
) -> PrintedQuery:
    """Print a query as SQL. With its source `text`, errors contain the position."""
    state = PrinterState(context, _print_view)
    limits = limits or RowLimits()
    try:
        limit, offset = _resolve_limit(query, limits)
        page = None if limit is None else limit + limits.lookahead + offset
        sql, columns = print_query(state, query, {}, 0, OutermostQuery(page))
    except HogQLError as error:
        raise (error.with_position(text) if text is not None else error) from None
    except RecursionError:
        raise HogQLError("The query is nested too deeply") from None
    if isinstance(query, SelectSet):
        sql = f"SELECT * FROM ({sql})"  # noqa: S608 - see above: nothing of the caller's
    ties = " WITH TIES" if isinstance(query, SelectQuery) and query.limit_with_ties else ""
    if limit is not None:
        sql += f" LIMIT {state.parameters.add_integer(limit + limits.lookahead)}"
    if offset:
        sql += f" OFFSET {state.parameters.add_integer(offset)}"
    sql += ties
    return PrintedQuery(
        sql=sql,
        parameters=state.parameters.values,
        columns=[name for name, _ in columns],
        limit=limit,
        offset=offset,
        sent_tables=frozenset(state.sent_tables),
    )


def _print_view(state: PrinterState, name: str) -> tuple[str, Columns]:
    return print_query(state, parse_view(name), {}, 0)


def _resolve_limit(query: Select, limits: RowLimits) -> tuple[int | None, int]:
    explicit = None if query.limit is None else read_integer(query.limit, "LIMIT")
    limit = limits.default if explicit is None else explicit
    if limits.maximum is not None:
        limit = limits.maximum if limit is None else min(limit, limits.maximum)
    return limit, 0 if query.offset is None else read_integer(query.offset, "OFFSET")
