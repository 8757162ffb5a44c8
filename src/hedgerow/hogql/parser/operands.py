"""Operands: literals, names, calls, brackets and special forms."""

import math

from hedgerow.hogql.ast import (
    Array,
    Constant,
    Expr,
    Field,
    FunctionCall,
    Placeholder,
    Tuple,
    WindowFunction,
)
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parser.lexer import TokenKind
from hedgerow.hogql.parser.special_forms import TRIM_FUNCTIONS, SpecialFormParser
from hedgerow.hogql.parser.token_stream import NON_RESERVED_KEYWORDS, RESERVED

_WORD_CONSTANTS = {
    "null": None,
    "true": True,
    "false": False,
    "inf": math.inf,
    "infinity": math.inf,
    "nan": math.nan,
}
# Operators that can be called like functions.
_CALLABLE_OPERATORS = frozenset({"and", "or", "not", "like", "ilike", "in"})
# The widest integer of the event store.
_MAX_INTEGER = 2**255


class OperandParser(SpecialFormParser):
    """Parses one operand. `ExpressionParser` combines operands."""

    def parse_operand(self) -> Expr:
        token = self.token
        match token.kind:
            case TokenKind.NUMBER:
                value = self._parse_number(token.text)
                self.advance()
                return Constant(value=value, start=token.start, end=token.end)
            case TokenKind.STRING:
                self.advance()
                return Constant(value=token.text, start=token.start, end=token.end)
            case TokenKind.TEMPLATE_START:
                return self._parse_template(token.start)
            case TokenKind.WORD:
                return self._parse_word()
            case TokenKind.QUOTED:
                return self._parse_name_or_call()
            case _:
                return self._parse_symbol(token.word)

    def _parse_number(self, text: str) -> int | float:
        lower = text.lower()
        if lower.startswith("0x"):
            number = int(lower, 16)
        elif lower.startswith("0b"):
            number = int(lower, 2)
        elif lower.isdigit():
            # Python refuses to parse thousands of digits.
            number = int(lower) if len(lower) < 100 else _MAX_INTEGER
        else:
            return float(lower)
        if number >= _MAX_INTEGER:
            raise HogQLError("This number is too large", start=self.token.start)
        return number

    def _parse_symbol(self, word: str) -> Expr:
        start = self.token.start
        if word == "(":
            return self._parse_brackets(start)
        if word == "[":
            self.advance()
            items = self.parse_expressions("]")
            self.expect("]")
            return Array(exprs=tuple(items), start=start, end=self.last_end)
        if word == "{":
            return self.parse_placeholder()
        if word == "*":
            self.advance()
            return Field(chain=("*",), start=start, end=self.last_end)
        raise self.syntax_error("Expected an expression")

    def _parse_brackets(self, start: int) -> Expr:
        if self.peek().word in ("select", "with") or self._is_bracketed_query():
            self.advance()
            query = self.parse_select_set()
            self.expect(")")
            return query
        arguments = self._accept_lambda_arguments()
        if arguments is not None:
            return self.parse_lambda_body(arguments, start)
        self.advance()
        items = self.parse_expressions(")")
        comma = self._tokens[self._at - 1].word == ","
        self.expect(")")
        if not items:
            raise HogQLError("Expected an expression between the brackets", start=start)
        if len(items) == 1 and not comma:
            return items[0]
        return Tuple(exprs=tuple(items), start=start, end=self.last_end)

    def _is_bracketed_query(self) -> bool:
        """Return whether a query follows several brackets: `((select 1) union all ...)`."""
        steps = 1
        while self.peek(steps).word == "(" and steps < 10:
            steps += 1
        if steps == 1 or self.peek(steps).word not in ("select", "with"):
            return False
        return self._has_set_operator_after(steps)

    def _has_set_operator_after(self, steps: int) -> bool:
        """Return whether a set operator follows the closing bracket of the inner query."""
        depth, at = 1, self._at + steps
        while at < len(self._tokens) and depth:
            word = self._tokens[at].word
            depth += (word in ("(", "[")) - (word in (")", "]"))
            at += 1
        return at < len(self._tokens) and self._tokens[at].word in (
            "union", "intersect", "except", "limit", "offset",
        )  # fmt: skip

    def _accept_lambda_arguments(self) -> list[str] | None:
        """Consume the names of `(a, b) ->` and return them. Returns None and consumes nothing
        otherwise."""
        steps, names = 1, []
        while self.peek(steps).kind in (TokenKind.WORD, TokenKind.QUOTED):
            names.append(self.peek(steps).text)
            steps += 1
            if self.peek(steps).word != ",":
                break
            steps += 1
        if self.peek(steps).word != ")" or self.peek(steps + 1).word != "->":
            return None
        for _ in range(steps + 1):
            self.advance()
        return names

    def parse_placeholder(self) -> Placeholder:
        start = self.token.start
        self.expect("{")
        chain = [self.expect_name("a placeholder's name")]
        while self.accept("."):
            chain.append(self.expect_name("a name after the dot"))
        if not self.is_at("}"):
            raise self.syntax_error("Expected } after the name of the placeholder")
        self.advance()
        return Placeholder(chain=tuple(chain), start=start, end=self.last_end)

    def _parse_template(self, start: int) -> Expr:
        self.advance()
        pieces: list[Expr] = []
        while self.token.kind is not TokenKind.TEMPLATE_END:
            token = self.token
            if token.kind is TokenKind.TEMPLATE_TEXT:
                self.advance()
                pieces.append(Constant(value=token.text, start=token.start, end=token.end))
                continue
            self.expect("{")
            pieces.append(self.parse_expression())
            self.expect("}")
        self.advance()
        if not pieces:
            return Constant(value="", start=start, end=self.last_end)
        if len(pieces) == 1:
            return pieces[0]
        return FunctionCall(name="concat", args=tuple(pieces), start=start, end=self.last_end)

    def _parse_word(self) -> Expr:
        token, after = self.token, self.peek()
        word = token.word
        if after.word == "->":
            self.advance()
            return self.parse_lambda_body([token.text], token.start)
        if word in _WORD_CONSTANTS and (word == "null" or after.word not in (".", "(")):
            self.advance()
            return Constant(value=_WORD_CONSTANTS[word], start=token.start, end=token.end)
        if word == "case" and after.word not in (".", ",", ")"):
            return self.parse_case(token.start)
        if word in ("cast", "try_cast") and after.word == "(":
            return self.parse_cast_call(token.start)
        if word == "interval" and self.is_interval():
            return self.parse_interval(token.start)
        if word == "trim" and after.word == "(" and self.peek(2).word in TRIM_FUNCTIONS:
            return self.parse_trim(token.start)
        if word in ("date", "timestamp") and after.kind is TokenKind.STRING:
            hint = f"Write {'toDate' if word == 'date' else 'toDateTime'}('...')."
            raise HogQLError(
                f"A {word.upper()} literal is not supported", start=token.start, hint=hint
            )
        if word in _CALLABLE_OPERATORS and after.word == "(":
            return self._parse_call(token.start)
        if word in RESERVED and word not in NON_RESERVED_KEYWORDS and after.word != ".":
            raise self.syntax_error("Expected an expression")
        return self._parse_name_or_call()

    def _parse_name_or_call(self) -> Expr:
        start = self.token.start
        if self.peek().word == "(":
            return self._parse_call(start)
        chain = [self.expect_name()]
        while self.token.word == ".":
            after = self.peek()
            if after.kind not in (TokenKind.WORD, TokenKind.QUOTED) and after.word != "*":
                break
            self.advance()
            chain.append(self.advance().text)
            if after.word == "*" and after.kind is TokenKind.OP:
                break
        if self.is_at("("):
            raise self.syntax_error("Only a name without dots can be called")
        return Field(chain=tuple(chain), start=start, end=self.last_end)

    def _parse_call(self, start: int) -> Expr:
        name = self.expect_name()
        distinct, args = self._parse_arguments()
        params: tuple[Expr, ...] | None = None
        if self.is_at("(") and not distinct:
            params = args
            distinct, args = self._parse_arguments()
        if self.is_at("("):
            raise self.syntax_error("A call takes at most two lists of arguments")
        if self.is_at("filter", "("):
            if distinct:
                raise self.syntax_error("FILTER cannot be used with DISTINCT here")
            name, args = self._parse_filter(name, args)
        if self.is_at("over") and self.peek().kind in (
            TokenKind.WORD,
            TokenKind.QUOTED,
            TokenKind.OP,
        ):
            self.advance()
            over = (
                self.parse_window() if self.is_at("(") else self.expect_name("the name of a window")
            )
            if distinct:
                raise self.syntax_error("DISTINCT cannot be used in a window function")
            return WindowFunction(
                name=name, args=args, params=params, over=over, start=start, end=self.last_end
            )
        return FunctionCall(
            name=name, args=args, params=params, distinct=distinct, start=start, end=self.last_end
        )

    def _parse_arguments(self) -> tuple[bool, tuple[Expr, ...]]:
        self.expect("(")
        if self.token.word in ("select", "with") and self.peek().word not in (")", ",", "."):
            query = self.parse_select_set()
            self.expect(")")
            return False, (query,)
        distinct = self.accept("distinct")
        args = self.parse_expressions(")")
        if self.is_at("order", "by"):
            raise self.syntax_error("ORDER BY in arguments is not supported")
        self.expect(")")
        return distinct, tuple(args)

    def _parse_filter(self, name: str, args: tuple[Expr, ...]) -> tuple[str, tuple[Expr, ...]]:
        """`sum(x) filter (where c)` is `sumIf(x, c)`."""
        self.expect("filter", "(", "where")
        condition = self.parse_expression()
        self.expect(")")
        counted = args
        if len(args) == 1 and isinstance(args[0], Field) and tuple(args[0].chain) == ("*",):
            counted = ()
        return f"{name}If", (*counted, condition)
