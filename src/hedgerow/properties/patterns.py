"""Regular expressions that cannot hang: RE2 takes time in proportion to the text. What RE2 does
not know (look-around, back references, letters beyond ASCII in \\w) goes to an engine that is
stopped after a while.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from math import prod

import re2
import regex

TIMEOUT_S = 0.005
PATTERN_MAX = 2000
TEXT_MAX = 10_000
# Counted repeats multiply when they nest, and the other engine writes them all out.
MAX_REPEATS = 1000

# True, false, or None when the search was given up.
Search = Callable[[str], bool | None]

_options = re2.Options()
_options.log_errors = False
_options.max_mem = 8 << 20

_BEYOND_RE2 = re.compile(r"invalid perl operator|invalid escape sequence")
# RE2 knows these for ASCII only.
_CLASSES = re.compile(r"\\[wWdDsSbB]")
_REPEATS = re.compile(r"\{([0-9]+)(?:,([0-9]*))?\}")


class BadPattern(ValueError):
    """Neither engine understands the pattern."""


@lru_cache(maxsize=4096)
def searcher(pattern: str) -> Search:
    """Says whether the pattern is found anywhere in a text. Case counts."""
    if len(pattern) > PATTERN_MAX:
        raise BadPattern(f"more than {PATTERN_MAX} characters")
    try:
        re2.compile(pattern, _options)  # a set says less about what is wrong, and searches faster
    except UnicodeEncodeError:
        return _bounded(pattern)
    except re2.error as error:
        if not _BEYOND_RE2.search(_words(error)):
            raise BadPattern(_words(error)) from None
        return _bounded(pattern)
    found = re2.Set.SearchSet(_options)
    found.Add(pattern)
    found.Compile()
    match = found.Match
    beyond_ascii = _bounded(pattern) if _CLASSES.search(pattern) else None

    def search(text: str) -> bool | None:
        if len(text) > TEXT_MAX:
            return None
        if beyond_ascii is not None and not text.isascii():
            return beyond_ascii(text)
        try:
            return bool(match(text))
        except UnicodeEncodeError:  # half a character is in no pattern's alphabet
            return False

    return search


def _words(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _bounded(pattern: str) -> Search:
    repeats = prod(int(high or low) or 1 for low, high in _REPEATS.findall(pattern))
    if repeats > MAX_REPEATS:
        raise BadPattern("too many repeats within repeats")
    try:
        compiled = regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise BadPattern(str(error)) from None

    def search(text: str) -> bool | None:
        if len(text) > TEXT_MAX:
            return None
        try:
            return compiled.search(text, timeout=TIMEOUT_S) is not None
        except (TimeoutError, MemoryError):
            return None

    return search
