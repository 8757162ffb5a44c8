"""The printer of SELECT and of set operators."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hedgerow.hogql.ast import (
    Alias,
    Constant,
    Expr,
    Field,
    FunctionCall,
    LimitBy,
    OrderExpr,
    Select,
    SelectQuery,
    WindowFunction,
)
from hedgerow.hogql.errors import HogQLError, quote
from hedgerow.hogql.printer.context import PrinterState
from hedgerow.hogql.printer.from_clause import Columns, FromPrinter
from hedgerow.hogql.printer.scope import CteScope, SelectScope, extend_ctes, unknown_table_error
from hedgerow.hogql.printer.sources import StoredTable
from hedgerow.hogql.traversal import has_aggregate, iter_nodes, iter_unaggregated_fields
from hedgerow.hogql.typed_sql import TypedSql
from hedgerow.hogql.unparse import to_hogql

# The depth that a nested SELECT counts for.
_SELECT_DEPTH = 4


@dataclass(frozen=True, slots=True)
class OutermostQuery:
    """The outermost query. `page` is the number of rows to read, counted from its first row."""

    page: int | None


def print_query(
    state: PrinterState,
    query: Select,
    ctes: CteScope,
    depth: int,
    outer: OutermostQuery | None = None,
) -> tuple[str, Columns]:
    """Print a query and return its columns. The caller prints the LIMIT of the outermost query."""
    if isinstance(query, SelectQuery):
        return SelectPrinter(state, query, ctes, depth).print_select(outer)
    parts = [("", query.first), *query.rest]
    # The other parts can use the CTEs of the first.
    others = extend_ctes(ctes, query.first.ctes) if isinstance(query.first, SelectQuery) else ctes
    first: Columns | None = None
    sqls: list[str] = []
    for operator, each in parts:
        sql, columns = print_query(state, each, others if operator else ctes, depth + 1)
        first = columns if first is None else first
        if len(columns) != len(first):
            raise HogQLError("All parts of a UNION must have the same number of columns",
                             start=each.start)  # fmt: skip
        sqls.append(f"{operator + ' ' if operator else ''}({sql})")
    assert first is not None
    whole = " ".join(sqls)
    if outer is None and (query.limit is not None or query.offset is not None):
        limited = _print_limit(state, query.limit, query.offset)
        whole = f"SELECT * FROM ({whole}){limited}"  # noqa: S608 - see printer.py
    return state.check_size(whole), first


def _print_limit(state: PrinterState, limit: Expr | None, offset: Expr | None) -> str:
    sql = ""
    if limit is not None:
        sql += f" LIMIT {state.parameters.add_integer(read_integer(limit, 'LIMIT'))}"
    if offset is not None:
        sql += f" OFFSET {state.parameters.add_integer(read_integer(offset, 'OFFSET'))}"
    return sql


def read_integer(node: Expr, what: str) -> int:
    value = node.value if isinstance(node, Constant) else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise HogQLError(f"{what} must be a whole number", start=node.start)
    return value


class SelectPrinter(FromPrinter):
    def __init__(self, state: PrinterState, query: SelectQuery, ctes: CteScope, depth: int) -> None:
        super().__init__(
            state, SelectScope(state, extend_ctes(ctes, query.ctes)), depth + _SELECT_DEPTH
        )
        self._query = query
        self.is_grouped = bool(query.group_by or query.distinct or query.limit_by)
        self._columns: Columns = []
        self._selected: list[str] = []

    def print_select(self, outer: OutermostQuery | None) -> tuple[str, Columns]:
        query = self._query
        self.scope.windows = {name: self.state.new_name("w") for name in query.windows}
        joins = self.resolve_sources(query.source)
        arrays = self.print_array_join(query.array_join, query.array_join_kind)
        select = self._print_columns()
        self._check_group_by()
        filters = [
            self._print_filter(each, "WHERE") for each in (query.prewhere, query.where) if each
        ]
        group_by = [self.group_keys.get(sql, sql) for sql in self._print_positions(query.group_by)]
        having = self.print_condition(query.having).sql if query.having else ""
        windows = [
            f"{self.scope.windows[name]} AS ({self.print_window(window)})"
            for name, window in query.windows.items()
        ]
        order_by = [self._print_order(each) for each in query.order_by]
        limit_by = self._print_limit_by(query.limit_by) if query.limit_by else ""
        # The sources come last, because the clauses above add columns to them.
        source = self.print_from(joins)
        filters = [
            *(part for each in self.scope.sources.values() if (part := each.print_filter())),
            *filters,
        ]
        if (page := self._print_page(outer, filters, order_by)) is not None:
            source, filters = page, []
            (table,) = self.scope.sources.values()
            assert isinstance(table, StoredTable)
            select = [table.read_from_page(each) for each in select]
            order_by = [table.read_from_page(each) for each in order_by]
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
            sql += _print_limit(self.state, query.limit, query.offset)
            sql += " WITH TIES" if query.limit_with_ties else ""
        return self.state.check_size(sql), self._columns

    def print_inner_query(self, query: Select, ctes: CteScope) -> tuple[str, Columns]:
        return print_query(self.state, query, ctes, self.depth)

    def _print_page(
        self, outer: OutermostQuery | None, filters: Sequence[str], order_by: Sequence[str]
    ) -> str | None:
        """Print the rows of one page as a subquery and join the other tables to it. Applies if
        joined columns are only selected. Each row has at most one match, so the rows stay the same.
        """
        query, rows = self._query, outer.page if outer else None
        table = next(iter(self.scope.sources.values()), None)
        if rows is None or not isinstance(table, StoredTable) or len(self.scope.sources) > 1:
            return None
        is_plain = not (query.distinct or query.group_by or query.having or query.array_join)
        if not is_plain or query.limit_by or query.limit_with_ties or not table.join_aliases:
            return None
        if any(_depends_on_all_rows(each) for each in query.select):
            return None
        printed = " ".join((*filters, *order_by))
        ours = [piece.sql for _, piece in self._columns]
        named = [piece.sql for _, piece in self.scope.values.values()]
        if set(_NAME.findall(printed)) & {*ours, *named, *table.join_aliases}:
            return None
        rest = f" WHERE {' AND '.join(filters)}"
        rest += f" ORDER BY {', '.join(order_by)}" if order_by else ""
        return table.print_page(f"{rest} LIMIT {self.state.parameters.add_integer(rows)}")

    def _print_columns(self) -> list[str]:
        for each in self._query.select:
            if isinstance(each, Field) and each.chain[-1] == "*":
                self._add_star(each)
                continue
            piece = self.print_expr(each)
            ours = self._add_column(column_name(each), piece)
            if isinstance(each, Alias):
                self.scope.aliases[each.alias] = ours
        return self._selected

    def _check_group_by(self) -> None:
        """Raise HogQLError for a column next to an aggregate without GROUP BY. The event store's
        error would contain generated names."""
        query = self._query
        if query.group_by or not any(map(has_aggregate, query.select)):
            return
        given = {*self.scope.aliases, *self.scope.ctes}
        for each in query.select:
            for field in iter_unaggregated_fields(each):
                if str(field.chain[0]) not in given:
                    raise HogQLError(
                        f"{quote(to_hogql(field))} is neither aggregated nor in GROUP BY",
                        start=field.start,
                        hint="Add it to GROUP BY, or aggregate it, for example with any(...).",
                    )

    def _add_column(self, name: str, piece: TypedSql) -> TypedSql:
        ours = piece.with_sql(self.state.new_name("c"))
        self._selected.append(f"{piece.sql} AS {ours.sql}")
        if piece.sql in self.group_keys:
            self.group_keys[ours.sql] = self.group_keys[piece.sql]
        self._columns.append((name, ours))
        return ours

    def _add_star(self, star: Field) -> None:
        sources = list(self.scope.sources.values())
        if len(star.chain) > 1:
            name = str(star.chain[0])
            if len(star.chain) > 2 or name not in self.scope.sources:
                raise unknown_table_error(name, self.scope.ctes, star.start)
            sources = [self.scope.sources[name]]
        if not sources:
            raise HogQLError("* requires a FROM clause", start=star.start)
        for source in sources:
            for name, piece in source.expand_star():
                self._add_column(name, piece)

    def _print_filter(self, node: Expr, clause: str) -> str:
        if has_aggregate(node):
            raise HogQLError(
                f"Aggregate functions are not allowed in {clause}",
                start=node.start,
                hint="Use HAVING.",
            )
        is_grouped = self.is_grouped
        self.is_filter, self.is_grouped = True, False
        sql = self.print_condition(node).sql
        self.is_filter, self.is_grouped = False, is_grouped
        return sql

    def _print_positions(self, nodes: Sequence[Expr]) -> list[str]:
        return [self._resolve_position(node) or self.print_expr(node).sql for node in nodes]

    def _resolve_position(self, node: Expr) -> str | None:
        """Resolve `GROUP BY 1` to the first column."""
        if not isinstance(node, Constant) or isinstance(node.value, bool):
            return None
        if not isinstance(node.value, int) or not 1 <= node.value <= len(self._columns):
            raise HogQLError(
                "No column at this position",
                start=node.start,
                hint=f"The highest position is {len(self._columns)}.",
            )
        return self._columns[node.value - 1][1].sql

    def _print_order(self, order: OrderExpr) -> str:
        sql = self._resolve_position(order.expr) or self._print_sort_key(order.expr)
        direction = " DESC" if order.descending else ""
        nulls = {"first": " NULLS FIRST", "last": " NULLS LAST"}.get(order.nulls or "", "")
        return f"{sql}{direction}{nulls}"

    def _print_sort_key(self, node: Expr) -> str:
        """Sort by the instant of a time, unless the sorted rows are groups."""
        piece = self.print_expr(node)
        query = self._query
        if (
            query.group_by
            or query.distinct
            or query.limit_by
            or any(map(has_aggregate, query.select))
        ):
            return piece.sql
        return piece.instant or piece.sql

    def _print_limit_by(self, limit: LimitBy) -> str:
        count = self.state.parameters.add_integer(read_integer(limit.n, "LIMIT"))
        skipped = ""
        if limit.offset is not None:
            number = read_integer(limit.offset, "OFFSET")
            skipped = f" OFFSET {self.state.parameters.add_integer(number)}"
        return f"LIMIT {count}{skipped} BY {', '.join(self._print_positions(limit.exprs))}"


_NAME = re.compile(r"\b[a-z]\d+\b")


def _depends_on_all_rows(node: Expr) -> bool:
    return (
        has_aggregate(node)
        or any(isinstance(each, WindowFunction) for each in iter_nodes(node))
        or any(
            isinstance(each, FunctionCall) and each.name.lower() == "arrayjoin"
            for each in iter_nodes(node)
        )
    )


def column_name(node: Expr) -> str:
    """Return the name of a column in the result."""
    if isinstance(node, Alias):
        return node.alias
    if isinstance(node, Field):
        return str(node.chain[-1])
    return to_hogql(node)
