"""Regular expressions with a bounded run time.

RE2 runs in time proportional to text and pattern, so their product is limited. Patterns that RE2
does not support (look-around, back references, non-ASCII letters in \\w) run in another engine with
a timeout.
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
# The maximum size of a program, and of its steps over a text: at worst about 10 ms.
PROGRAM_MAX = 10_000
STEPS_MAX = 200_000
# RE2 searches with a smaller program in less than a millisecond.
FAST_PROGRAM_MAX = 40
PLAIN_COST_US = 20
FAST_COST_US = 200
SLOW_COST_US = 10_000
# Nested counted repeats multiply, and the other engine expands them all.
MAX_REPEATS = 5000

# Returns true, false, or None if the search was aborted.
Search = Callable[[str], bool | None]


def _options(max_mem: int) -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = max_mem
    return options


# With little memory RE2 rejects huge patterns quickly; searching is faster with more.
_to_check = _options(1 << 20)
_to_search = _options(2 << 20)

_BEYOND_RE2 = re.compile(r"invalid perl operator|invalid escape sequence")
# RE2 supports these for ASCII only.
_CLASSES = re.compile(r"\\[wWdDsSbB]")
# The parts that matter for repeats and ends. Escapes and classes come first: they hide the rest.
_PIECES = re.compile(
    r"(?P<escape>\\.)|(?P<cls>\[\^?\]?(?:[^\]\\]|\\.)*\])|(?P<open>\()|(?P<close>\))"
    r"|\{(?P<low>[0-9]{1,9})(?:,(?P<high>[0-9]{0,9}))?\}|(?P<end>\$)|(?P<other>.)",
    re.DOTALL,
)
# Literal text, possibly anchored, as in `@example\.com$`: most patterns are like this.
_PLAIN = re.compile(
    r"(?P<start>\^?)(?P<text>(?:[A-Za-z0-9_@ ,:;/'\"=<>!%&-]|\\[!-/:-@\[-^`{-~])*)(?P<end>\$?)"
)
# Lone surrogates never match.
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(.)")
_MULTILINE = re.compile(r"\(\?[a-z]*m", re.IGNORECASE)


class BadPattern(ValueError):
    """Neither engine supports the pattern."""


@lru_cache(maxsize=1024)
def compile_search(pattern: str) -> Search:
    """Return a function that searches a text for the pattern. Case-sensitive."""
    if len(pattern) > PATTERN_MAX:
        raise BadPattern(f"more than {PATTERN_MAX} characters")
    plain = _PLAIN.fullmatch(pattern)
    return _plain_search(plain) if plain else _linear(pattern)


@lru_cache(maxsize=1024)
def estimate_cost_us(pattern: str) -> int:
    """Return how long a search can take at worst, in microseconds of CPU time."""
    if len(pattern) > PATTERN_MAX or _PLAIN.fullmatch(pattern):
        return PLAIN_COST_US
    if _CLASSES.search(pattern):
        return SLOW_COST_US  # texts with non-ASCII letters need the other engine
    try:
        program_size = re2.compile(pattern, _to_check).programsize
    except (re2.error, UnicodeEncodeError):
        return SLOW_COST_US
    return FAST_COST_US if program_size <= FAST_PROGRAM_MAX else SLOW_COST_US


def _plain_search(pattern: re.Match[str]) -> Search:
    """Search for literal text by comparison, which is faster than any engine."""
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
        # A set searches faster, but its error messages are worse.
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
    """Whether RE2 supports the pattern."""
    try:
        re2.compile(pattern, _to_check)
    except (re2.error, UnicodeEncodeError):
        return False
    return True


def _words(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _beyond_ascii(pattern: str) -> Search | None:
    """Return a search for texts with non-ASCII letters, None if RE2 has to be used for them."""
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
    """Return the number of pieces of a pattern with its counted repeats expanded."""
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
    """Make `$` match the end of the text only, as in RE2, not before a last line break."""
    if _MULTILINE.search(pattern):
        return pattern
    return _PIECES.sub(lambda found: r"\Z" if found["end"] else found[0], pattern)
