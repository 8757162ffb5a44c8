"""Queries: SELECT with all its clauses, and UNION and the like between them."""

from dataclasses import replace

from hedgerow.hogql.ast import (
    Alias,
    Cte,
    Expr,
    LimitBy,
    Select,
    SelectQuery,
    SelectSet,
    Window,
)
from hedgerow.hogql.errors import HogQLError, shown
from hedgerow.hogql.froms import FromReader
from hedgerow.hogql.lexer import Kind

_REFUSED = {
    "settings": "SETTINGS cannot be chosen in a query",
    "format": "FORMAT cannot be chosen in a query",
    "into": "A query cannot write",
    "sample": "SAMPLE is not supported",
    "qualify": "QUALIFY is not supported",
}


class SelectReader(FromReader):
    """Reads queries, and with its parents everything else."""

    def select_set(self) -> Select:
        start = self.token.start
        self.enter()
        first, bracketed = self._one_select()
        rest: list[tuple[str, Select]] = []
        while (operator := self._set_operator()) is not None:
            rest.append((operator, self._one_select()[0]))
        query: Select = first
        if rest:
            query = SelectSet(first=first, rest=tuple(rest), start=start, end=self.last_end)
        if (rest or bracketed) and self.token.word in ("limit", "offset"):
            query = self._limited_set(query, start)
        self.leave()
        return query

    def _limited_set(self, query: Select, start: int) -> Select:
        limit, offset = None, None
        if self.take("limit"):
            limit = self.expression()
        if self.take("offset"):
            offset = self.expression()
        whole = query if isinstance(query, SelectSet) else SelectSet(first=query, rest=())
        return replace(whole, limit=limit, offset=offset, start=start, end=self.last_end)

    def _set_operator(self) -> str | None:
        word = self.token.word
        if word not in ("union", "intersect", "except"):
            return None
        self.advance()
        if self.take("all"):
            return f"{word.upper()} ALL"
        distinct = self.take("distinct")
        return f"{word.upper()} DISTINCT" if distinct or word == "union" else word.upper()

    def _one_select(self) -> tuple[Select, bool]:
        if self.take("("):
            query = self.select_set()
            self.need(")")
            return query, True
        return self._select(), False

    def _select(self) -> SelectQuery:
        start = self.token.start
        ctes = self._ctes() if self.take("with") else {}
        self.need("select")
        distinct = self.take("distinct")
        columns = self._columns()
        source = self.source() if self.take("from") else None
        array_kind, arrays = self.array_join(source)
        prewhere = self.expression() if self.take("prewhere") else None
        where = self.expression() if self.take("where") else None
        group_by = self._group_by() if self.take("group", "by") else []
        having = self.expression() if self.take("having") else None
        windows = self._windows() if self.take("window") else {}
        order_by = self.order_list() if self.take("order", "by") else []
        limit, offset, limit_by, ties = self._limits()
        if self.token.word in _REFUSED:
            raise HogQLError(_REFUSED[self.token.word], start=self.token.start)
        return SelectQuery(
            select=tuple(columns),
            distinct=distinct,
            ctes=ctes,
            source=source,
            array_join_kind=array_kind,
            array_join=tuple(arrays),
            prewhere=prewhere,
            where=where,
            group_by=tuple(group_by),
            having=having,
            windows=windows,
            order_by=tuple(order_by),
            limit=limit,
            offset=offset,
            limit_by=limit_by,
            limit_with_ties=ties,
            start=start,
            end=self.last_end,
        )

    def _ctes(self) -> dict[str, Cte]:
        found: dict[str, Cte] = {}
        if self.at("recursive") and self.ahead().kind in (Kind.WORD, Kind.QUOTED):
            raise self.unexpected("Recursive queries are not supported")
        while True:
            cte = self._cte()
            if cte.name in found:
                raise HogQLError(f"WITH names {shown(cte.name)} twice", start=cte.start)
            found[cte.name] = cte
            if not self.take(","):
                return found

    def _cte(self) -> Cte:
        start = self.token.start
        named = self.token.kind in (Kind.WORD, Kind.QUOTED)
        if named and self.ahead().word == "as" and self.ahead(2).word == "(":
            name = self.name()
            self.need("as", "(")
            query: Expr = self.select_set()
            self.need(")")
            return Cte(name=name, expr=query, start=start, end=self.last_end)
        whole = self.expression()
        if not isinstance(whole, Alias):
            raise self.unexpected("Expected AS and a name")
        return Cte(
            name=whole.alias, expr=whole.expr, is_column=True, start=start, end=self.last_end
        )

    def _columns(self) -> list[Expr]:
        found: list[Expr] = []
        while not (found and self._ends_columns()):
            start = self.token.start
            expr = self.expression()
            if self.is_implicit_alias():
                alias = self.name()
                expr = Alias(expr=expr, alias=alias, start=start, end=self.last_end)
            found.append(expr)
            if not self.take(","):
                break
        return found

    def _ends_columns(self) -> bool:
        """A comma may stand after the last column."""
        return self.token.kind is Kind.END or self.token.word in (
            "from", "where", "group", "order", "limit", ")",
        )  # fmt: skip

    def _group_by(self) -> list[Expr]:
        if (
            self.token.word in ("rollup", "cube", "all", "grouping")
            and not self.ahead().word == "."
        ):
            raise self.unexpected(f"GROUP BY {self.token.word.upper()} is not supported")
        found = [self.expression()]
        while self.take(","):
            found.append(self.expression())
        if self.at("with"):
            raise self.unexpected("GROUP BY ... WITH is not supported")
        return found

    def _windows(self) -> dict[str, Window]:
        found: dict[str, Window] = {}
        while True:
            name = self.name("the name of a window")
            self.need("as")
            found[name] = self.window()
            if not self.take(","):
                return found

    def _limits(self) -> tuple[Expr | None, Expr | None, LimitBy | None, bool]:
        limit, offset, ties = None, None, False
        limit_by: LimitBy | None = None
        while self.token.word in ("limit", "offset"):
            if self.take("offset"):
                if offset is not None:
                    raise self.unexpected("OFFSET stands here twice")
                offset = self.expression()
                continue
            if limit is not None:
                raise self.unexpected("LIMIT stands here twice")
            start = self.advance().start
            first = self.expression()
            second = None
            comma = self.take(",")
            if comma or self.take("offset"):
                second = self.expression()
            if self.take("by"):
                if limit_by is not None:
                    raise self.unexpected("LIMIT BY stands here twice")
                n, skipped = (second, first) if comma and second is not None else (first, second)
                exprs = [self.expression()]
                while self.take(","):
                    exprs.append(self.expression())
                limit_by = LimitBy(
                    n=n, exprs=tuple(exprs), offset=skipped, start=start, end=self.last_end
                )
                continue
            limit = first
            offset = second if second is not None else offset
            ties = self.take("with", "ties")
        return limit, offset, limit_by, ties
