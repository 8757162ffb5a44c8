"""A JSON parser for SDK payloads: lenient, with limits on size and depth."""

import json
import math
import re
from contextlib import suppress
from itertools import accumulate
from typing import Any

import msgspec

from hedgerow.errors import TooLarge
from hedgerow.http.payload.errors import MalformedData
from hedgerow.http.payload.limits import PayloadLimits
from hedgerow.lib.jsonio import MAX_DEPTH, MAX_DIGITS, is_deeper_than

# A value cut at this depth is still too deep for an event inside a batch inside an object.
CUT_DEPTH = MAX_DEPTH + 4
HEAD_BYTES = 4096
# An ordinary document has at most one object or list in so many bytes.
ORDINARY_OBJECT_BYTES = 32

# The first byte of an object or a list.
OPENERS = (b"{", b"[")
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}[]")
_LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)

_decoded = msgspec.json.Decoder().decode


def parse_json(data: bytes, is_lenient: bool, limits: PayloadLimits) -> Any:
    objects = check_counts(data, is_lenient, limits)
    # Few documents have enough brackets to be too deep: most are batches.
    if objects > MAX_DEPTH:
        if objects * ORDINARY_OBJECT_BYTES <= len(data):
            with suppress(ValueError, RecursionError):
                value = _decoded(data)
                if not is_deeper_than(value, MAX_DEPTH):
                    return value
        if _is_too_deep(data):
            if not is_lenient:
                raise _too_deep_error()
            data = _cut_nesting(data)
    try:
        return _decoded(data)
    except ValueError:
        return _parse_lenient(data, is_lenient)
    except RecursionError:
        raise _too_deep_error() from None


def check_counts(data: bytes, is_lenient: bool, limits: PayloadLimits) -> int:
    """Return the number of objects and lists, which is cheap to count. Raises TooLarge beyond the
    limits."""
    objects = data.count(b"{") + data.count(b"[")
    # A value and its comma have at least two bytes.
    has_many_values = len(data) > 2 * limits.max_values and data.count(b",") > limits.max_values
    if objects > limits.max_objects or has_many_values:
        if not is_lenient and begins_too_deep(data):
            raise _too_deep_error()
        raise TooLarge(
            f"A request may hold at most {limits.max_values} values and {limits.max_objects} "
            "objects. Send fewer in each request."
        )
    return objects


def _parse_lenient(data: bytes, is_lenient: bool) -> Any:
    """Parse JSON as Python and JavaScript write it. NaN, Infinity and numbers too large for a float
    become null. A lone surrogate, from truncated text, becomes U+FFFD, unless `is_lenient` leaves
    it to the caller."""
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise MalformedData(f"invalid UTF-8 at byte {error.start}.") from None
    except RecursionError:
        raise _too_deep_error() from None
    except json.JSONDecodeError as error:
        raise MalformedData(f"it is not JSON: {error}.") from None
    except ValueError:
        raise MalformedData(f"a number has more than {MAX_DIGITS} digits.") from None
    if is_lenient or not _LONE_SURROGATE.search(text):
        return value
    unescaped = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
    return _decoded(unescaped.decode("utf-16-le", "replace"))


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _too_deep_error() -> MalformedData:
    return MalformedData(f"it is nested deeper than {MAX_DEPTH} levels.")


def begins_too_deep(document: bytes) -> bool:
    """Whether the first bytes of a document are nested too deep, such as brackets without end."""
    return _is_too_deep(document[:HEAD_BYTES])


def _is_too_deep(document: bytes) -> bool:
    """Whether valid JSON is nested too deep: outside strings, brackets count +1 and -1. Slower than
    walking the value of an ordinary document, and several times faster for hostile ones."""
    unescaped = document.replace(b"\\\\", b"").replace(b'\\"', b"")
    steps = b"".join(unescaped.split(b'"')[::2]).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > MAX_DEPTH


def _cut_nesting(document: bytes) -> bytes:
    """Replace every value below CUT_DEPTH with a number."""
    pieces: list[bytes] = []
    depth = begin = 0
    for found in _STRING_OR_BRACKET.finditer(document):
        sign = document[found.start()]
        if sign in b"[{":
            depth += 1
            if depth == CUT_DEPTH + 1:
                pieces += (document[begin : found.start()], b"0")
        elif sign in b"]}":
            if depth == CUT_DEPTH + 1:
                begin = found.end()
            depth -= 1
    return b"".join(pieces) + document[begin:] if depth <= CUT_DEPTH else document
