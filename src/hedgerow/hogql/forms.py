"""Forms of several words: CASE, CAST, INTERVAL, TRIM, windows and orders."""

from hedgerow.hogql.ast import Call, Constant, Expr, FrameEdge, OrderExpr, TypeCast, Window
from hedgerow.hogql.cursor import RESERVED
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.expressions import ADD, ExpressionReader
from hedgerow.hogql.lexer import Kind

TRIMS = {"both": "trim", "leading": "trimLeft", "trailing": "trimRight"}
_INTERVALS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")


class FormReader(ExpressionReader):
    """Reads them; `OperandReader` tells when one begins."""

    def window(self) -> Window:
        start = self.token.start
        self.need("(")
        is_parted = self.take("partition", "by")
        partition = self.expressions("order", "rows", "range", ")") if is_parted else []
        order = self.order_list() if self.take("order", "by") else []
        method, first, last = None, None, None
        if self.token.word in ("rows", "range"):
            method = self.advance().word.upper()
            if self.take("between"):
                first = self._edge()
                self.need("and")
                last = self._edge()
            else:
                first = self._edge()
        self.need(")")
        return Window(
            partition_by=tuple(partition),
            order_by=tuple(order),
            frame_method=method,
            frame_start=first,
            frame_end=last,
            start=start,
            end=self.last_end,
        )

    def _edge(self) -> FrameEdge:
        if self.take("current", "row"):
            return FrameEdge(is_preceding=True, value=0)
        value = None
        if not self.take("unbounded"):
            digits = self.token.text
            if self.token.kind is not Kind.NUMBER or not digits.isdigit() or len(digits) > 18:
                raise self.unexpected("Expected a number of rows, UNBOUNDED or CURRENT ROW")
            value = int(self.advance().text)
        if self.take("preceding"):
            return FrameEdge(is_preceding=True, value=value)
        self.need("following")
        return FrameEdge(is_preceding=False, value=value)

    def order_list(self) -> list[OrderExpr]:
        found = [self.order()]
        while self.take(","):
            found.append(self.order())
        return found

    def order(self) -> OrderExpr:
        start = self.token.start
        expr = self.expression()
        descending = self.take("desc") or self.take("descending")
        if not descending and not self.take("asc"):
            self.take("ascending")
        nulls = None
        if self.take("nulls"):
            nulls = "first" if self.take("first") else "last"
            if nulls == "last":
                self.need("last")
        return OrderExpr(
            expr=expr, descending=descending, nulls=nulls, start=start, end=self.last_end
        )

    def case_(self, start: int) -> Expr:
        self.advance()
        subject = None if self.at("when") else self.expression()
        args: list[Expr] = [] if subject is None else [subject]
        while self.take("when"):
            args.append(self.expression())
            self.need("then")
            args.append(self.expression())
        if len(args) < 2:
            raise self.unexpected("Expected WHEN")
        has_else = self.take("else")
        args.append(self.expression() if has_else else Constant(value=None))
        self.need("end")
        name = (
            "_caseWithExpression" if subject is not None else "if" if len(args) == 3 else "multiIf"
        )
        return Call(name=name, args=tuple(args), start=start, end=self.last_end)

    def cast_call(self, start: int) -> Expr:
        name = self.advance().text
        self.need("(")
        inner = self.expression(ADD - 1)
        if self.take(","):
            kind = self.expression()
            self.need(")")
            return Call(name=name, args=(inner, kind), start=start, end=self.last_end)
        self.need("as")
        type_name = self.type_name()
        self.need(")")
        return TypeCast(expr=inner, type_name=type_name, start=start, end=self.last_end)

    def begins_interval(self) -> bool:
        after = self.ahead()
        if after.kind in (Kind.NUMBER, Kind.STRING, Kind.QUOTED) or after.word in ("(", "{"):
            return True
        return after.kind is Kind.WORD and after.word not in RESERVED

    def interval(self, start: int) -> Expr:
        self.advance()
        token = self.token
        if token.kind is Kind.STRING:
            self.advance()
            number, _, unit = token.text.strip().partition(" ")
            if not (number.isascii() and number.isdigit() and len(number) < 19):
                raise HogQLError("An interval begins with a number", start=token.start)
            amount: Expr = Constant(value=int(number), start=token.start, end=token.end)
            unit = unit.strip().lower().removesuffix("s")
        else:
            amount = self.expression(ADD)
            unit = self.token.word
            self.advance()
        if unit not in _INTERVALS:
            raise HogQLError(
                "An interval needs a unit",
                start=token.start,
                hint=f"One of {', '.join(_INTERVALS)}.",
            )
        name = f"toInterval{unit.capitalize()}"
        return Call(name=name, args=(amount,), start=start, end=self.last_end)

    def trim(self, start: int) -> Expr:
        self.advance()
        self.advance()
        name = TRIMS[self.advance().word]
        characters = self.expression(ADD)
        self.need("from")
        subject = self.expression()
        self.need(")")
        return Call(name=name, args=(subject, characters), start=start, end=self.last_end)
