"""Queries as SQL for the engine, with every value as a parameter.

No name and no text of the query's own gets into the SQL: tables, columns, aliases and arguments
have names that we give, and the answer's column names are told beside it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hedgerow.hogql.ast import (
    Alias,
    Call,
    Constant,
    Expr,
    Field,
    Join,
    LimitBy,
    OrderExpr,
    Select,
    SelectQuery,
    SelectSet,
    Tuple,
    WindowFunction,
)
from hedgerow.hogql.calls import CallPrinter
from hedgerow.hogql.context import Context
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.kinds import Piece
from hedgerow.hogql.scope import Names, Scope, unknown_table, with_names
from hedgerow.hogql.sources import QueryTable, Source, StoredTable, WrappedTable
from hedgerow.hogql.tables import TABLES
from hedgerow.hogql.text import to_hogql
from hedgerow.hogql.walk import aggregates, nodes
from hedgerow.hogql.world import World

DEFAULT_LIMIT = 100
MAX_LIMIT = 50_000
_SELECT_DEPTH = 4

Columns = list[tuple[str, Piece]]


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


@dataclass(frozen=True, slots=True)
class Outer:
    """The outermost query: how many rows are wanted of it in all, from its first on."""

    page: int | None


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
        sql += f" LIMIT {context.parameters.integer(wanted + limits.ahead)}{ties}"
    if offset:
        sql += f" OFFSET {context.parameters.integer(offset)}"
    return Printed(
        sql=sql,
        parameters=context.parameters.values,
        columns=[name for name, _ in columns],
        limit=wanted,
        offset=offset,
    )


def _outer_limit(query: Select, limits: Limits) -> tuple[int | None, int]:
    asked = None if query.limit is None else _number(query.limit, "LIMIT")
    wanted = limits.default if asked is None else asked
    if limits.maximum is not None:
        wanted = limits.maximum if wanted is None else min(wanted, limits.maximum)
    return wanted, 0 if query.offset is None else _number(query.offset, "OFFSET")


def _number(node: Expr, what: str) -> int:
    value = node.value if isinstance(node, Constant) else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise HogQLError(f"{what} must be a whole number", start=node.start)
    return value


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
        whole = f"SELECT * FROM ({whole}){limited}"  # noqa: S608 - see above
    return context.bounded(whole), first


def _limited(context: Context, limit: Expr | None, offset: Expr | None) -> str:
    sql = ""
    if limit is not None:
        sql += f" LIMIT {context.parameters.integer(_number(limit, 'LIMIT'))}"
    if offset is not None:
        sql += f" OFFSET {context.parameters.integer(_number(offset, 'OFFSET'))}"
    return sql


class SelectPrinter(CallPrinter):
    """Prints one SELECT."""

    def __init__(self, context: Context, query: SelectQuery, ctes: Names, depth: int) -> None:
        super().__init__(
            context, Scope(context, with_names(ctes, query.ctes)), depth + _SELECT_DEPTH
        )
        self._query = query
        self._columns: Columns = []

    def printed(self, outer: Outer | None) -> tuple[str, Columns]:
        query = self._query
        self.scope.windows = {name: self.context.new_name("w") for name in query.windows}
        joins = self._sources()
        arrays = self._arrays()
        select = self._select()
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
        source = self._from(joins)
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

    def subquery(self, query: Select) -> str:
        return print_query(self.context, query, self.scope.ctes, self.depth)[0]

    # FROM

    def _sources(self) -> list[tuple[Join, Source]]:
        found: list[tuple[Join, Source]] = []
        join = self._query.source
        # A row that the other side alone brings would be lost to a filter in the WHERE.
        may_filter_late = not _has_outer_right(join)
        while join is not None:
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
        sql, columns = print_query(self.context, query, ctes, self.depth)
        return QueryTable(self.context, sql, columns)

    def _from(self, joins: Sequence[tuple[Join, Source]]) -> str:
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
        for each in constraint.exprs if isinstance(constraint, Tuple) else (constraint,):
            if not isinstance(each, Field) or len(each.chain) != 1:
                raise HogQLError("USING takes names of columns", start=each.start)
            right = sources[-1].field(each.chain)
            left = next((p for s in sources[:-1] if (p := s.field(each.chain)) is not None), None)
            if left is None or right is None:
                raise HogQLError(f"Not both sides have '{each.chain[0]}'", start=each.start)
            parts.append(f"{left.sql} = {right.sql}")
        return " AND ".join(parts)

    def _arrays(self) -> str:
        parts = []
        for each in self._query.array_join:
            assert isinstance(each, Alias)
            ours = self.context.new_name("a")
            parts.append(f"{self.expr(each.expr).sql} AS {ours}")
            self.scope.arrays[each.alias] = Piece(ours)
        kind = {"LEFT ARRAY JOIN": "LEFT ARRAY JOIN"}.get(self._query.array_join_kind, "ARRAY JOIN")
        return f"{kind} {', '.join(parts)}" if parts else ""

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

    # SELECT and after

    def _select(self) -> list[str]:
        self._unite()
        for each in self._query.select:
            if isinstance(each, Field) and each.chain[-1] == "*":
                self._star(each)
                continue
            piece = self.expr(each)
            ours = self._column(column_name(each), piece)
            if isinstance(each, Alias):
                self.scope.aliases[each.alias] = ours
        return self._selected

    def _unite(self) -> None:
        self._selected: list[str] = []
        join = self._query.source
        while join is not None:
            if join.uses and join.constraint is not None:
                listed = join.constraint.exprs if isinstance(join.constraint, Tuple) else (
                    join.constraint,)  # fmt: skip
                self.scope.united |= {str(e.chain[0]) for e in listed if isinstance(e, Field)}
            join = join.next_join

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
        return self.condition(node).sql

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
        count = self.context.parameters.integer(_number(limit.n, "LIMIT"))
        skipped = ""
        if limit.offset is not None:
            number = _number(limit.offset, "OFFSET")
            skipped = f" OFFSET {self.context.parameters.integer(number)}"
        return f"LIMIT {count}{skipped} BY {', '.join(self._positions(limit.exprs))}"


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


_NAME = re.compile(r"\b[a-z]\d+\b")


def _is_computed_over_rows(node: Expr) -> bool:
    return (
        aggregates(node)
        or any(isinstance(each, WindowFunction) for each in nodes(node))
        or any(isinstance(each, Call) and each.name.lower() == "arrayjoin" for each in nodes(node))
    )


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


def column_name(node: Expr) -> str:
    """What the answer calls a column."""
    if isinstance(node, Alias):
        return node.alias
    if isinstance(node, Field):
        return str(node.chain[-1])
    return to_hogql(node)
