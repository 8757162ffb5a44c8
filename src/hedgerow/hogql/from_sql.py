"""FROM as SQL: which source a name stands for, and how one is joined to the next."""

from abc import abstractmethod
from collections.abc import Sequence

from hedgerow.hogql.ast import Alias, Expr, Field, Join, Select, SelectQuery, SelectSet, Tuple
from hedgerow.hogql.calls import CallPrinter
from hedgerow.hogql.context import Context
from hedgerow.hogql.errors import HogQLError, shown
from hedgerow.hogql.kinds import Piece
from hedgerow.hogql.scope import Names, Scope, unknown_table
from hedgerow.hogql.sources import QueryTable, Source, StoredTable, WrappedTable
from hedgerow.hogql.tables import TABLES

Columns = list[tuple[str, Piece]]


_NO_NAMES: Names = {}


class FromPrinter(CallPrinter):
    """Prints what one SELECT reads from."""

    def __init__(self, context: Context, scope: Scope, depth: int) -> None:
        super().__init__(context, scope, depth)
        self._known_queries: list[tuple[Select, Names, str]] = []

    @abstractmethod
    def query(self, query: Select, ctes: Names) -> tuple[str, Columns]:
        """A query inside this one, which can read these names of WITH."""

    def subquery(self, query: Select) -> str:
        return self._printed_once(query, self.scope.ctes)

    def outside_query(self, query: Select) -> str:
        return self._printed_once(query, _NO_NAMES)

    def _printed_once(self, query: Select, names: Names) -> str:
        """What is written twice, in SELECT and in GROUP BY, must print alike: a second printing
        would give other names."""
        for known, visible, sql in self._known_queries:
            if visible is names and known == query:
                return sql
        sql = self.query(query, names)[0]
        self._known_queries.append((query, names, sql))
        return sql

    def joined_sources(self, first: Join | None) -> list[tuple[Join, Source]]:
        found: list[tuple[Join, Source]] = []
        join = first
        # A row that the other side alone brings would be lost to a filter in the WHERE.
        may_filter_late = not _has_outer_right(join)
        while join is not None:
            self._unite(join)
            source = self._source(join, is_direct=not found and may_filter_late)
            self.scope.add(_table_name(join, len(found)), source, join.start)
            found.append((join, source))
            join = join.next_join
        return found

    def _source(self, join: Join, *, is_direct: bool) -> Source:
        table = join.table
        if isinstance(table, SelectQuery | SelectSet):
            return self._query_table(table, self.scope.ctes)
        if not isinstance(table, Field):
            raise HogQLError("A table or a query must stand here", start=table.start)
        name = ".".join(str(link) for link in table.chain)
        named = self.scope.ctes.get(name) if len(table.chain) == 1 else None
        if named is not None and not named.cte.is_column:
            return self._query_table(named.cte.expr, named.visible)
        if len(table.chain) != 1 or name not in TABLES:
            raise unknown_table(name, self.scope.ctes, table.start)
        kind = StoredTable if is_direct else WrappedTable
        return kind(self.context, TABLES[name])

    def _query_table(self, query: Expr, ctes: Names) -> QueryTable:
        if not isinstance(query, SelectQuery | SelectSet):
            raise HogQLError("A query must stand here", start=query.start)
        self.context.count_table()
        return QueryTable(self.context, *self.query(query, ctes))

    def from_sql(self, joins: Sequence[tuple[Join, Source]]) -> str:
        # Conditions first: they too ask the sources for columns.
        conditions = [
            self._constraint(join, [source for _, source in joins[: number + 1]])
            for number, (join, _) in enumerate(joins)
        ]
        parts = []
        for (join, source), condition in zip(joins, conditions, strict=True):
            kind = f"{_KINDS[join.kind]} " if join.kind else ""
            parts.append(f"{kind}{source.sql()}{condition}")
        return " ".join(parts)

    def _constraint(self, join: Join, sources: Sequence[Source]) -> str:
        if join.constraint is None:
            return ""
        if join.uses:
            return f" ON {self._using(join.constraint, sources)}"
        self.is_join = True
        condition = self.expr(join.constraint).sql
        self.is_join = False
        return f" ON {condition}"

    def _using(self, constraint: Expr, sources: Sequence[Source]) -> str:
        parts = []
        for each in _listed(constraint):
            if not isinstance(each, Field) or len(each.chain) != 1:
                raise HogQLError("USING takes names of columns", start=each.start)
            right = sources[-1].field(each.chain)
            left = next((p for s in sources[:-1] if (p := s.field(each.chain)) is not None), None)
            if left is None or right is None:
                raise HogQLError(
                    f"Not both sides have {shown(str(each.chain[0]))}", start=each.start
                )
            parts.append(f"{left.sql} = {right.sql}")
        return " AND ".join(parts)

    def arrays_sql(self, arrays: Sequence[Expr], kind: str) -> str:
        """ARRAY JOIN, whose aliases are names from here on."""
        parts = []
        for each in arrays:
            assert isinstance(each, Alias)
            ours = self.context.new_name("a")
            parts.append(f"{self.expr(each.expr).sql} AS {ours}")
            self.scope.arrays[each.alias] = Piece(ours)
        left = "LEFT " if kind == "LEFT ARRAY JOIN" else ""
        return f"{left}ARRAY JOIN {', '.join(parts)}" if parts else ""

    def _unite(self, join: Join) -> None:
        """A column of USING is one of both sides."""
        if join.uses and join.constraint is not None:
            named = [each for each in _listed(join.constraint) if isinstance(each, Field)]
            self.scope.united |= {str(each.chain[0]) for each in named}


_KINDS = {
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
        if join.kind and join.kind not in _KINDS:
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
    # A query without an alias cannot be named.
    return f"\0{number}"


def _listed(constraint: Expr) -> Sequence[Expr]:
    return constraint.exprs if isinstance(constraint, Tuple) else (constraint,)
