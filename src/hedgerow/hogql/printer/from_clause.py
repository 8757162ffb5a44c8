"""The printer of FROM: resolves table names and prints joins."""

from abc import abstractmethod
from collections.abc import Sequence

from hedgerow.hogql.ast import Alias, Expr, Field, Join, Select, SelectQuery, SelectSet, Tuple
from hedgerow.hogql.errors import HogQLError, quote
from hedgerow.hogql.printer.calls import CallPrinter
from hedgerow.hogql.printer.context import PrinterState
from hedgerow.hogql.printer.scope import CteScope, SelectScope, unknown_table_error
from hedgerow.hogql.printer.sources import QueryTable, StoredTable, TableSource, WrappedTable
from hedgerow.hogql.tables import TABLES
from hedgerow.hogql.typed_sql import TypedSql
from hedgerow.hogql.views import VIEWS, parse_view

Columns = list[tuple[str, TypedSql]]


_NO_CTES: CteScope = {}


class FromPrinter(CallPrinter):
    def __init__(self, state: PrinterState, scope: SelectScope, depth: int) -> None:
        super().__init__(state, scope, depth)
        self._printed_queries: list[tuple[Select, CteScope, str]] = []

    @abstractmethod
    def print_inner_query(self, query: Select, ctes: CteScope) -> tuple[str, Columns]:
        """Print a subquery that can use these CTEs."""

    def print_subquery(self, query: Select) -> str:
        return self._print_once(query, self.scope.ctes)

    def print_cohort_query(self, query: Select) -> str:
        return self._print_once(query, _NO_CTES)

    def _print_once(self, query: Select, names: CteScope) -> str:
        """Print a query once. Printed again, it would get other generated names, and an expression
        in SELECT would differ from the same one in GROUP BY."""
        for known, visible, sql in self._printed_queries:
            if visible is names and known == query:
                return sql
        sql = self.print_inner_query(query, names)[0]
        self._printed_queries.append((query, names, sql))
        return sql

    def resolve_sources(self, first: Join | None) -> list[tuple[Join, TableSource]]:
        found: list[tuple[Join, TableSource]] = []
        join = first
        # A filter in WHERE would drop the rows that only the other side has.
        may_filter_late = not _has_outer_right(join)
        while join is not None:
            self._merge_using_columns(join)
            source = self._resolve_source(join, is_direct=not found and may_filter_late)
            self.scope.add(_table_name(join, len(found)), source, join.start)
            found.append((join, source))
            join = join.next_join
        return found

    def _resolve_source(self, join: Join, *, is_direct: bool) -> TableSource:
        table = join.table
        if isinstance(table, SelectQuery | SelectSet):
            return self._make_query_table(table, self.scope.ctes)
        if not isinstance(table, Field):
            raise HogQLError("Expected a table or a query", start=table.start)
        name = ".".join(str(link) for link in table.chain)
        named = self.scope.ctes.get(name) if len(table.chain) == 1 else None
        if named is not None and not named.cte.is_column:
            return self._make_query_table(named.cte.expr, named.visible)
        if len(table.chain) == 1 and name in VIEWS:
            return self._make_query_table(parse_view(name), _NO_CTES)
        if len(table.chain) != 1 or name not in TABLES:
            raise unknown_table_error(name, self.scope.ctes, table.start)
        kind = StoredTable if is_direct else WrappedTable
        return kind(self.state, TABLES[name])

    def _make_query_table(self, query: Expr, ctes: CteScope) -> QueryTable:
        if not isinstance(query, SelectQuery | SelectSet):
            raise HogQLError("Expected a query", start=query.start)
        self.state.count_table()
        return QueryTable(self.state, *self.print_inner_query(query, ctes))

    def print_from(self, joins: Sequence[tuple[Join, TableSource]]) -> str:
        # Conditions first: they add columns to the sources.
        conditions = [
            self._print_constraint(join, [source for _, source in joins[: number + 1]])
            for number, (join, _) in enumerate(joins)
        ]
        parts = []
        for (join, source), condition in zip(joins, conditions, strict=True):
            kind = f"{_JOIN_SQL[join.kind]} " if join.kind else ""
            parts.append(f"{kind}{source.print_sql()}{condition}")
        return " ".join(parts)

    def _print_constraint(self, join: Join, sources: Sequence[TableSource]) -> str:
        if join.constraint is None:
            return ""
        if join.uses:
            return f" ON {self._print_using(join.constraint, sources)}"
        self.is_join = True
        condition = self.print_expr(join.constraint).sql
        self.is_join = False
        return f" ON {condition}"

    def _print_using(self, constraint: Expr, sources: Sequence[TableSource]) -> str:
        parts = []
        for each in _list_fields(constraint):
            if not isinstance(each, Field) or len(each.chain) != 1:
                raise HogQLError("USING accepts column names only", start=each.start)
            right = sources[-1].resolve_field(each.chain)
            left = next(
                (p for s in sources[:-1] if (p := s.resolve_field(each.chain)) is not None), None
            )
            if left is None or right is None:
                raise HogQLError(
                    f"{quote(str(each.chain[0]))} is not a column of both tables", start=each.start
                )
            parts.append(f"{left.sql} = {right.sql}")
        return " AND ".join(parts)

    def print_array_join(self, arrays: Sequence[Expr], kind: str) -> str:
        """Print ARRAY JOIN and add its aliases to the scope."""
        parts = []
        for each in arrays:
            assert isinstance(each, Alias)
            ours = self.state.new_name("a")
            parts.append(f"{self.print_expr(each.expr).sql} AS {ours}")
            self.scope.arrays[each.alias] = TypedSql(ours)
        left = "LEFT " if kind == "LEFT ARRAY JOIN" else ""
        return f"{left}ARRAY JOIN {', '.join(parts)}" if parts else ""

    def _merge_using_columns(self, join: Join) -> None:
        """Note the columns of USING, which both sides share."""
        if join.uses and join.constraint is not None:
            named = [each for each in _list_fields(join.constraint) if isinstance(each, Field)]
            self.scope.using_columns |= {str(each.chain[0]) for each in named}


_JOIN_SQL = {
    "JOIN": "INNER JOIN",
    "INNER JOIN": "INNER JOIN",
    "LEFT JOIN": "LEFT JOIN",
    "LEFT OUTER JOIN": "LEFT JOIN",
    "RIGHT JOIN": "RIGHT JOIN",
    "RIGHT OUTER JOIN": "RIGHT JOIN",
    "FULL JOIN": "FULL JOIN",
    "FULL OUTER JOIN": "FULL JOIN",
    "CROSS JOIN": "CROSS JOIN",
    "LEFT ANY JOIN": "ANY LEFT JOIN",
    "LEFT OUTER ANY JOIN": "ANY LEFT JOIN",
    "RIGHT ANY JOIN": "ANY RIGHT JOIN",
    "RIGHT OUTER ANY JOIN": "ANY RIGHT JOIN",
    "ANY INNER JOIN": "ANY INNER JOIN",
    "LEFT ASOF JOIN": "ASOF LEFT JOIN",
    "LEFT OUTER ASOF JOIN": "ASOF LEFT JOIN",
    "ASOF INNER JOIN": "ASOF INNER JOIN",
    "LEFT SEMI JOIN": "SEMI LEFT JOIN",
    "RIGHT SEMI JOIN": "SEMI RIGHT JOIN",
    "SEMI JOIN": "SEMI LEFT JOIN",
    "LEFT ANTI JOIN": "ANTI LEFT JOIN",
    "RIGHT ANTI JOIN": "ANTI RIGHT JOIN",
    "ANTI JOIN": "ANTI LEFT JOIN",
}


def _has_outer_right(join: Join | None) -> bool:
    while join is not None:
        if join.kind and join.kind not in _JOIN_SQL:
            raise HogQLError(f"{join.kind} is not supported", start=join.start)
        if join.kind.startswith(("RIGHT", "FULL")):
            return True
        join = join.next_join
    return False


def _table_name(join: Join, number: int) -> str:
    if join.alias is not None:
        return join.alias
    if isinstance(join.table, Field):
        return str(join.table.chain[-1])
    # A subquery without an alias cannot be referenced.
    return f"\0{number}"


def _list_fields(constraint: Expr) -> Sequence[Expr]:
    return constraint.exprs if isinstance(constraint, Tuple) else (constraint,)
