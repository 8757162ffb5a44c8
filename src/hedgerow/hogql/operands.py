"""What stands between operators: literals, names, calls, brackets and the forms with words."""

import math

from hedgerow.hogql.ast import (
    Array,
    Call,
    Constant,
    Expr,
    Field,
    Placeholder,
    Tuple,
    WindowFunction,
)
from hedgerow.hogql.cursor import NAMES_TOO, RESERVED
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.forms import TRIMS, FormReader
from hedgerow.hogql.lexer import Kind

_WORD_CONSTANTS = {
    "null": None,
    "true": True,
    "false": False,
    "inf": math.inf,
    "infinity": math.inf,
    "nan": math.nan,
}
# Operators that can be called like functions.
_CALLED = frozenset({"and", "or", "not", "like", "ilike", "in"})
# The engine's widest integer.
_MAX_INTEGER = 2**255


class OperandReader(FormReader):
    """Reads one operand. `ExpressionReader` puts operands together."""

    def operand(self) -> Expr:
        token = self.token
        match token.kind:
            case Kind.NUMBER:
                value = self._number(token.text)
                self.advance()
                return Constant(value=value, start=token.start, end=token.end)
            case Kind.STRING:
                self.advance()
                return Constant(value=token.text, start=token.start, end=token.end)
            case Kind.TEMPLATE_START:
                return self._template(token.start)
            case Kind.WORD:
                return self._word()
            case Kind.QUOTED:
                return self._named()
            case _:
                return self._opened(token.word)

    def _number(self, text: str) -> int | float:
        lower = text.lower()
        if lower.startswith("0x"):
            number = int(lower, 16)
        elif lower.startswith("0b"):
            number = int(lower, 2)
        elif lower.isdigit():
            # Python refuses to read thousands of digits; the engine has no such number.
            number = int(lower) if len(lower) < 100 else _MAX_INTEGER
        else:
            return float(lower)
        if number >= _MAX_INTEGER:
            raise HogQLError("This number is too large", start=self.token.start)
        return number

    def _opened(self, word: str) -> Expr:
        start = self.token.start
        if word == "(":
            return self._brackets(start)
        if word == "[":
            self.advance()
            items = self.expressions("]")
            self.need("]")
            return Array(exprs=tuple(items), start=start, end=self.last_end)
        if word == "{":
            return self.placeholder()
        if word == "*":
            self.advance()
            return Field(chain=("*",), start=start, end=self.last_end)
        raise self.unexpected("Expected an expression")

    def _brackets(self, start: int) -> Expr:
        if self.ahead().word in ("select", "with") or self._opens_a_query():
            self.advance()
            query = self.select_set()
            self.need(")")
            return query
        arguments = self._lambda_arguments()
        if arguments is not None:
            return self.lambda_body(arguments, start)
        self.advance()
        items = self.expressions(")")
        comma = self._tokens[self._at - 1].word == ","
        self.need(")")
        if not items:
            raise HogQLError("Expected an expression between the brackets", start=start)
        if len(items) == 1 and not comma:
            return items[0]
        return Tuple(exprs=tuple(items), start=start, end=self.last_end)

    def _opens_a_query(self) -> bool:
        """`((select 1) union all ...)`: brackets, then a query."""
        steps = 1
        while self.ahead(steps).word == "(" and steps < 10:
            steps += 1
        if steps == 1 or self.ahead(steps).word not in ("select", "with"):
            return False
        return self._after_brackets_set(steps)

    def _after_brackets_set(self, steps: int) -> bool:
        """Whether a set operator follows the inner query, told from the matching bracket."""
        depth, at = 1, self._at + steps
        while at < len(self._tokens) and depth:
            word = self._tokens[at].word
            depth += (word in ("(", "[")) - (word in (")", "]"))
            at += 1
        return at < len(self._tokens) and self._tokens[at].word in (
            "union", "intersect", "except", "limit", "offset",
        )  # fmt: skip

    def _lambda_arguments(self) -> list[str] | None:
        """The names of `(a, b) ->`, stepped over; None, and nothing stepped over, otherwise."""
        steps, names = 1, []
        while self.ahead(steps).kind in (Kind.WORD, Kind.QUOTED):
            names.append(self.ahead(steps).text)
            steps += 1
            if self.ahead(steps).word != ",":
                break
            steps += 1
        if self.ahead(steps).word != ")" or self.ahead(steps + 1).word != "->":
            return None
        for _ in range(steps + 1):
            self.advance()
        return names

    def placeholder(self) -> Placeholder:
        start = self.token.start
        self.need("{")
        chain = [self.name("a placeholder's name")]
        while self.take("."):
            chain.append(self.name("a name after the dot"))
        if not self.at("}"):
            raise self.unexpected("A placeholder is one name")
        self.advance()
        return Placeholder(chain=tuple(chain), start=start, end=self.last_end)

    def _template(self, start: int) -> Expr:
        self.advance()
        pieces: list[Expr] = []
        while self.token.kind is not Kind.TEMPLATE_END:
            token = self.token
            if token.kind is Kind.TEMPLATE_TEXT:
                self.advance()
                pieces.append(Constant(value=token.text, start=token.start, end=token.end))
                continue
            self.need("{")
            pieces.append(self.expression())
            self.need("}")
        self.advance()
        if not pieces:
            return Constant(value="", start=start, end=self.last_end)
        if len(pieces) == 1:
            return pieces[0]
        return Call(name="concat", args=tuple(pieces), start=start, end=self.last_end)

    def _word(self) -> Expr:
        token, after = self.token, self.ahead()
        word = token.word
        if after.word == "->":
            self.advance()
            return self.lambda_body([token.text], token.start)
        if word in _WORD_CONSTANTS and (word == "null" or after.word not in (".", "(")):
            self.advance()
            return Constant(value=_WORD_CONSTANTS[word], start=token.start, end=token.end)
        if word == "case" and after.word not in (".", ",", ")"):
            return self.case_(token.start)
        if word in ("cast", "try_cast") and after.word == "(":
            return self.cast_call(token.start)
        if word == "interval" and self.begins_interval():
            return self.interval(token.start)
        if word == "trim" and after.word == "(" and self.ahead(2).word in TRIMS:
            return self.trim(token.start)
        if word in ("date", "timestamp") and after.kind is Kind.STRING:
            hint = f"Write {'toDate' if word == 'date' else 'toDateTime'}('...')."
            raise HogQLError(
                f"A {word.upper()} literal is not supported", start=token.start, hint=hint
            )
        if word in _CALLED and after.word == "(":
            return self._call(token.start)
        if word in RESERVED and word not in NAMES_TOO and after.word != ".":
            raise self.unexpected("Expected an expression")
        return self._named()

    def _named(self) -> Expr:
        start = self.token.start
        if self.ahead().word == "(":
            return self._call(start)
        chain = [self.name()]
        while self.token.word == ".":
            after = self.ahead()
            if after.kind not in (Kind.WORD, Kind.QUOTED) and after.word != "*":
                break
            self.advance()
            chain.append(self.advance().text)
            if after.word == "*" and after.kind is Kind.OP:
                break
        if self.at("("):
            raise self.unexpected("Only a plain name can be called")
        return Field(chain=tuple(chain), start=start, end=self.last_end)

    def _call(self, start: int) -> Expr:
        name = self.name()
        distinct, args = self._arguments()
        params: tuple[Expr, ...] | None = None
        if self.at("(") and not distinct:
            params = args
            distinct, args = self._arguments()
        if self.at("("):
            raise self.unexpected("A call takes at most two lists of arguments")
        if self.at("filter", "("):
            if distinct:
                raise self.unexpected("FILTER cannot be used with DISTINCT here")
            name, args = self._filtered(name, args)
        if self.at("over") and self.ahead().kind in (Kind.WORD, Kind.QUOTED, Kind.OP):
            self.advance()
            over = self.window() if self.at("(") else self.name("the name of a window")
            if distinct:
                raise self.unexpected("DISTINCT cannot be used in a window function")
            return WindowFunction(
                name=name, args=args, params=params, over=over, start=start, end=self.last_end
            )
        return Call(
            name=name, args=args, params=params, distinct=distinct, start=start, end=self.last_end
        )

    def _arguments(self) -> tuple[bool, tuple[Expr, ...]]:
        self.need("(")
        if self.token.word in ("select", "with") and self.ahead().word not in (")", ",", "."):
            query = self.select_set()
            self.need(")")
            return False, (query,)
        distinct = self.take("distinct")
        args = self.expressions(")")
        if self.at("order", "by"):
            raise self.unexpected("ORDER BY among arguments is not supported")
        self.need(")")
        return distinct, tuple(args)

    def _filtered(self, name: str, args: tuple[Expr, ...]) -> tuple[str, tuple[Expr, ...]]:
        """`sum(x) filter (where c)` is `sumIf(x, c)`."""
        self.need("filter", "(", "where")
        condition = self.expression()
        self.need(")")
        counted = args
        if len(args) == 1 and isinstance(args[0], Field) and tuple(args[0].chain) == ("*",):
            counted = ()
        return f"{name}If", (*counted, condition)
