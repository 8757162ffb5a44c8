"""A stream of tokens with lookahead, and a bound on nesting."""

from hedgerow.hogql.errors import HogQLError, did_you_mean, quote
from hedgerow.hogql.parser.lexer import Token, TokenKind

# Nested brackets. Each takes several calls on Python's stack.
MAX_NESTING = 100

# Keywords that can follow where a name could stand. A name that is one of them needs backticks,
# except after a dot.
_CLAUSES = (
    "select from prewhere where group having order limit offset union intersect except window "
    "settings format into qualify final sample with by distinct as on using array"
)
_JOINS = "join inner left right full cross asof semi anti global"
_OPERATORS = "and or not in is like ilike between when then else end case desc asc"
RESERVED = frozenset(f"{_CLAUSES} {_JOINS} {_OPERATORS}".split())
# Keywords that can nevertheless be a name in an expression.
_NAME_KEYWORDS = "left right array format window offset final sample settings full global anti semi"
NON_RESERVED_KEYWORDS = frozenset(f"{_NAME_KEYWORDS} asof desc asc inner cross end by".split())


class TokenStream:
    """The current token, and methods to look at and consume tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self.token = tokens[0]

    def advance(self) -> Token:
        """Consume the current token and return it."""
        token = self.token
        if token.kind is not TokenKind.END:
            self._at += 1
            self.token = self._tokens[self._at]
        return token

    def peek(self, steps: int = 1) -> Token:
        return self._tokens[min(self._at + steps, len(self._tokens) - 1)]

    @property
    def last_end(self) -> int:
        return self._tokens[self._at - 1].end if self._at else 0

    def is_at(self, *words: str) -> bool:
        """Return whether these words or operators come next, in this order."""
        if self.token.word != words[0]:
            return False
        return all(self.peek(n).word == words[n] for n in range(1, len(words)))

    def accept(self, *words: str) -> bool:
        """Consume these words if they come next."""
        if not self.is_at(*words):
            return False
        for _ in words:
            self.advance()
        return True

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.syntax_error(f"Expected {' '.join(words).upper()}")

    def expect_name(self, what: str = "a name") -> str:
        """Consume any word or quoted name."""
        if self.token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
            raise self.syntax_error(f"Expected {what}")
        return self.advance().text

    def syntax_error(self, what: str = "") -> HogQLError:
        token = self.token
        if token.kind is TokenKind.END:
            found = "the query ends"
        elif token.kind is TokenKind.STRING:
            found = f"found the string {quote(token.text)}"
        else:
            found = f"found {quote(token.text or 'an f-string')}"
        hint = did_you_mean(token.word, RESERVED) if token.word.isalpha() else ""
        if token.word in RESERVED:
            hint = "Put a name that is also a keyword in backticks."
        return HogQLError(
            f"{what or 'Unexpected input'}, but {found}", start=token.start, hint=hint
        )

    def enter_level(self) -> None:
        """Enter a nested level. An error ends parsing, so `leave_level` is not needed after one."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise HogQLError(
                f"The query nests deeper than {MAX_NESTING} levels", start=self.token.start
            )

    def leave_level(self) -> None:
        self._depth -= 1
