"""The one error of this room: what is wrong with a query, where, and what may have been meant."""

import difflib
from collections.abc import Iterable

from hedgerow.errors import Invalid


class HogQLError(Invalid):
    """`start` is where in the text, when that is known; `located` adds line and column."""

    status, type, code = 400, "validation_error", "hogql_error"
    default_detail = "This is not HogQL."

    def __init__(self, what: str, *, start: int | None = None, hint: str = "") -> None:
        self.what = what
        self.start = start
        self.hint = hint
        super().__init__(_sentence(what, "", hint))

    def located(self, text: str) -> "HogQLError":
        """The same error, with the place in this text."""
        if self.start is None:
            return self
        before = text[: self.start]
        line = before.count("\n") + 1
        column = self.start - (before.rfind("\n") + 1) + 1
        self.detail = _sentence(self.what, f" at line {line}, column {column}", self.hint)
        self.args = (self.detail,)
        return self


def _sentence(what: str, place: str, hint: str) -> str:
    return f"{what}{place}.{f' {hint}' if hint else ''}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint naming up to three known names that look like this one; empty when none does."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower()[:100], by_lower, n=3, cutoff=0.7)
    if not close:
        return ""
    meant = " or ".join(f"'{by_lower[each]}'" for each in close)
    return f"Did you mean {meant}?"


def shown(text: str) -> str:
    """A piece of the caller's text for a message, in quotes and not too long."""
    return f"'{text if len(text) <= 60 else text[:57] + '...'}'"
