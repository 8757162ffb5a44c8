"""Queries: SELECT with its clauses, and set operators between queries."""

from dataclasses import replace

from hedgerow.hogql.ast import (
    Alias,
    Cte,
    Expr,
    LimitBy,
    Select,
    SelectQuery,
    SelectSet,
    WindowSpec,
)
from hedgerow.hogql.errors import HogQLError, quote
from hedgerow.hogql.parser.from_clause import FromParser
from hedgerow.hogql.parser.lexer import TokenKind

_UNSUPPORTED_CLAUSES = {
    "settings": "SETTINGS is not supported in a query",
    "format": "FORMAT is not supported in a query",
    "into": "INTO is not supported: a query can only read",
    "sample": "SAMPLE is not supported",
    "qualify": "QUALIFY is not supported",
}


class SelectParser(FromParser):
    """Parses queries. The base classes parse everything inside them."""

    def parse_select_set(self) -> Select:
        start = self.token.start
        self.enter_level()
        first, bracketed = self._parse_set_member()
        rest: list[tuple[str, Select]] = []
        while (operator := self._parse_set_operator()) is not None:
            rest.append((operator, self._parse_set_member()[0]))
        query: Select = first
        if rest:
            query = SelectSet(first=first, rest=tuple(rest), start=start, end=self.last_end)
        if (rest or bracketed) and self.token.word in ("limit", "offset"):
            query = self._parse_set_limit(query, start)
        self.leave_level()
        return query

    def _parse_set_limit(self, query: Select, start: int) -> Select:
        limit, offset = None, None
        if self.accept("limit"):
            limit = self.parse_expression()
        if self.accept("offset"):
            offset = self.parse_expression()
        whole = query if isinstance(query, SelectSet) else SelectSet(first=query, rest=())
        return replace(whole, limit=limit, offset=offset, start=start, end=self.last_end)

    def _parse_set_operator(self) -> str | None:
        word = self.token.word
        if word not in ("union", "intersect", "except"):
            return None
        self.advance()
        if self.accept("all"):
            return f"{word.upper()} ALL"
        distinct = self.accept("distinct")
        return f"{word.upper()} DISTINCT" if distinct or word == "union" else word.upper()

    def _parse_set_member(self) -> tuple[Select, bool]:
        if self.accept("("):
            query = self.parse_select_set()
            self.expect(")")
            return query, True
        return self._parse_select(), False

    def _parse_select(self) -> SelectQuery:
        start = self.token.start
        ctes = self._parse_ctes() if self.accept("with") else {}
        self.expect("select")
        distinct = self.accept("distinct")
        columns = self._parse_columns()
        source = self.parse_source() if self.accept("from") else None
        array_kind, arrays = self.parse_array_join(source)
        prewhere = self.parse_expression() if self.accept("prewhere") else None
        where = self.parse_expression() if self.accept("where") else None
        group_by = self._parse_group_by() if self.accept("group", "by") else []
        having = self.parse_expression() if self.accept("having") else None
        windows = self._parse_windows() if self.accept("window") else {}
        order_by = self.parse_order_list() if self.accept("order", "by") else []
        limit, offset, limit_by, ties = self._parse_limits()
        if self.token.word in _UNSUPPORTED_CLAUSES:
            raise HogQLError(_UNSUPPORTED_CLAUSES[self.token.word], start=self.token.start)
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

    def _parse_ctes(self) -> dict[str, Cte]:
        found: dict[str, Cte] = {}
        if self.is_at("recursive") and self.peek().kind in (TokenKind.WORD, TokenKind.QUOTED):
            raise self.syntax_error("Recursive queries are not supported")
        while True:
            cte = self._parse_cte()
            if cte.name in found:
                raise HogQLError(f"Duplicate name {quote(cte.name)} in WITH", start=cte.start)
            found[cte.name] = cte
            if not self.accept(","):
                return found

    def _parse_cte(self) -> Cte:
        start = self.token.start
        named = self.token.kind in (TokenKind.WORD, TokenKind.QUOTED)
        if named and self.peek().word == "as" and self.peek(2).word == "(":
            name = self.expect_name()
            self.expect("as", "(")
            query: Expr = self.parse_select_set()
            self.expect(")")
            return Cte(name=name, expr=query, start=start, end=self.last_end)
        whole = self.parse_expression()
        if not isinstance(whole, Alias):
            raise self.syntax_error("Expected AS and a name")
        return Cte(
            name=whole.alias, expr=whole.expr, is_column=True, start=start, end=self.last_end
        )

    def _parse_columns(self) -> list[Expr]:
        found: list[Expr] = []
        while not (found and self._is_end_of_columns()):
            start = self.token.start
            expr = self.parse_expression()
            if self.is_implicit_alias():
                alias = self.expect_name()
                expr = Alias(expr=expr, alias=alias, start=start, end=self.last_end)
            found.append(expr)
            if not self.accept(","):
                break
        return found

    def _is_end_of_columns(self) -> bool:
        """Return whether the list of columns ends here. It may have a trailing comma."""
        return self.token.kind is TokenKind.END or self.token.word in (
            "from", "where", "group", "order", "limit", ")",
        )  # fmt: skip

    def _parse_group_by(self) -> list[Expr]:
        if self.token.word in ("rollup", "cube", "all", "grouping") and not self.peek().word == ".":
            raise self.syntax_error(f"GROUP BY {self.token.word.upper()} is not supported")
        found = [self.parse_expression()]
        while self.accept(","):
            found.append(self.parse_expression())
        if self.is_at("with"):
            raise self.syntax_error("GROUP BY ... WITH is not supported")
        return found

    def _parse_windows(self) -> dict[str, WindowSpec]:
        found: dict[str, WindowSpec] = {}
        while True:
            name = self.expect_name("the name of a window")
            self.expect("as")
            found[name] = self.parse_window()
            if not self.accept(","):
                return found

    def _parse_limits(self) -> tuple[Expr | None, Expr | None, LimitBy | None, bool]:
        limit, offset, ties = None, None, False
        limit_by: LimitBy | None = None
        while self.token.word in ("limit", "offset"):
            if self.accept("offset"):
                if offset is not None:
                    raise self.syntax_error("Only one OFFSET is allowed")
                offset = self.parse_expression()
                continue
            if limit is not None:
                raise self.syntax_error("Only one LIMIT is allowed")
            start = self.advance().start
            first = self.parse_expression()
            second = None
            comma = self.accept(",")
            if comma or self.accept("offset"):
                second = self.parse_expression()
            if self.accept("by"):
                if limit_by is not None:
                    raise self.syntax_error("Only one LIMIT BY is allowed")
                n, skipped = (second, first) if comma and second is not None else (first, second)
                exprs = [self.parse_expression()]
                while self.accept(","):
                    exprs.append(self.parse_expression())
                limit_by = LimitBy(
                    n=n, exprs=tuple(exprs), offset=skipped, start=start, end=self.last_end
                )
                continue
            limit = first
            offset = second if second is not None else offset
            ties = self.accept("with", "ties")
        return limit, offset, limit_by, ties
