"""JSON in and out. Reading is strict and bounded: what it returns can be stored and sent
anywhere.
"""

import json
from typing import Any, NoReturn

import msgspec

MAX_DEPTH = 100

_encoder = msgspec.json.Encoder()


class JsonError(ValueError):
    """The bytes are not JSON that we take. The message is fit for the caller to read."""


def encode(value: Any) -> bytes:
    return _encoder.encode(value)


def parse(data: bytes) -> Any:
    """The value of a JSON document, or JsonError. Never another exception, whatever the bytes."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JsonError(f"JSON parse error - invalid UTF-8 at byte {error.start}") from None
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise JsonError(_too_deep()) from None
    except ValueError as error:  # also an integer of more digits than Python converts
        raise JsonError(f"JSON parse error - {error}") from None
    if _deeper_than(value, MAX_DEPTH):
        raise JsonError(_too_deep())
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _too_deep() -> str:
    return f"JSON parse error - nested deeper than {MAX_DEPTH} levels"


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit + 1):
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
