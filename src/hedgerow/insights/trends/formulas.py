"""Formulas over series, such as `(A + B) / 2`: A is the first series."""

import math
import re
from collections.abc import Callable, Sequence
from operator import add, mul, sub

from hedgerow.errors import Invalid

MAX_CHARS = 1_000
MAX_DEPTH = 50

_TOKEN = re.compile(
    r"\s*(?:([A-Za-z])(?![A-Za-z0-9_])|(\d+\.?\d*|\.\d+)|(\*\*|[-+*/%()]))", re.ASCII
)

Values = Sequence[float]
# A formula for one interval: the values of all series give one number.
Formula = Callable[[Values], float]


def parse_formula(text: str, series_count: int, attr: str) -> Formula:
    """Parse numbers, letters of series, + - * / % ** and brackets. What has no
    finite number, such as a division by zero, is 0."""
    if len(text) > MAX_CHARS:
        raise Invalid(f"A formula has at most {MAX_CHARS} characters.", attr=attr)
    return _Parser(_tokenize(text, attr), series_count, attr).parse()


def _tokenize(text: str, attr: str) -> list[str]:
    text = text.rstrip()
    tokens, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            detail = (
                f"Unexpected {text[at:].strip()[:1]!r} in the formula. "
                "Expected letters of series, numbers, + - * / % ** and brackets."
            )
            raise Invalid(detail, attr=attr)
        tokens.append(found[0].strip())
        at = found.end()
    return tokens


class _Parser:
    def __init__(self, tokens: Sequence[str], series_count: int, attr: str) -> None:
        self._tokens = tokens
        self._series_count = series_count
        self._attr = attr
        self._at = 0
        self._depth = 0

    def parse(self) -> Formula:
        found = self._parse_sum()
        if self._at < len(self._tokens):
            raise self._fail(f"Unexpected {self._tokens[self._at]!r} in the formula.")
        return found

    def _parse_sum(self) -> Formula:
        return self._parse_chain("+-", self._parse_product)

    def _parse_product(self) -> Formula:
        return self._parse_chain("*/%", self._parse_operand)

    def _parse_chain(self, operators: str, parse_part: Callable[[], Formula]) -> Formula:
        found = parse_part()
        while (word := self._peek()) and word in tuple(operators):
            self._at += 1
            found = _combine(word, found, parse_part())
        return found

    def _parse_operand(self) -> Formula:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._fail(f"A formula has at most {MAX_DEPTH} levels.")
        try:
            word = self._peek()
            self._at += 1
            if word == "-":
                inner = self._parse_operand()
                return lambda values: -inner(values)
            if word == "+":
                return self._parse_operand()
            return self._parse_power(word)
        finally:
            self._depth -= 1

    def _parse_power(self, word: str) -> Formula:
        """Parse an operand and its exponent, which binds stronger than a sign before it."""
        base = self._parse_base(word)
        if self._peek() != "**":
            return base
        self._at += 1
        exponent = self._parse_operand()
        return lambda values: _raise(base(values), exponent(values))

    def _parse_base(self, word: str) -> Formula:
        if word == "(":
            inner = self._parse_sum()
            if self._peek() != ")":
                raise self._fail("A bracket of the formula is not closed.")
            self._at += 1
            return inner
        return self._read_atom(word)

    def _read_atom(self, word: str) -> Formula:
        if word.isalpha():
            number = ord(word.upper()) - ord("A")
            if number >= self._series_count:
                raise self._fail(f"The formula names series {word.upper()}, which does not exist.")
            return lambda values: values[number]
        if word and word[0] in ".0123456789":
            constant = float(word)
            return lambda _: constant
        raise self._fail("The formula is not complete." if not word else f"Unexpected {word!r}.")

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _fail(self, detail: str) -> Invalid:
        return Invalid(detail, attr=self._attr)


def _combine(word: str, left: Formula, right: Formula) -> Formula:
    apply = {"+": add, "-": sub, "*": mul, "/": _divide, "%": _find_remainder}[word]
    return lambda values: apply(left(values), right(values))


def _divide(left: float, right: float) -> float:
    return left / right if right else 0.0


def _find_remainder(left: float, right: float) -> float:
    return left % right if right else 0.0


def _raise(base: float, exponent: float) -> float:
    try:
        found = math.pow(base, exponent)
    except (ValueError, OverflowError):
        return 0.0
    return found if math.isfinite(found) else 0.0
