"""JSON in and out. Reading is strict and bounded: what it returns can be stored and sent
anywhere.
"""

import json
import math
import re
from typing import Any, NoReturn

import msgspec

from hedgerow.lib.text import storable_text

MAX_DEPTH = 100
MAX_DIGITS = 4300

_encoder = msgspec.json.Encoder()
_sorted = msgspec.json.Encoder(order="sorted")


class JsonError(ValueError):
    """The bytes are not JSON that we take. The message is fit for the caller to read."""


def encode(value: Any) -> bytes:
    return _encoder.encode(value)


def canonical(value: Any) -> bytes:
    """The same bytes for values that are the same as JSON."""
    return _sorted.encode(value)


def decode(text: str | bytes) -> Any:
    """The value of JSON that is known to be good, such as what we stored ourselves."""
    return msgspec.json.decode(text)


def same(one: Any, other: Any) -> bool:
    """Equal as JSON is: to Python, 1 and true and 1.0 are all the same."""
    return bool(one == other) and _sorted.encode(one) == _sorted.encode(other)


def storable(value: Any) -> Any:
    """The value with U+FFFD in place of what no database takes in a text."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return {storable(name): storable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [storable(each) for each in value]
    return value


def parse(data: bytes) -> Any:
    """The value of a JSON document, or JsonError. Never another exception, whatever the bytes."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JsonError(f"JSON parse error - invalid UTF-8 at byte {error.start}") from None
    # Looking at every number makes reading three times as slow, so only where one may be too large.
    check = _NUMBERS if _SUSPICIOUS.search(data) else {}
    try:
        value = json.loads(text, parse_constant=_refuse_constant, **check)
    except RecursionError:
        raise JsonError(_too_deep()) from None
    except ValueError as error:
        raise JsonError(f"JSON parse error - {error}") from None
    if is_deeper(value, MAX_DEPTH):
        raise JsonError(_too_deep())
    return value


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


_NUMBERS: dict[str, Any] = {"parse_int": _integer, "parse_float": _number}
# An exponent of three digits, or a run of digits that no double holds.
_SUSPICIOUS = re.compile(rb"[eE][+]?[0-9]{3}|[0-9]{300}")


def _too_deep() -> str:
    return f"JSON parse error - nested deeper than {MAX_DEPTH} levels"


def is_deeper(value: Any, limit: int) -> bool:
    """Whether a value nests deeper than so many levels."""
    level = [value]
    for _ in range(limit):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True
