"""The error for an invalid query: the problem, its position, and a hint."""

import difflib
from collections.abc import Iterable

from hedgerow.errors import Invalid


class HogQLError(Invalid):
    """`start` is the offset of the problem in the query text, if known. `with_position` adds the
    line and column to the message."""

    status, type, code = 400, "validation_error", "hogql_error"
    default_detail = "Invalid HogQL."

    def __init__(self, what: str, *, start: int | None = None, hint: str = "") -> None:
        self.problem = what
        self.start = start
        self.hint = hint
        super().__init__(_sentence(what, "", hint))

    def with_position(self, text: str) -> "HogQLError":
        """Add the position in this query text to the message, and return the error."""
        if self.start is None:
            return self
        before = text[: self.start]
        line = before.count("\n") + 1
        column = self.start - (before.rfind("\n") + 1) + 1
        self.detail = _sentence(self.problem, f" at line {line}, column {column}", self.hint)
        self.args = (self.detail,)
        return self


def _sentence(what: str, place: str, hint: str) -> str:
    return f"{what}{place}.{f' {hint}' if hint else ''}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with up to three known names that resemble this one, or an empty string."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower()[:100], by_lower, n=3, cutoff=0.7)
    if not close:
        return ""
    meant = " or ".join(f"'{by_lower[each]}'" for each in close)
    return f"Did you mean {meant}?"


def quote(text: str) -> str:
    """A piece of the caller's text for a message, in quotes and not too long."""
    return f"'{text if len(text) <= 60 else text[:57] + '...'}'"
