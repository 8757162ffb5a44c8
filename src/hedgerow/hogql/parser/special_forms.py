"""Syntax of several keywords: CASE, CAST, INTERVAL, TRIM, windows and ORDER BY elements."""

from hedgerow.hogql.ast import (
    Constant,
    Expr,
    FrameEdge,
    FunctionCall,
    OrderExpr,
    TypeCast,
    WindowSpec,
)
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parser.expressions import ADD, ExpressionParser
from hedgerow.hogql.parser.lexer import TokenKind
from hedgerow.hogql.parser.token_stream import RESERVED

TRIM_FUNCTIONS = {"both": "trim", "leading": "trimLeft", "trailing": "trimRight"}
_INTERVALS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")


class SpecialFormParser(ExpressionParser):
    """Parses the special forms. `OperandParser` detects where one starts."""

    def parse_window(self) -> WindowSpec:
        start = self.token.start
        self.expect("(")
        is_parted = self.accept("partition", "by")
        partition = self.parse_expressions("order", "rows", "range", ")") if is_parted else []
        order = self.parse_order_list() if self.accept("order", "by") else []
        method, first, last = None, None, None
        if self.token.word in ("rows", "range"):
            method = self.advance().word.upper()
            if self.accept("between"):
                first = self._parse_frame_edge()
                self.expect("and")
                last = self._parse_frame_edge()
            else:
                first = self._parse_frame_edge()
        self.expect(")")
        return WindowSpec(
            partition_by=tuple(partition),
            order_by=tuple(order),
            frame_method=method,
            frame_start=first,
            frame_end=last,
            start=start,
            end=self.last_end,
        )

    def _parse_frame_edge(self) -> FrameEdge:
        if self.accept("current", "row"):
            return FrameEdge(is_preceding=True, value=0)
        value = None
        if not self.accept("unbounded"):
            digits = self.token.text
            if self.token.kind is not TokenKind.NUMBER or not digits.isdigit() or len(digits) > 18:
                raise self.syntax_error("Expected a number of rows, UNBOUNDED or CURRENT ROW")
            value = int(self.advance().text)
        if self.accept("preceding"):
            return FrameEdge(is_preceding=True, value=value)
        self.expect("following")
        return FrameEdge(is_preceding=False, value=value)

    def parse_order_list(self) -> list[OrderExpr]:
        found = [self.parse_order()]
        while self.accept(","):
            found.append(self.parse_order())
        return found

    def parse_order(self) -> OrderExpr:
        start = self.token.start
        expr = self.parse_expression()
        descending = self.accept("desc") or self.accept("descending")
        if not descending and not self.accept("asc"):
            self.accept("ascending")
        nulls = None
        if self.accept("nulls"):
            nulls = "first" if self.accept("first") else "last"
            if nulls == "last":
                self.expect("last")
        return OrderExpr(
            expr=expr, descending=descending, nulls=nulls, start=start, end=self.last_end
        )

    def parse_case(self, start: int) -> Expr:
        self.advance()
        subject = None if self.is_at("when") else self.parse_expression()
        args: list[Expr] = [] if subject is None else [subject]
        while self.accept("when"):
            args.append(self.parse_expression())
            self.expect("then")
            args.append(self.parse_expression())
        if len(args) < 2:
            raise self.syntax_error("Expected WHEN")
        has_else = self.accept("else")
        args.append(self.parse_expression() if has_else else Constant(value=None))
        self.expect("end")
        name = (
            "_caseWithExpression" if subject is not None else "if" if len(args) == 3 else "multiIf"
        )
        return FunctionCall(name=name, args=tuple(args), start=start, end=self.last_end)

    def parse_cast_call(self, start: int) -> Expr:
        name = self.advance().text
        self.expect("(")
        inner = self.parse_expression(ADD - 1)
        if self.accept(","):
            kind = self.parse_expression()
            self.expect(")")
            return FunctionCall(name=name, args=(inner, kind), start=start, end=self.last_end)
        self.expect("as")
        type_name = self.parse_type_name()
        self.expect(")")
        return TypeCast(expr=inner, type_name=type_name, start=start, end=self.last_end)

    def is_interval(self) -> bool:
        after = self.peek()
        if after.kind in (TokenKind.NUMBER, TokenKind.STRING, TokenKind.QUOTED) or after.word in (
            "(",
            "{",
        ):
            return True
        return after.kind is TokenKind.WORD and after.word not in RESERVED

    def parse_interval(self, start: int) -> Expr:
        self.advance()
        token = self.token
        if token.kind is TokenKind.STRING:
            self.advance()
            number, _, unit = token.text.strip().partition(" ")
            if not (number.isascii() and number.isdigit() and len(number) < 19):
                raise HogQLError(
                    "Expected a number at the start of the interval", start=token.start
                )
            amount: Expr = Constant(value=int(number), start=token.start, end=token.end)
            unit = unit.strip().lower().removesuffix("s")
        else:
            amount = self.parse_expression(ADD)
            unit = self.token.word
            self.advance()
        if unit not in _INTERVALS:
            raise HogQLError(
                "Expected a unit of time in the interval",
                start=token.start,
                hint=f"Use one of: {', '.join(_INTERVALS)}.",
            )
        name = f"toInterval{unit.capitalize()}"
        return FunctionCall(name=name, args=(amount,), start=start, end=self.last_end)

    def parse_trim(self, start: int) -> Expr:
        self.advance()
        self.advance()
        name = TRIM_FUNCTIONS[self.advance().word]
        characters = self.parse_expression(ADD)
        self.expect("from")
        subject = self.parse_expression()
        self.expect(")")
        return FunctionCall(name=name, args=(subject, characters), start=start, end=self.last_end)
