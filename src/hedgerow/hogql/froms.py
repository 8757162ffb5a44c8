"""FROM: tables, queries, joins and arrays."""

from dataclasses import replace

from hedgerow.hogql.ast import Alias, Expr, Field, Join
from hedgerow.hogql.cursor import RESERVED
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.lexer import Kind
from hedgerow.hogql.operands import OperandReader

_SIDES = ("left", "right", "full")
_STRICT = ("any", "asof", "semi", "anti")
_JOIN_WORDS = frozenset({*_SIDES, *_STRICT, "inner", "outer", "cross", "join"})


class FromReader(OperandReader):
    """Reads what a query reads from."""

    def is_implicit_alias(self) -> bool:
        token = self.token
        return token.kind is Kind.QUOTED or (token.kind is Kind.WORD and token.word not in RESERVED)

    def source(self) -> Join:
        """The tables, each with the next one joined to it."""
        tables = [self._table("")]
        while (kind := self._join_kind()) is not None:
            tables.append(self._constrained(self._table(kind)))
        joined = tables.pop()
        while tables:
            joined = replace(tables.pop(), next_join=joined)
        return joined

    def _join_kind(self) -> str | None:
        if self.take(","):
            return "CROSS JOIN"
        if self.token.word not in _JOIN_WORDS or self._is_array_join():
            return None
        words: list[str] = []
        while self.token.word != "join":
            if self.token.word not in _JOIN_WORDS or self.token.word in words:
                raise self.unexpected("Expected JOIN")
            words.append(self.advance().word)
        if "outer" in words and not any(side in words for side in _SIDES):
            raise self.unexpected("OUTER needs LEFT, RIGHT or FULL")
        self.advance()
        return _join_name(words)

    def _is_array_join(self) -> bool:
        return self.at("left", "array") or self.at("inner", "array")

    def _constrained(self, table: Join) -> Join:
        uses = False
        constraint: Expr | None = None
        if self.take("on"):
            constraint = self.expression()
        elif self.take("using"):
            uses, constraint = True, self.expression()
        elif table.kind != "CROSS JOIN":
            raise self.unexpected("Expected ON or USING")
        return replace(table, constraint=constraint, uses=uses, end=self.last_end)

    def _table(self, kind: str) -> Join:
        start = self.token.start
        table = self._table_expression()
        alias = None
        if self.take("as"):
            alias = self.name("an alias")
        elif self.is_implicit_alias() and self.token.word not in _JOIN_WORDS:
            alias = self.name()
        final = self.take("final")
        return Join(
            table=table, alias=alias, kind=kind, is_final=final, start=start, end=self.last_end
        )

    def _table_expression(self) -> Expr:
        if self.at("("):
            if self.ahead().word not in ("select", "with", "("):
                raise self.unexpected("Expected a query between the brackets")
            self.advance()
            query = self.select_set()
            self.need(")")
            return query
        if self.at("{"):
            return self.placeholder()
        start = self.token.start
        chain = [self.name("a table")]
        while self.take("."):
            chain.append(self.name("a name after the dot"))
        if self.at("("):
            raise HogQLError("Table functions are not available", start=start)
        return Field(chain=tuple(chain), start=start, end=self.last_end)

    def array_join(self, source: Join | None) -> tuple[str, list[Expr]]:
        side = self.token.word if self._is_array_join() else ""
        if not side and not self.at("array", "join"):
            return "", []
        if source is None:
            raise self.unexpected("ARRAY JOIN needs a FROM")
        if side:
            self.advance()
        self.need("array", "join")
        arrays = [self.expression()]
        while self.take(","):
            arrays.append(self.expression())
        for array in arrays:
            if not isinstance(array, Alias):
                raise HogQLError("An array of ARRAY JOIN needs an alias", start=array.start)
        return f"{side.upper()} ARRAY JOIN".strip(), arrays


def _join_name(words: list[str]) -> str:
    """The kind in one spelling: side, then OUTER, then strictness."""
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
