"""JSON encoding and decoding. Parsing is strict and bounded: its results can be stored and sent."""

import json
import math
from collections.abc import Collection
from typing import Any, NoReturn

import msgspec

from hedgerow.lib.text import replace_unstorable_characters

MAX_DEPTH = 100
MAX_DIGITS = 4300

# A tuple, since a union of types takes five times as long to check.
_CONTAINERS = (dict, list)
_CONTAINER_TYPES = frozenset(_CONTAINERS)
_encoder = msgspec.json.Encoder()
_sorted = msgspec.json.Encoder(order="sorted")


class JsonError(ValueError):
    """The bytes are not valid JSON. The message can be shown to the client."""


def encode(value: Any) -> bytes:
    return _encoder.encode(value)


def encode_canonical(value: Any) -> bytes:
    """Encode with sorted keys: equal JSON values give equal bytes."""
    return _sorted.encode(value)


def decode(text: str | bytes) -> Any:
    """Decode trusted JSON, such as Hedgerow's own stored values."""
    return msgspec.json.decode(text)


def is_equal(one: Any, other: Any) -> bool:
    """Compare as JSON: unlike in Python, 1, 1.0 and true differ."""
    return bool(one == other) and _sorted.encode(one) == _sorted.encode(other)


def is_storable(value: Any) -> bool:
    """Return True only if databases accept all strings of the value. Fast, for large values."""
    try:
        return b"\\u0000" not in _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError, TypeError):
        return False


def replace_unstorable(value: Any) -> Any:
    """Replace characters that databases refuse with U+FFFD, in all strings of the value."""
    if isinstance(value, str):
        return replace_unstorable_characters(value)
    if isinstance(value, dict):
        return {replace_unstorable(name): replace_unstorable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [replace_unstorable(each) for each in value]
    return value


def parse(data: bytes) -> Any:
    """Parse a JSON document. Raises JsonError and nothing else, whatever the bytes."""
    try:
        value = decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = _parse_slowly(data)
    # Counting brackets is cheap and rules out deep nesting for most documents.
    has_many_brackets = data.count(b"{") + data.count(b"[") > MAX_DEPTH
    if has_many_brackets and is_deeper_than(value, MAX_DEPTH):
        raise too_deep_error()
    return value


def _parse_slowly(data: bytes) -> Any:
    """Parse what msgspec rejects: to find the reason, or because of a byte order mark or a lone
    surrogate."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JsonError(f"JSON parse error - invalid UTF-8 at byte {error.start}") from None
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, parse_int=_integer, parse_float=_number
        )
    except RecursionError:
        raise too_deep_error() from None
    except ValueError as error:
        raise JsonError(f"JSON parse error - {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of more than {MAX_DIGITS} digits")
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number that is too large")
    return number


def too_deep_error() -> JsonError:
    return JsonError(f"JSON parse error - nested deeper than {MAX_DEPTH} levels")


def is_deeper_than(value: Any, limit: int) -> bool:
    """Return whether the value nests deeper than `limit` levels."""
    level: list[Collection[Any]] = [[value]]
    for _ in range(limit + 1):
        # Most objects hold no other ones, which is fast to find out.
        level = [
            child.values() if type(child) is dict else child
            for children in level
            if not _CONTAINER_TYPES.isdisjoint(map(type, children))
            for child in children
            if isinstance(child, _CONTAINERS)
        ]
        if not level:
            return False
    return True
