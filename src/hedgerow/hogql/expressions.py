"""Expressions, read by operator precedence: each operator knows how strongly it binds, one loop
does the rest. The order is that of PostHog's grammar.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

from hedgerow.hogql.ast import (
    Alias,
    And,
    Arithmetic,
    ArithmeticOperation,
    ArrayAccess,
    BetweenExpr,
    Call,
    Compare,
    CompareOperation,
    Constant,
    Expr,
    Field,
    Lambda,
    Not,
    Or,
    Select,
    TupleAccess,
    TypeCast,
)
from hedgerow.hogql.cursor import Cursor
from hedgerow.hogql.lexer import Kind

# How strongly each binds, from the loosest.
ALIAS, TERNARY, OR, AND, NOT, BETWEEN, NULLISH, COMPARE, ADD, MULTIPLY, NEGATE, PART = range(1, 13)

_COMPARISONS = {
    "=": Compare.EQ,
    "==": Compare.EQ,
    "<=>": Compare.EQ,
    "!=": Compare.NOT_EQ,
    "<>": Compare.NOT_EQ,
    "<": Compare.LT,
    "<=": Compare.LT_EQ,
    ">": Compare.GT,
    ">=": Compare.GT_EQ,
    "=~": Compare.REGEX,
    "~": Compare.REGEX,
    "!~": Compare.NOT_REGEX,
    "=~*": Compare.IREGEX,
    "~*": Compare.IREGEX,
    "!~*": Compare.NOT_IREGEX,
    "like": Compare.LIKE,
    "ilike": Compare.ILIKE,
    "in": Compare.IN,
}
_NEGATED = {
    Compare.LIKE: Compare.NOT_LIKE,
    Compare.ILIKE: Compare.NOT_ILIKE,
    Compare.IN: Compare.NOT_IN,
}
_ARITHMETIC = {
    "+": (ADD, Arithmetic.ADD),
    "-": (ADD, Arithmetic.SUB),
    "*": (MULTIPLY, Arithmetic.MULT),
    "/": (MULTIPLY, Arithmetic.DIV),
    "%": (MULTIPLY, Arithmetic.MOD),
}
_TYPE_ENDINGS = (("with", "time", "zone"), ("without", "time", "zone"))


class ExpressionReader(Cursor, ABC):
    """Reads expressions; what an operand can be is in `operands`, queries are in `selects`."""

    @abstractmethod
    def operand(self) -> Expr:
        """One operand, without what follows it."""

    @abstractmethod
    def select_set(self) -> Select:
        """A query, with those joined to it by UNION and the like."""

    def expression(self, binding: int = ALIAS) -> Expr:
        """Everything from here that binds at least this strongly."""
        start = self.token.start
        self.enter()
        left = self._negated_operand()
        while (led := self._follower(binding)) is not None:
            left = led(self, left, start)
            if isinstance(left, Alias):
                break
        self.leave()
        return left

    def expressions(self, *closing: str) -> list[Expr]:
        """Some, separated by commas, perhaps none, with an optional comma after the last. In
        `a, b -> c` the names before the arrow are all arguments of one lambda."""
        found: list[Expr] = []
        names = 0
        while self.token.word not in closing and self.token.kind is not Kind.END:
            is_name = self.token.kind in (Kind.WORD, Kind.QUOTED)
            if is_name and self.ahead().word == "->":
                start = found[-names].start if names else self.token.start
                arguments = [str(each.chain[0]) for each in found[len(found) - names :]
                             if isinstance(each, Field)]  # fmt: skip
                del found[len(found) - names :]
                arguments.append(self.name())
                found.append(self.lambda_body(arguments, start or 0))
                names = 0
            else:
                before = self._at
                found.append(self.expression())
                alone = is_name and self._at == before + 1 and isinstance(found[-1], Field)
                names = names + 1 if alone else 0
            if not self.take(","):
                break
        return found

    def lambda_body(self, arguments: Sequence[str], start: int) -> Lambda:
        self.need("->")
        body = self.expression()
        return Lambda(args=tuple(arguments), expr=body, start=start, end=self.last_end)

    def _negated_operand(self) -> Expr:
        start = self.token.start
        if self.token.word == "not" and self._is_prefix():
            self.advance()
            inner = self.expression(NOT)
            return Not(expr=inner, start=start, end=self.last_end)
        if self.token.word in ("-", "+"):
            return self._signed(start)
        return self.operand()

    def _is_prefix(self) -> bool:
        """Whether an operand comes after this word. `not (a)` is a call."""
        after = self.ahead()
        return after.kind is not Kind.END and after.word not in (",", ")", ".", "]", "=", "==", "(")

    def _signed(self, start: int) -> Expr:
        sign = self.advance().word
        after = self.token
        if after.kind is Kind.NUMBER or after.word in ("inf", "infinity", "nan"):
            constant = self.operand()
            if isinstance(constant, Constant) and isinstance(constant.value, int | float):
                value = -constant.value if sign == "-" else constant.value
                return Constant(value=value, start=start, end=self.last_end)
        if sign == "+":
            raise self.unexpected("Expected a number after +")
        inner = self.expression(NEGATE)
        zero = Constant(value=0, start=start, end=start)
        return ArithmeticOperation(
            op=Arithmetic.SUB, left=zero, right=inner, start=start, end=self.last_end
        )

    def _follower(self, binding: int) -> "_Led | None":
        """What the token at hand makes of an operand before it, if it binds strongly enough."""
        found = _FOLLOWERS.get(self.token.word)
        if found is None:
            return None
        strength, led = found
        if strength == NOT:
            # `x NOT IN y`: what follows decides.
            after = self.ahead().word
            strength = {"in": COMPARE, "like": COMPARE, "ilike": COMPARE, "between": BETWEEN}.get(
                after, 0
            )
            led = ExpressionReader._between if after == "between" else led
        return led if strength >= binding else None

    def _part(self, left: Expr, start: int) -> Expr:
        dot = self.advance()
        if self.token.kind is Kind.NUMBER:
            index = int(self.advance().text)
            return TupleAccess(tuple=left, index=index, start=start, end=self.last_end)
        key = Constant(value=self.name("a name after the dot"), start=dot.end, end=self.last_end)
        return ArrayAccess(array=left, index=key, start=start, end=self.last_end)

    def _item(self, left: Expr, start: int) -> Expr:
        self.advance()
        index = self.expression()
        self.need("]")
        return ArrayAccess(array=left, index=index, start=start, end=self.last_end)

    def _nullish(self, left: Expr, start: int) -> Expr:
        self.advance()
        if self.token.kind is Kind.NUMBER:
            number = int(self.advance().text)
            return TupleAccess(
                tuple=left, index=number, nullish=True, start=start, end=self.last_end
            )
        if self.take("["):
            index = self.expression()
            self.need("]")
        else:
            at = self.token.start
            index = Constant(value=self.name("a name after ?."), start=at, end=self.last_end)
        return ArrayAccess(array=left, index=index, nullish=True, start=start, end=self.last_end)

    def _cast(self, left: Expr, start: int) -> Expr:
        self.advance()
        return TypeCast(expr=left, type_name=self.type_name(), start=start, end=self.last_end)

    def type_name(self) -> str:
        if self.token.kind is not Kind.WORD:
            raise self.unexpected("Expected a type")
        name = self.advance().word
        for ending in _TYPE_ENDINGS:
            if self.take(*ending):
                return f"{name} {' '.join(ending)}"
        if self.at("("):
            raise self.unexpected("A type takes no arguments here")
        return name

    def _arithmetic(self, left: Expr, start: int) -> Expr:
        binding, op = _ARITHMETIC[self.advance().word]
        right = self.expression(binding + 1)
        return ArithmeticOperation(op=op, left=left, right=right, start=start, end=self.last_end)

    def _concat(self, left: Expr, start: int) -> Expr:
        self.advance()
        right = self.expression(ADD + 1)
        args = (*_concatenated(left), *_concatenated(right))
        return Call(name="concat", args=args, start=start, end=self.last_end)

    def _comparison(self, left: Expr, start: int) -> Expr:
        negated = self.take("not")
        op = _COMPARISONS[self.advance().word]
        if op is Compare.IN and self.token.word == "cohort" and self.ahead().kind is not Kind.END:
            self.advance()
            op = Compare.NOT_IN_COHORT if negated else Compare.IN_COHORT
        elif negated:
            op = _NEGATED[op]
        right = self.expression(COMPARE + 1)
        return CompareOperation(op=op, left=left, right=right, start=start, end=self.last_end)

    def _is(self, left: Expr, start: int) -> Expr:
        self.advance()
        op = Compare.NOT_EQ if self.take("not") else Compare.EQ
        right: Expr
        if self.take("distinct", "from"):
            # Comparison is null-safe anyhow: not distinct is equal.
            op = Compare.EQ if op is Compare.NOT_EQ else Compare.NOT_EQ
            right = self.expression(COMPARE + 1)
        else:
            at = self.token.start
            self.need("null")
            right = Constant(value=None, start=at, end=self.last_end)
        return CompareOperation(op=op, left=left, right=right, start=start, end=self.last_end)

    def _nullish_value(self, left: Expr, start: int) -> Expr:
        self.advance()
        right = self.expression(NULLISH + 1)
        return Call(name="ifNull", args=(left, right), start=start, end=self.last_end)

    def _between(self, left: Expr, start: int) -> Expr:
        negated = self.take("not")
        self.advance()
        low = self.expression(AND + 1)
        self.need("and")
        high = self.expression(BETWEEN + 1)
        return BetweenExpr(
            expr=left, low=low, high=high, negated=negated, start=start, end=self.last_end
        )

    def _and(self, left: Expr, start: int) -> Expr:
        exprs: list[Expr] = list(left.exprs) if isinstance(left, And) else [left]
        while self.take("and"):
            right = self.expression(AND + 1)
            exprs.extend(right.exprs if isinstance(right, And) else (right,))
        return And(exprs=tuple(exprs), start=start, end=self.last_end)

    def _or(self, left: Expr, start: int) -> Expr:
        exprs: list[Expr] = list(left.exprs) if isinstance(left, Or) else [left]
        while self.take("or"):
            right = self.expression(OR + 1)
            exprs.extend(right.exprs if isinstance(right, Or) else (right,))
        return Or(exprs=tuple(exprs), start=start, end=self.last_end)

    def _ternary(self, left: Expr, start: int) -> Expr:
        self.advance()
        then = self.expression(TERNARY)
        self.need(":")
        otherwise = self.expression(TERNARY)
        return Call(name="if", args=(left, then, otherwise), start=start, end=self.last_end)

    def _alias(self, left: Expr, start: int) -> Expr:
        self.advance()
        alias = self.advance().text if self.token.kind is Kind.STRING else self.name("an alias")
        return Alias(expr=left, alias=alias, start=start, end=self.last_end)


def _concatenated(expr: Expr) -> Sequence[Expr]:
    return expr.args if isinstance(expr, Call) and expr.name == "concat" else (expr,)


# Given the reader, the left side and where that begins, reads on to the whole.
_Led: TypeAlias = Callable[[ExpressionReader, Expr, int], Expr]
# How strongly each operator binds, and who reads on from it.
_FOLLOWERS: dict[str, tuple[int, _Led]] = {
    ".": (PART, ExpressionReader._part),
    "[": (PART, ExpressionReader._item),
    "?.": (PART, ExpressionReader._nullish),
    "::": (PART, ExpressionReader._cast),
    **{word: (binding, ExpressionReader._arithmetic) for word, (binding, _) in _ARITHMETIC.items()},
    "||": (ADD, ExpressionReader._concat),
    **dict.fromkeys(_COMPARISONS, (COMPARE, ExpressionReader._comparison)),
    "is": (COMPARE, ExpressionReader._is),
    "not": (NOT, ExpressionReader._comparison),
    "??": (NULLISH, ExpressionReader._nullish_value),
    "between": (BETWEEN, ExpressionReader._between),
    "and": (AND, ExpressionReader._and),
    "or": (OR, ExpressionReader._or),
    "?": (TERNARY, ExpressionReader._ternary),
    "as": (ALIAS, ExpressionReader._alias),
}
