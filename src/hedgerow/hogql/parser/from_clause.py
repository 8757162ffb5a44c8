"""The FROM clause: tables, subqueries, joins and ARRAY JOIN."""

from dataclasses import replace

from hedgerow.hogql.ast import Alias, Expr, Field, Join
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parser.lexer import TokenKind
from hedgerow.hogql.parser.operands import OperandParser
from hedgerow.hogql.parser.token_stream import RESERVED

_SIDES = ("left", "right", "full")
_STRICT = ("any", "asof", "semi", "anti")
_JOIN_WORDS = frozenset({*_SIDES, *_STRICT, "inner", "outer", "cross", "join"})


class FromParser(OperandParser):
    def is_implicit_alias(self) -> bool:
        token = self.token
        return token.kind is TokenKind.QUOTED or (
            token.kind is TokenKind.WORD and token.word not in RESERVED
        )

    def parse_source(self) -> Join:
        """Parse the tables, each linked to the next one joined to it."""
        tables = [self._parse_table("")]
        while (kind := self._parse_join_kind()) is not None:
            tables.append(self._parse_constraint(self._parse_table(kind)))
        joined = tables.pop()
        while tables:
            joined = replace(tables.pop(), next_join=joined)
        return joined

    def _parse_join_kind(self) -> str | None:
        if self.accept(","):
            return "CROSS JOIN"
        if self.token.word not in _JOIN_WORDS or self._is_array_join():
            return None
        words: list[str] = []
        while self.token.word != "join":
            if self.token.word not in _JOIN_WORDS or self.token.word in words:
                raise self.syntax_error("Expected JOIN")
            words.append(self.advance().word)
        if "outer" in words and not any(side in words for side in _SIDES):
            raise self.syntax_error("OUTER requires LEFT, RIGHT or FULL")
        self.advance()
        return _normalize_join_kind(words)

    def _is_array_join(self) -> bool:
        return self.is_at("left", "array") or self.is_at("inner", "array")

    def _parse_constraint(self, table: Join) -> Join:
        uses = False
        constraint: Expr | None = None
        if self.accept("on"):
            constraint = self.parse_expression()
        elif self.accept("using"):
            uses, constraint = True, self.parse_expression()
        elif table.kind != "CROSS JOIN":
            raise self.syntax_error("Expected ON or USING")
        return replace(table, constraint=constraint, uses=uses, end=self.last_end)

    def _parse_table(self, kind: str) -> Join:
        start = self.token.start
        table = self._parse_table_expression()
        alias = None
        if self.accept("as"):
            alias = self.expect_name("an alias")
        elif self.is_implicit_alias() and self.token.word not in _JOIN_WORDS:
            alias = self.expect_name()
        final = self.accept("final")
        return Join(
            table=table, alias=alias, kind=kind, is_final=final, start=start, end=self.last_end
        )

    def _parse_table_expression(self) -> Expr:
        if self.is_at("("):
            if self.peek().word not in ("select", "with", "("):
                raise self.syntax_error("Expected a query between the brackets")
            self.advance()
            query = self.parse_select_set()
            self.expect(")")
            return query
        if self.is_at("{"):
            return self.parse_placeholder()
        start = self.token.start
        chain = [self.expect_name("a table")]
        while self.accept("."):
            chain.append(self.expect_name("a name after the dot"))
        if self.is_at("("):
            raise HogQLError("Table functions are not supported", start=start)
        return Field(chain=tuple(chain), start=start, end=self.last_end)

    def parse_array_join(self, source: Join | None) -> tuple[str, list[Expr]]:
        side = self.token.word if self._is_array_join() else ""
        if not side and not self.is_at("array", "join"):
            return "", []
        if source is None:
            raise self.syntax_error("ARRAY JOIN requires a FROM clause")
        if side:
            self.advance()
        self.expect("array", "join")
        arrays = [self.parse_expression()]
        while self.accept(","):
            arrays.append(self.parse_expression())
        for array in arrays:
            if not isinstance(array, Alias):
                raise HogQLError("Each array of ARRAY JOIN requires an alias", start=array.start)
        return f"{side.upper()} ARRAY JOIN".strip(), arrays


def _normalize_join_kind(words: list[str]) -> str:
    """Return the join kind in one spelling: side, OUTER, strictness."""
    side = next((word for word in words if word in _SIDES), "")
    strict = next((word for word in words if word in _STRICT), "")
    if "cross" in words:
        return "CROSS JOIN"
    if side:
        outer = "outer" if "outer" in words else ""
        return " ".join(word.upper() for word in (side, outer, strict, "join") if word)
    if strict in ("any", "asof"):
        return f"{strict.upper()} INNER JOIN"
    if strict:
        return f"{strict.upper()} JOIN"
    return "INNER JOIN" if "inner" in words else "JOIN"
