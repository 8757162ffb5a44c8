"""Walking over the tokens of a text, with a bound on how deep it nests."""

from hedgerow.hogql.errors import HogQLError, did_you_mean, shown
from hedgerow.hogql.lexer import Kind, Token

# Brackets within brackets. Python's own stack holds several calls for each.
MAX_NESTING = 100

# Words with a meaning of their own where a name could stand: a name that is one of them needs
# backticks, except after a dot.
_CLAUSES = (
    "select from prewhere where group having order limit offset union intersect except window "
    "settings format into qualify final sample with by distinct as on using array"
)
_JOINS = "join inner left right full cross asof semi anti global"
_OPERATORS = "and or not in is like ilike between when then else end case desc asc"
RESERVED = frozenset(f"{_CLAUSES} {_JOINS} {_OPERATORS}".split())
# Of these, the ones that can begin or be an expression nevertheless.
_AS_NAMES = "left right array format window offset final sample settings full global anti semi"
NAMES_TOO = frozenset(f"{_AS_NAMES} asof desc asc inner cross end by".split())


class Cursor:
    """The token at hand, and steps from it."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self.token = tokens[0]

    def advance(self) -> Token:
        """The token at hand; the next one is at hand from now on."""
        token = self.token
        if token.kind is not Kind.END:
            self._at += 1
            self.token = self._tokens[self._at]
        return token

    def ahead(self, steps: int = 1) -> Token:
        return self._tokens[min(self._at + steps, len(self._tokens) - 1)]

    @property
    def last_end(self) -> int:
        return self._tokens[self._at - 1].end if self._at else 0

    def at(self, *words: str) -> bool:
        """Whether these words or operators come next, in this order."""
        if self.token.word != words[0]:
            return False
        return all(self.ahead(n).word == words[n] for n in range(1, len(words)))

    def take(self, *words: str) -> bool:
        """Steps over these words if they come next."""
        if not self.at(*words):
            return False
        for _ in words:
            self.advance()
        return True

    def need(self, *words: str) -> None:
        if not self.take(*words):
            raise self.unexpected(f"Expected {' '.join(words).upper()}")

    def name(self, what: str = "a name") -> str:
        """Any word or quoted name."""
        if self.token.kind not in (Kind.WORD, Kind.QUOTED):
            raise self.unexpected(f"Expected {what}")
        return self.advance().text

    def unexpected(self, what: str = "") -> HogQLError:
        token = self.token
        if token.kind is Kind.END:
            found = "the text ends"
        elif token.kind is Kind.STRING:
            found = f"found the text {shown(token.text)}"
        else:
            found = f"found {shown(token.text or 'an f-string')}"
        hint = did_you_mean(token.word, RESERVED) if token.word.isalpha() else ""
        if token.word in RESERVED:
            hint = "A name that is also a keyword needs backticks."
        return HogQLError(f"{what or 'Unexpected text'}, but {found}", start=token.start, hint=hint)

    def enter(self) -> None:
        """One level deeper. After an error nobody reads on, so nothing needs to leave then."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise HogQLError(
                f"The query nests deeper than {MAX_NESTING} levels", start=self.token.start
            )

    def leave(self) -> None:
        self._depth -= 1
