"""Regular expressions that cannot hang: RE2 takes time in proportion to the text and to the
pattern, so their product is bounded. What RE2 does not know (look-around, back references, letters
beyond ASCII in \\w) goes to an engine that is stopped after a while.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from operator import methodcaller

import re2
import regex

TIMEOUT_S = 0.005
PATTERN_MAX = 2000
TEXT_MAX = 10_000
# How many steps a pattern may have, and how many may be taken over a text: at worst some 50 ms.
PROGRAM_MAX = 10_000
STEPS_MAX = 1_000_000
# Counted repeats multiply when they nest, and the other engine writes them all out.
MAX_REPEATS = 5000

# True, false, or None when the search was given up.
Search = Callable[[str], bool | None]


def _options(max_mem: int) -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = max_mem
    return options


# Little memory makes RE2 refuse a vast pattern before it spends seconds on it; searching is faster
# with more.
_to_check = _options(1 << 20)
_to_search = _options(2 << 20)

_BEYOND_RE2 = re.compile(r"invalid perl operator|invalid escape sequence")
# RE2 knows these for ASCII only.
_CLASSES = re.compile(r"\\[wWdDsSbB]")
# What matters for repeats and ends, in the order in which it must be looked for: escapes and
# classes hide the rest.
_PIECES = re.compile(
    r"(?P<escape>\\.)|(?P<cls>\[\^?\]?(?:[^\]\\]|\\.)*\])|(?P<open>\()|(?P<close>\))"
    r"|\{(?P<low>[0-9]{1,9})(?:,(?P<high>[0-9]{0,9}))?\}|(?P<end>\$)|(?P<other>.)",
    re.DOTALL,
)
# Text as it stands, at an end perhaps, as in `@example\.com$`: what most patterns are.
_PLAIN = re.compile(
    r"(?P<start>\^?)(?P<text>(?:[A-Za-z0-9_@ ,:;/'\"=<>!%&-]|\\[!-/:-@\[-^`{-~])*)(?P<end>\$?)"
)
# Half a character is in no pattern's alphabet.
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(.)")
_MULTILINE = re.compile(r"\(\?[a-z]*m", re.IGNORECASE)


class BadPattern(ValueError):
    """Neither engine understands the pattern."""


@lru_cache(maxsize=1024)
def searcher(pattern: str) -> Search:
    """Says whether the pattern is found anywhere in a text. Case counts."""
    if len(pattern) > PATTERN_MAX:
        raise BadPattern(f"more than {PATTERN_MAX} characters")
    plain = _PLAIN.fullmatch(pattern)
    return _plain_search(plain) if plain else _linear(pattern)


def _plain_search(pattern: re.Match[str]) -> Search:
    """For text as it stands: no engine is as fast as comparing it."""
    wanted = _ESCAPE.sub(r"\1", pattern["text"])
    holds: Callable[[str], bool]
    match bool(pattern["start"]), bool(pattern["end"]):
        case True, True:
            holds = wanted.__eq__
        case True, False:
            holds = methodcaller("startswith", wanted)
        case False, True:
            holds = methodcaller("endswith", wanted)
        case _:
            holds = methodcaller("__contains__", wanted)

    def search(text: str) -> bool | None:
        if len(text) > TEXT_MAX:
            return None
        return holds(text) and (text.isascii() or not _HALF.search(text))

    return search


def _linear(pattern: str) -> Search:
    try:
        # A set says less about what is wrong, and searches faster.
        program_size = re2.compile(pattern, _to_check).programsize
        if program_size > PROGRAM_MAX:
            raise BadPattern("it is too large: use fewer or smaller repeats")
        found = re2.Set.SearchSet(_to_search)
        found.Add(pattern)
        found.Compile()
    except UnicodeEncodeError:
        return _bounded(pattern)
    except re2.error as error:
        if not _BEYOND_RE2.search(_words(error)):
            raise BadPattern(_words(error)) from None
        return _bounded(pattern)
    match = found.Match
    beyond_ascii = _beyond_ascii(pattern)
    text_max = min(TEXT_MAX, STEPS_MAX // program_size)

    def search(text: str) -> bool | None:
        if len(text) > text_max:
            return None
        if beyond_ascii is not None and not text.isascii():
            return beyond_ascii(text)
        try:
            return bool(match(text))
        except UnicodeEncodeError:
            return False

    return search


def is_linear(pattern: str) -> bool:
    """Whether RE2 understands it, and nothing else need be asked."""
    try:
        re2.compile(pattern, _to_check)
    except (re2.error, UnicodeEncodeError):
        return False
    return True


def _words(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _beyond_ascii(pattern: str) -> Search | None:
    """For texts with letters that RE2's classes do not know; None where RE2 must do for them."""
    if not _CLASSES.search(pattern):
        return None
    try:
        return _bounded(pattern)
    except BadPattern:
        return None


def _bounded(pattern: str) -> Search:
    if _written_out(pattern) > MAX_REPEATS:
        raise BadPattern("too many repeats within repeats")
    try:
        compiled = regex.compile(_with_strict_ends(pattern))
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


def _written_out(pattern: str) -> int:
    """How many pieces a pattern has when its counted repeats are written out."""
    sizes, last = [0], 0
    for found in _PIECES.finditer(pattern):
        if found["open"]:
            sizes.append(0)
            last = 0
        elif found["close"] and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        elif found["low"]:
            more = last * (int(found["high"] or found["low"]) - 1)
            sizes[-1] += max(more, 0)
            last += max(more, 0)
        else:
            last = 1
            sizes[-1] += 1
    return sum(sizes)


def _with_strict_ends(pattern: str) -> str:
    """`$` is the end of the text, as in RE2, and not also before a last line break."""
    if _MULTILINE.search(pattern):
        return pattern
    return _PIECES.sub(lambda found: r"\Z" if found["end"] else found[0], pattern)
