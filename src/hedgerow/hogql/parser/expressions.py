"""Expressions, parsed by operator precedence (Pratt parsing). The precedence is that of PostHog's
grammar.
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
    Compare,
    CompareOperation,
    Constant,
    Expr,
    Field,
    FunctionCall,
    Lambda,
    Not,
    Or,
    Select,
    TupleAccess,
    TypeCast,
)
from hedgerow.hogql.parser.lexer import TokenKind
from hedgerow.hogql.parser.token_stream import TokenStream

# Binding strengths, from the loosest.
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
_TYPE_SUFFIXES = (("with", "time", "zone"), ("without", "time", "zone"))


class ExpressionParser(TokenStream, ABC):
    """Parses expressions. Operands are parsed in `operands.py`, queries in `select.py`."""

    @abstractmethod
    def parse_operand(self) -> Expr:
        """Parse one operand, without the operators after it."""

    @abstractmethod
    def parse_select_set(self) -> Select:
        """Parse a query, including UNION and the other set operators."""

    def parse_expression(self, binding: int = ALIAS) -> Expr:
        """Parse the longest expression whose operators bind at least this strongly."""
        start = self.token.start
        self.enter_level()
        left = self._parse_prefix()
        while (parse := self._find_infix(binding)) is not None:
            left = parse(self, left, start)
            if isinstance(left, Alias):
                break
        self.leave_level()
        return left

    def parse_expressions(self, *closing: str) -> list[Expr]:
        """Parse expressions separated by commas, possibly none, with an optional trailing comma. In
        `a, b -> c` the names before the arrow are the arguments of one lambda."""
        found: list[Expr] = []
        names = 0
        while self.token.word not in closing and self.token.kind is not TokenKind.END:
            is_name = self.token.kind in (TokenKind.WORD, TokenKind.QUOTED)
            if is_name and self.peek().word == "->":
                start = found[-names].start if names else self.token.start
                arguments = [str(each.chain[0]) for each in found[len(found) - names :]
                             if isinstance(each, Field)]  # fmt: skip
                del found[len(found) - names :]
                arguments.append(self.expect_name())
                found.append(self.parse_lambda_body(arguments, start or 0))
                names = 0
            else:
                before = self._at
                found.append(self.parse_expression())
                alone = is_name and self._at == before + 1 and isinstance(found[-1], Field)
                names = names + 1 if alone else 0
            if not self.accept(","):
                break
        return found

    def parse_lambda_body(self, arguments: Sequence[str], start: int) -> Lambda:
        self.expect("->")
        body = self.parse_expression()
        return Lambda(args=tuple(arguments), expr=body, start=start, end=self.last_end)

    def _parse_prefix(self) -> Expr:
        start = self.token.start
        if self.token.word == "not" and self._is_prefix_operator():
            self.advance()
            inner = self.parse_expression(NOT)
            return Not(expr=inner, start=start, end=self.last_end)
        if self.token.word in ("-", "+"):
            return self._parse_signed(start)
        return self.parse_operand()

    def _is_prefix_operator(self) -> bool:
        """Return whether an operand follows this word. `not (a)` is a call."""
        after = self.peek()
        return after.kind is not TokenKind.END and after.word not in (
            ",",
            ")",
            ".",
            "]",
            "=",
            "==",
            "(",
        )

    def _parse_signed(self, start: int) -> Expr:
        sign = self.advance().word
        after = self.token
        if after.kind is TokenKind.NUMBER or after.word in ("inf", "infinity", "nan"):
            constant = self.parse_operand()
            if isinstance(constant, Constant) and isinstance(constant.value, int | float):
                value = -constant.value if sign == "-" else constant.value
                return Constant(value=value, start=start, end=self.last_end)
        if sign == "+":
            raise self.syntax_error("Expected a number after +")
        inner = self.parse_expression(NEGATE)
        zero = Constant(value=0, start=start, end=start)
        return ArithmeticOperation(
            op=Arithmetic.SUB, left=zero, right=inner, start=start, end=self.last_end
        )

    def _find_infix(self, binding: int) -> "_InfixParser | None":
        """Return the parser for the operator at the current token, if it binds strongly enough."""
        found = _INFIX_OPERATORS.get(self.token.word)
        if found is None:
            return None
        strength, parse = found
        if strength == NOT:
            # `x NOT IN y`: the next word decides.
            after = self.peek().word
            strength = {"in": COMPARE, "like": COMPARE, "ilike": COMPARE, "between": BETWEEN}.get(
                after, 0
            )
            parse = ExpressionParser._parse_between if after == "between" else parse
        return parse if strength >= binding else None

    def _parse_member(self, left: Expr, start: int) -> Expr:
        dot = self.advance()
        if self.token.kind is TokenKind.NUMBER:
            index = int(self.advance().text)
            return TupleAccess(tuple=left, index=index, start=start, end=self.last_end)
        key = Constant(
            value=self.expect_name("a name after the dot"), start=dot.end, end=self.last_end
        )
        return ArrayAccess(array=left, index=key, start=start, end=self.last_end)

    def _parse_index(self, left: Expr, start: int) -> Expr:
        self.advance()
        index = self.parse_expression()
        self.expect("]")
        return ArrayAccess(array=left, index=index, start=start, end=self.last_end)

    def _parse_nullish_access(self, left: Expr, start: int) -> Expr:
        self.advance()
        if self.token.kind is TokenKind.NUMBER:
            number = int(self.advance().text)
            return TupleAccess(
                tuple=left, index=number, nullish=True, start=start, end=self.last_end
            )
        if self.accept("["):
            index = self.parse_expression()
            self.expect("]")
        else:
            at = self.token.start
            index = Constant(value=self.expect_name("a name after ?."), start=at, end=self.last_end)
        return ArrayAccess(array=left, index=index, nullish=True, start=start, end=self.last_end)

    def _parse_cast(self, left: Expr, start: int) -> Expr:
        self.advance()
        return TypeCast(expr=left, type_name=self.parse_type_name(), start=start, end=self.last_end)

    def parse_type_name(self) -> str:
        if self.token.kind is not TokenKind.WORD:
            raise self.syntax_error("Expected a type")
        name = self.advance().word
        for ending in _TYPE_SUFFIXES:
            if self.accept(*ending):
                return f"{name} {' '.join(ending)}"
        if self.is_at("("):
            raise self.syntax_error("A type takes no arguments here")
        return name

    def _parse_arithmetic(self, left: Expr, start: int) -> Expr:
        binding, op = _ARITHMETIC[self.advance().word]
        right = self.parse_expression(binding + 1)
        return ArithmeticOperation(op=op, left=left, right=right, start=start, end=self.last_end)

    def _parse_concat(self, left: Expr, start: int) -> Expr:
        self.advance()
        right = self.parse_expression(ADD + 1)
        args = (*_concat_arguments(left), *_concat_arguments(right))
        return FunctionCall(name="concat", args=args, start=start, end=self.last_end)

    def _parse_comparison(self, left: Expr, start: int) -> Expr:
        negated = self.accept("not")
        op = _COMPARISONS[self.advance().word]
        if (
            op is Compare.IN
            and self.token.word == "cohort"
            and self.peek().kind is not TokenKind.END
        ):
            self.advance()
            op = Compare.NOT_IN_COHORT if negated else Compare.IN_COHORT
        elif negated:
            op = _NEGATED[op]
        right = self.parse_expression(COMPARE + 1)
        return CompareOperation(op=op, left=left, right=right, start=start, end=self.last_end)

    def _parse_is(self, left: Expr, start: int) -> Expr:
        self.advance()
        op = Compare.NOT_EQ if self.accept("not") else Compare.EQ
        right: Expr
        if self.accept("distinct", "from"):
            # Comparison is null-safe, so NOT DISTINCT FROM is equality.
            op = Compare.EQ if op is Compare.NOT_EQ else Compare.NOT_EQ
            right = self.parse_expression(COMPARE + 1)
        else:
            at = self.token.start
            self.expect("null")
            right = Constant(value=None, start=at, end=self.last_end)
        return CompareOperation(op=op, left=left, right=right, start=start, end=self.last_end)

    def _parse_nullish_default(self, left: Expr, start: int) -> Expr:
        self.advance()
        right = self.parse_expression(NULLISH + 1)
        return FunctionCall(name="ifNull", args=(left, right), start=start, end=self.last_end)

    def _parse_between(self, left: Expr, start: int) -> Expr:
        negated = self.accept("not")
        self.advance()
        low = self.parse_expression(AND + 1)
        self.expect("and")
        high = self.parse_expression(BETWEEN + 1)
        return BetweenExpr(
            expr=left, low=low, high=high, negated=negated, start=start, end=self.last_end
        )

    def _parse_and(self, left: Expr, start: int) -> Expr:
        exprs: list[Expr] = list(left.exprs) if isinstance(left, And) else [left]
        while self.accept("and"):
            right = self.parse_expression(AND + 1)
            exprs.extend(right.exprs if isinstance(right, And) else (right,))
        return And(exprs=tuple(exprs), start=start, end=self.last_end)

    def _parse_or(self, left: Expr, start: int) -> Expr:
        exprs: list[Expr] = list(left.exprs) if isinstance(left, Or) else [left]
        while self.accept("or"):
            right = self.parse_expression(OR + 1)
            exprs.extend(right.exprs if isinstance(right, Or) else (right,))
        return Or(exprs=tuple(exprs), start=start, end=self.last_end)

    def _parse_ternary(self, left: Expr, start: int) -> Expr:
        self.advance()
        then = self.parse_expression(TERNARY)
        self.expect(":")
        otherwise = self.parse_expression(TERNARY)
        return FunctionCall(name="if", args=(left, then, otherwise), start=start, end=self.last_end)

    def _parse_alias(self, left: Expr, start: int) -> Expr:
        self.advance()
        alias = (
            self.advance().text
            if self.token.kind is TokenKind.STRING
            else self.expect_name("an alias")
        )
        return Alias(expr=left, alias=alias, start=start, end=self.last_end)


def _concat_arguments(expr: Expr) -> Sequence[Expr]:
    return expr.args if isinstance(expr, FunctionCall) and expr.name == "concat" else (expr,)


# Takes the parser, the left operand and its start, and returns the whole expression.
_InfixParser: TypeAlias = Callable[[ExpressionParser, Expr, int], Expr]
# The binding strength and the parser of each infix operator.
_INFIX_OPERATORS: dict[str, tuple[int, _InfixParser]] = {
    ".": (PART, ExpressionParser._parse_member),
    "[": (PART, ExpressionParser._parse_index),
    "?.": (PART, ExpressionParser._parse_nullish_access),
    "::": (PART, ExpressionParser._parse_cast),
    **{
        word: (binding, ExpressionParser._parse_arithmetic)
        for word, (binding, _) in _ARITHMETIC.items()
    },
    "||": (ADD, ExpressionParser._parse_concat),
    **dict.fromkeys(_COMPARISONS, (COMPARE, ExpressionParser._parse_comparison)),
    "is": (COMPARE, ExpressionParser._parse_is),
    "not": (NOT, ExpressionParser._parse_comparison),
    "??": (NULLISH, ExpressionParser._parse_nullish_default),
    "between": (BETWEEN, ExpressionParser._parse_between),
    "and": (AND, ExpressionParser._parse_and),
    "or": (OR, ExpressionParser._parse_or),
    "?": (TERNARY, ExpressionParser._parse_ternary),
    "as": (ALIAS, ExpressionParser._parse_alias),
}
