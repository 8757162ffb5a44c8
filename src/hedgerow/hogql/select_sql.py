"""One SELECT as SQL, and several that UNION and the like put together."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hedgerow.hogql.ast import (
    Alias,
    Call,
    Constant,
    Expr,
    Field,
    LimitBy,
    OrderExpr,
    Select,
    SelectQuery,
    WindowFunction,
)
from hedgerow.hogql.context import Context
from hedgerow.hogql.errors import HogQLError, shown
from hedgerow.hogql.from_sql import Columns, FromPrinter
from hedgerow.hogql.kinds import Piece
from hedgerow.hogql.scope import Names, Scope, unknown_table, with_names
from hedgerow.hogql.sources import StoredTable
from hedgerow.hogql.text import to_hogql
from hedgerow.hogql.walk import aggregates, nodes, plain_fields

# What one SELECT inside another counts for in depth.
_SELECT_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Outer:
    """The outermost query: how many rows are wanted of it in all, from its first on."""

    page: int | None


def print_query(
    context: Context, query: Select, ctes: Names, depth: int, outer: Outer | None = None
) -> tuple[str, Columns]:
    """A query and its columns. The outermost one's LIMIT is not printed: it is its caller's."""
    if isinstance(query, SelectQuery):
        return SelectPrinter(context, query, ctes, depth).printed(outer)
    parts = [("", query.first), *query.rest]
    # What the first part names, the others can read.
    others = with_names(ctes, query.first.ctes) if isinstance(query.first, SelectQuery) else ctes
    first: Columns | None = None
    sqls: list[str] = []
    for operator, each in parts:
        sql, columns = print_query(context, each, others if operator else ctes, depth + 1)
        first = columns if first is None else first
        if len(columns) != len(first):
            raise HogQLError("All parts of a UNION need the same number of columns",
                             start=each.start)  # fmt: skip
        sqls.append(f"{operator + ' ' if operator else ''}({sql})")
    assert first is not None
    whole = " ".join(sqls)
    if outer is None and (query.limit is not None or query.offset is not None):
        limited = _limited(context, query.limit, query.offset)
        whole = f"SELECT * FROM ({whole}){limited}"  # noqa: S608 - see printer.py
    return context.bounded(whole), first


def _limited(context: Context, limit: Expr | None, offset: Expr | None) -> str:
    sql = ""
    if limit is not None:
        sql += f" LIMIT {context.parameters.integer(whole_number(limit, 'LIMIT'))}"
    if offset is not None:
        sql += f" OFFSET {context.parameters.integer(whole_number(offset, 'OFFSET'))}"
    return sql


def whole_number(node: Expr, what: str) -> int:
    value = node.value if isinstance(node, Constant) else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise HogQLError(f"{what} must be a whole number", start=node.start)
    return value


class SelectPrinter(FromPrinter):
    """Prints one SELECT."""

    def __init__(self, context: Context, query: SelectQuery, ctes: Names, depth: int) -> None:
        super().__init__(
            context, Scope(context, with_names(ctes, query.ctes)), depth + _SELECT_DEPTH
        )
        self._query = query
        self._columns: Columns = []
        self._selected: list[str] = []

    def printed(self, outer: Outer | None) -> tuple[str, Columns]:
        query = self._query
        self.scope.windows = {name: self.context.new_name("w") for name in query.windows}
        joins = self.joined_sources(query.source)
        arrays = self.arrays_sql(query.array_join, query.array_join_kind)
        select = self._select()
        self._check_groups()
        filters = [self._filter(each, "WHERE") for each in (query.prewhere, query.where) if each]
        group_by = self._positions(query.group_by)
        having = self.condition(query.having).sql if query.having else ""
        windows = [
            f"{self.scope.windows[name]} AS ({self.window(window)})"
            for name, window in query.windows.items()
        ]
        order_by = [self._ordered(each) for each in query.order_by]
        limit_by = self._limit_by(query.limit_by) if query.limit_by else ""
        # The sources come last: only now is it known what they must give.
        source = self.from_sql(joins)
        filters = [
            *(part for each in self.scope.sources.values() if (part := each.filter())),
            *filters,
        ]
        if (page := self._page(outer, filters, order_by)) is not None:
            source, filters = page, []
        values = [f"{sql} AS {piece.sql}" for sql, piece in self.scope.values.values()]
        parts = [
            f"WITH {', '.join(values)}" if values else "",
            f"SELECT {'DISTINCT ' if query.distinct else ''}{', '.join(select)}",
            f"FROM {source}" if source else "",
            arrays,
            f"WHERE {' AND '.join(filters)}" if filters else "",
            f"GROUP BY {', '.join(group_by)}" if group_by else "",
            f"HAVING {having}" if having else "",
            f"WINDOW {', '.join(windows)}" if windows else "",
            f"ORDER BY {', '.join(order_by)}" if order_by else "",
            limit_by,
        ]
        sql = " ".join(part for part in parts if part)
        if outer is None:
            sql += _limited(self.context, query.limit, query.offset)
            sql += " WITH TIES" if query.limit_with_ties else ""
        return self.context.bounded(sql), self._columns

    def query(self, query: Select, ctes: Names) -> tuple[str, Columns]:
        return print_query(self.context, query, ctes, self.depth)

    def _page(
        self, outer: Outer | None, filters: Sequence[str], order_by: Sequence[str]
    ) -> str | None:
        """When what is joined is only shown: the rows of one page are found first, and joined
        then. Every row has one match at most, so they stay the same rows."""
        query, rows = self._query, outer.page if outer else None
        table = next(iter(self.scope.sources.values()), None)
        if rows is None or not isinstance(table, StoredTable) or len(self.scope.sources) > 1:
            return None
        is_plain = not (query.distinct or query.group_by or query.having or query.array_join)
        if not is_plain or query.limit_by or query.limit_with_ties or not table.joined_names:
            return None
        if any(_is_computed_over_rows(each) for each in query.select):
            return None
        said = " ".join((*filters, *order_by))
        ours = [piece.sql for _, piece in self._columns]
        named = [piece.sql for _, piece in self.scope.values.values()]
        if set(_NAME.findall(said)) & {*ours, *named, *table.joined_names}:
            return None
        rest = f" WHERE {' AND '.join(filters)}"
        rest += f" ORDER BY {', '.join(order_by)}" if order_by else ""
        return table.page_sql(f"{rest} LIMIT {self.context.parameters.integer(rows)}")

    def _select(self) -> list[str]:
        for each in self._query.select:
            if isinstance(each, Field) and each.chain[-1] == "*":
                self._star(each)
                continue
            piece = self.expr(each)
            ours = self._column(column_name(each), piece)
            if isinstance(each, Alias):
                self.scope.aliases[each.alias] = ours
        return self._selected

    def _check_groups(self) -> None:
        """A column beside an aggregation needs a GROUP BY. The engine says so too, in its own
        words and about names of ours."""
        query = self._query
        if query.group_by or not any(map(aggregates, query.select)):
            return
        given = {*self.scope.aliases, *self.scope.ctes}
        for each in query.select:
            for field in plain_fields(each):
                if str(field.chain[0]) not in given:
                    raise HogQLError(
                        f"{shown(to_hogql(field))} stands beside an aggregation",
                        start=field.start,
                        hint="Put it into a GROUP BY, or aggregate it: any(...).",
                    )

    def _column(self, name: str, piece: Piece) -> Piece:
        ours = piece.at(self.context.new_name("c"))
        self._selected.append(f"{piece.sql} AS {ours.sql}")
        self._columns.append((name, ours))
        return ours

    def _star(self, star: Field) -> None:
        sources = list(self.scope.sources.values())
        if len(star.chain) > 1:
            name = str(star.chain[0])
            if len(star.chain) > 2 or name not in self.scope.sources:
                raise unknown_table(name, self.scope.ctes, star.start)
            sources = [self.scope.sources[name]]
        if not sources:
            raise HogQLError("A star needs a FROM", start=star.start)
        for source in sources:
            for name, piece in source.star():
                self._column(name, piece)

    def _filter(self, node: Expr, clause: str) -> str:
        if aggregates(node):
            raise HogQLError(
                f"An aggregation cannot stand in {clause}", start=node.start, hint="Use HAVING."
            )
        self.is_filter = True
        sql = self.condition(node).sql
        self.is_filter = False
        return sql

    def _positions(self, nodes: Sequence[Expr]) -> list[str]:
        return [self._position(node) or self.expr(node).sql for node in nodes]

    def _position(self, node: Expr) -> str | None:
        """`GROUP BY 1` is the first column."""
        if not isinstance(node, Constant) or isinstance(node.value, bool):
            return None
        if not isinstance(node.value, int) or not 1 <= node.value <= len(self._columns):
            raise HogQLError("There is no column at this position", start=node.start)
        return self._columns[node.value - 1][1].sql

    def _ordered(self, order: OrderExpr) -> str:
        sql = self._position(order.expr) or self._sorted_by(order.expr)
        direction = " DESC" if order.descending else ""
        nulls = {"first": " NULLS FIRST", "last": " NULLS LAST"}.get(order.nulls or "", "")
        return f"{sql}{direction}{nulls}"

    def _sorted_by(self, node: Expr) -> str:
        """A moment is sorted by itself, unless the rows sorted are groups that show it."""
        piece = self.expr(node)
        query = self._query
        if query.group_by or query.distinct or query.limit_by or any(map(aggregates, query.select)):
            return piece.sql
        return piece.instant or piece.sql

    def _limit_by(self, limit: LimitBy) -> str:
        count = self.context.parameters.integer(whole_number(limit.n, "LIMIT"))
        skipped = ""
        if limit.offset is not None:
            number = whole_number(limit.offset, "OFFSET")
            skipped = f" OFFSET {self.context.parameters.integer(number)}"
        return f"LIMIT {count}{skipped} BY {', '.join(self._positions(limit.exprs))}"


_NAME = re.compile(r"\b[a-z]\d+\b")


def _is_computed_over_rows(node: Expr) -> bool:
    return (
        aggregates(node)
        or any(isinstance(each, WindowFunction) for each in nodes(node))
        or any(isinstance(each, Call) and each.name.lower() == "arrayjoin" for each in nodes(node))
    )


def column_name(node: Expr) -> str:
    """What the answer calls a column."""
    if isinstance(node, Alias):
        return node.alias
    if isinstance(node, Field):
        return str(node.chain[-1])
    return to_hogql(node)
